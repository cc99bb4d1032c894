import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")


@needs_triton
def test_the_kernels_for_gpus_equal_the_plain_ones() -> None:
    # Kernels must be interpreted without a GPU.
    run("gpu_cases.py", interpret=not torch.cuda.is_available())


@needs_triton
def test_the_kernels_for_gpus_can_be_compiled() -> None:
    run("gpu_compile_cases.py", interpret=False)


def run(*names: str, interpret: bool) -> None:
    # Triton decides when it is imported whether kernels are interpreted; and PyTorch has imported
    # it here long since.
    cases = (str(Path(__file__).with_name(name)) for name in names)
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *cases],
        env={**os.environ, "TRITON_INTERPRET": str(int(interpret))},
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
