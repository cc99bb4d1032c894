from __future__ import annotations

from typing import get_args

import pytest
import torch
from torch_geometric.data import Data

from crossgcn import train_full_batch
from crossgcn.data.splits import make_splits
from crossgcn.errors import BadInput, WorkFailed
from crossgcn.graph import PreparedGraph
from crossgcn.models.catalogue import build_model
from crossgcn.training.config import Precision, RunConfig
from crossgcn.training.device import (
    check_precision,
    choose_device,
    enough_memory,
    multiplying_in,
)
from crossgcn.training.full_batch import FullBatchStep

PRECISIONS: tuple[Precision, ...] = get_args(Precision)


def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert choose_device("cuda:0") == torch.device("cuda:0")
    with pytest.raises(BadInput, match="'cuda:1', but torch sees 1 CUDA devices; give 'cpu'"):
        choose_device("cuda:1")
    for name in ("tpu", "meta"):
        with pytest.raises(BadInput, match=f"device is '{name}'; give 'auto', 'cpu' or 'cuda'"):
            choose_device(name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == torch.device("cpu")


def test_a_gpu_has_every_precision_and_the_cpu_one(small_graph: Data) -> None:
    for precision in PRECISIONS:
        check_precision(precision, torch.device("cuda"))
    check_precision("fp32", torch.device("cpu"))
    graph = PreparedGraph(small_graph.x, small_graph.edge_index)
    model, split = build_model("gcn", 24, 3), make_splits(small_graph, "public")[0]
    with pytest.raises(BadInput, match=r"'bf16' needs a CUDA GPU.*use precision fp32"):
        train_full_batch(model, graph, small_graph.y, split, RunConfig(precision="bf16"))


def test_the_settings_of_gpus_are_as_before_afterwards() -> None:
    matmul, gpu = torch.backends.cuda.matmul, torch.device("cuda")
    before = matmul.fp32_precision
    for precision in ("fp32", "tf32"):
        with pytest.raises(ZeroDivisionError), multiplying_in(precision, gpu):
            assert matmul.fp32_precision == ("tf32" if precision == "tf32" else "ieee")
            raise ZeroDivisionError
        assert matmul.fp32_precision == before


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_weight_has_its_gradient_in_every_precision(
    precision: Precision, sparse: bool, small_graph: Data
) -> None:
    x = small_graph.x if sparse else small_graph.x.to_dense()
    graph = PreparedGraph(x, small_graph.edge_index)
    torch.manual_seed(0)
    model = build_model("cross-gcn", 24, 3, hidden_channels=8, dropout=0.0)
    for name, weight in model.named_parameters():
        if name.endswith("order_weights"):
            torch.nn.init.constant_(weight, 0.5)
    gradients = []
    for device, of_products in (("cpu", "fp32"), ("cuda", precision)):
        config = RunConfig.create(precision=of_products, weight_decay=0.0)
        step = FullBatchStep(
            model, graph, small_graph.y, torch.arange(20), config, seed=0, device=device
        )
        step.run()
        gradients.append([state["exp_avg"].cpu() for state in step.optimizer.states])
    error = {"fp32": 1e-5, "tf32": 1e-2, "bf16": 5e-2}[precision]
    for theirs, ours in zip(*gradients, strict=True):
        assert float((ours - theirs).norm()) <= error * float(theirs.norm())


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 9 bytes"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        MemoryError(),
        None,
    ],
    ids=["torch", "its allocator", "cublas", "python", "a real one"],
)
def test_every_lack_of_memory_is_said_in_the_same_words(error: Exception | None) -> None:
    words = r"^work of 7 nodes does not fit.*cpu;.*--hidden-channels.*--device cpu"
    with (
        pytest.raises(WorkFailed, match=words),
        enough_memory("work of 7 nodes", torch.device("cpu")),
    ):
        if error is None:
            torch.empty(2**60)
        else:
            raise error


def test_what_does_not_fit_is_named_with_its_sizes(
    small_graph: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(step: FullBatchStep) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(FullBatchStep, "run", fail)
    graph = PreparedGraph(small_graph.x, small_graph.edge_index)
    split = make_splits(small_graph, "public")[0]
    with pytest.raises(WorkFailed, match=r"CrossGCN with 2 layers.* 90 nodes.* 24 features"):
        train_full_batch(build_model("cross-gcn", 24, 3), graph, small_graph.y, split)


def test_other_errors_are_left_as_they_are() -> None:
    error = RuntimeError("mat1 and mat2 shapes cannot be multiplied")
    with (
        pytest.raises(RuntimeError, match="mat1 and mat2"),
        enough_memory("work", choose_device("cpu")),
    ):
        raise error
