from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import torch
from torch_geometric.data import Data

from crossgcn import train_full_batch
from crossgcn.data.splits import make_splits
from crossgcn.errors import BadInput
from crossgcn.graph import PreparedGraph
from crossgcn.graph.prepared import choose_device
from crossgcn.models.catalogue import build_model
from crossgcn.training.config import Precision, RunConfig
from crossgcn.training.device import PRECISIONS, check_precision, multiplying_in
from crossgcn.training.full_batch import FullBatchStep

Command = Callable[..., CompletedProcess[str]]
TINY = ("--epochs", 2, "--num-splits", 1, "--train", 5, "--hidden-channels", 4, "--workers", 1)
no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail when data is loaded or a model is trained."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("work was begun")

    monkeypatch.setattr("crossgcn.experiments.experiment.Experiment.__init__", refuse)
    monkeypatch.setattr("crossgcn.training.trainer.fit_full_batch", refuse)


@pytest.mark.parametrize("command", ["train", "compare"])
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
@pytest.mark.usefixtures("no_work")
def test_a_precision_of_gpus_is_refused_on_the_cpu_before_any_work(
    precision: str, command: str, crossgcn: Command, graph_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    models = ("--models", "gcn,mlp") if command == "compare" else ()
    done = crossgcn(
        *(command, graph_file, *models, *TINY, "--out", out),
        *("--set", f"precision={precision}", "--device", "cpu"),
    )
    assert done.returncode == 2
    assert f"precision '{precision}' needs a CUDA GPU" in done.stderr
    assert "--precision fp32" in done.stderr and "--device cuda" in done.stderr
    assert "Traceback" not in done.stderr and done.stdout == ""
    assert not out.exists()


@no_gpu
@pytest.mark.usefixtures("no_work")
def test_a_gpu_that_is_not_there_is_refused_before_any_work(
    crossgcn: Command, graph_file: Path, tmp_path: Path
) -> None:
    done = crossgcn("train", graph_file, *TINY, "--device", "cuda", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "device is 'cuda', but torch sees 0 CUDA devices; give 'cpu'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "fragments"),
    [
        (("--set", "precision=fp16"), ("--set", "precision='fp16'", "fp32", "tf32", "bf16")),
        (("--device", "tpu"), ("device", "tpu", "'auto', 'cpu' or 'cuda'")),
        (("--device", "meta"), ("device", "meta", "'auto', 'cpu' or 'cuda'")),
    ],
)
def test_names_that_are_none_are_refused_with_those_that_are(
    options: tuple[str, ...], fragments: tuple[str, ...], crossgcn: Command, graph_file: Path
) -> None:
    done = crossgcn("train", graph_file, *TINY, *options)
    assert done.returncode == 2
    for fragment in fragments:
        assert fragment in done.stderr
    assert "Traceback" not in done.stderr


@no_gpu
def test_auto_is_the_cpu_where_there_is_no_gpu(
    crossgcn: Command, graph_file: Path, tmp_path: Path
) -> None:
    results = []
    for device in ("auto", "cpu"):
        out = tmp_path / device
        done = crossgcn("train", graph_file, *TINY, "--device", device, "--out", out)
        assert done.returncode == 0, done.stderr
        (epochs,) = out.rglob("epochs.csv")
        results.append(epochs.read_text())
    assert results[0] == results[1]
    assert choose_device("auto") == torch.device("cpu")


def test_a_second_gpu_where_there_is_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert choose_device("cuda:0") == torch.device("cuda:0")
    with pytest.raises(BadInput, match="'cuda:1', but torch sees 1 CUDA devices"):
        choose_device("cuda:1")


def test_a_gpu_has_every_precision_and_the_cpu_one() -> None:
    for precision in PRECISIONS:
        check_precision(precision, torch.device("cuda"))
    check_precision("fp32", torch.device("cpu"))
    for device in ("cpu", "cuda"):
        with pytest.raises(BadInput, match=r"unknown precision 'tf23': did you mean 'tf32'"):
            check_precision("tf23", torch.device(device))


def test_training_refuses_it_too(small_graph: Data) -> None:
    graph = PreparedGraph(small_graph.x, small_graph.edge_index)
    model, split = build_model("gcn", 24, 3), make_splits(small_graph, "public")[0]
    start = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(BadInput, match=r"precision 'bf16' needs a CUDA GPU"):
        train_full_batch(model, graph, small_graph.y, split, epochs=1, precision="bf16")
    assert all(torch.equal(value, start[name]) for name, value in model.state_dict().items())


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
    x = small_graph.x.to_sparse_csr() if sparse else small_graph.x
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
        gradients.append([state[2].cpu() for state in step.optimizer.states()])
    error = {"fp32": 1e-5, "tf32": 1e-2, "bf16": 5e-2}[precision]
    for theirs, ours in zip(*gradients, strict=True):
        assert float((ours - theirs).norm()) <= error * float(theirs.norm())
