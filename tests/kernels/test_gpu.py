import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

CASES = [Path(__file__).with_name(name) for name in ("gpu_cases.py", "gpu_product_cases.py")]


@pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")
def test_the_kernels_for_gpus_equal_the_plain_ones() -> None:
    # Triton decides when it is imported whether kernels are interpreted, as they must be
    # without a GPU; and PyTorch has imported it here long since.
    interpret = "0" if torch.cuda.is_available() else "1"
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, CASES)],
        env={**os.environ, "TRITON_INTERPRET": interpret},
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
