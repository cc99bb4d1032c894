from __future__ import annotations

import json
from statistics import fmean, median, stdev
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from crossgcn.errors import BadInput, WorkFailed
from crossgcn.graph.prepared import choose_device
from crossgcn.reproduction.run import measure_epoch_seconds
from crossgcn.training.config import RunConfig
from crossgcn.training.full_batch import FullBatchStep

MODELS = ["gcn", "gin", "cross-gcn", "cross-gcn-release", "cross-gcn-release-fix"]


def _config(model: str = "cross-gcn", **settings: Any) -> RunConfig:
    return RunConfig.create(model=model, splits="public", hidden_channels=8, **settings)


def test_the_record_is_complete_and_can_be_written(small_graph: Data) -> None:
    record = measure_epoch_seconds(_config(), small_graph, epochs=5, warmup=2, device="cpu")
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert len(record["seconds"]) == record["epochs"] == 5 and record["warmup"] == 2
    assert min(record["seconds"]) > 0
    assert record["mean"] == fmean(record["seconds"])
    assert record["sd"] == stdev(record["seconds"])
    assert record["median"] == median(record["seconds"])
    assert record["parameters"] == 2 * 24 * 8 + 2 + 2 * 8 * 3 + 2
    assert record["train_nodes"] == 30 <= record["input_nodes"] <= 90
    assert (record["device"], record["peak_memory_bytes"]) == ("cpu", None)
    assert record["device_name"]
    assert record["environment"]["threads"] == torch.get_num_threads()
    assert record["environment"]["versions"]["torch"] == torch.__version__
    assert record["dataset"]["name"] == "small"
    assert (record["config"]["model"], record["config"]["hidden_channels"]) == ("cross-gcn", 8)
    assert "epochs" not in record["config"]


@pytest.mark.parametrize("model", MODELS)
def test_what_is_timed_is_training(small_graph: Data, model: str) -> None:
    config = _config(model, dropout=0.0)
    record = measure_epoch_seconds(config, small_graph, epochs=30, warmup=1, device="cpu")
    first, last = record["losses"]
    assert last < 0.8 * first


def test_the_warm_up_trains_but_is_not_counted(small_graph: Data) -> None:
    config = _config(dropout=0.0)
    none = measure_epoch_seconds(config, small_graph, epochs=4, warmup=0, device="cpu")
    three = measure_epoch_seconds(config, small_graph, epochs=1, warmup=3, device="cpu")
    assert three["losses"] == [none["losses"][1]] * 2
    assert len(three["seconds"]) == 1 and three["sd"] is None


def test_measuring_leaves_the_callers_randomness_alone(small_graph: Data) -> None:
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    measure_epoch_seconds(_config(), small_graph, epochs=1, warmup=0)
    assert torch.equal(torch.rand(3), wanted)


def test_a_width_beyond_all_memory_says_so_with_sizes(small_graph: Data) -> None:
    config = _config().model_copy(update={"hidden_channels": 10**13})
    with pytest.raises(WorkFailed) as caught:
        measure_epoch_seconds(config, small_graph, device="cpu")
    message = str(caught.value)
    assert "10000000000000 hidden channels on small (90 nodes" in message
    assert "memory of cpu; lower --hidden-channels" in message


@pytest.mark.parametrize(
    "complaint",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
        RuntimeError("CUDA error: CUSPARSE_STATUS_ALLOC_FAILED when calling `cusparseCreate`"),
        MemoryError(),
    ],
)
def test_a_device_that_is_full_while_training_says_so_too(
    small_graph: Data, monkeypatch: pytest.MonkeyPatch, complaint: Exception
) -> None:
    def fail(*_: object) -> None:
        raise complaint

    monkeypatch.setattr(FullBatchStep, "run", fail)
    with pytest.raises(WorkFailed, match="cross-gcn with 2 layers of 8 hidden channels on small"):
        measure_epoch_seconds(_config(), small_graph)


def test_any_other_failure_is_not_called_a_lack_of_memory(
    small_graph: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(FullBatchStep, "run", fail)
    with pytest.raises(RuntimeError, match="illegal memory access") as caught:
        measure_epoch_seconds(_config(), small_graph)
    assert not isinstance(caught.value, WorkFailed)


def test_useless_numbers_and_devices_are_refused(small_graph: Data) -> None:
    with pytest.raises(BadInput, match="epochs is 0 and warmup 3"):
        measure_epoch_seconds(_config(), small_graph, epochs=0)
    with pytest.raises(BadInput, match="epochs is 1 and warmup -1"):
        measure_epoch_seconds(_config(), small_graph, epochs=1, warmup=-1)
    for name in ("toaster", "meta"):
        with pytest.raises(BadInput, match=f"device is '{name}'; give 'auto', 'cpu' or 'cuda'"):
            choose_device(name)
    with pytest.raises(BadInput, match=r"device is 'cuda:99', but torch sees \d+ CUDA devices"):
        choose_device("cuda:99")
