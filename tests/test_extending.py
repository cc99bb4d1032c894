"""The worked examples of docs/extending.md: each is one file and one line, and works everywhere."""

from __future__ import annotations

import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn import (
    BadInput,
    CrossGCN,
    PreparedGraph,
    RunConfig,
    Split,
    build_model,
    explain,
    train_full_batch,
)
from crossgcn.layers import catalogue as layers
from crossgcn.models import catalogue as models

BLOCKS = re.findall(
    r"```python\n(.*?)```", (Path(__file__).parents[1] / "docs/extending.md").read_text(), re.DOTALL
)
EDGES = torch.tensor([[0, 1, 1, 2, 3, 3, 4, 5], [1, 0, 2, 1, 4, 5, 3, 3]])
Y = torch.arange(6) % 3
SPLIT = Split(torch.tensor([0, 1, 2]), torch.tensor([3, 4]), torch.tensor([5]))


def parse() -> tuple[dict[str, str], dict[str, str]]:
    """Source by module, and entries by table."""
    sources, entries = {}, {}
    for block in BLOCKS:
        where, code = block.split("\n", 1)
        if "," in where:
            entries[where.split(", ")[1]] = code
        else:
            module = where.removeprefix("# src/").removesuffix(".py").replace("/", ".")
            sources[module] = code
    return sources, entries


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    sources, entries = parse()
    for name, source in sources.items():
        module = types.ModuleType(name)
        exec(compile(source, name, "exec"), vars(module))
        monkeypatch.setitem(sys.modules, name, module)
    for table, entry in entries.items():
        home = models if table == "PRESETS" else layers
        for name, part in eval("{" + entry + "}", vars(home)).items():
            monkeypatch.setitem(getattr(home, table), name, part)


def features() -> Tensor:
    return torch.randn(6, 5, generator=torch.Generator().manual_seed(0))


def train(model: Any, **settings: Any) -> Any:
    graph = PreparedGraph(features(), EDGES)
    train_full_batch(model, graph, Y, SPLIT, seed=0, epochs=20, **settings)
    return model.eval()


def test_blocks_are_short_and_there_is_one_file_and_one_line_for_each() -> None:
    sources, entries = parse()
    assert len(sources) == len(entries) == 4
    for block in BLOCKS:
        code = [line for line in block.splitlines() if line.strip() and not line.startswith("#")]
        assert len(code) <= 15
    assert all(len(entry.strip().splitlines()) == 1 for entry in entries.values())


@pytest.mark.parametrize(
    "options",
    [
        {"aggr": "mid-range"},
        {"order_weights": "halved", "order": 3},
        {"transform": "powers", "order": 3},
        {"transform": "powers", "aggregate_first": True},
    ],
)
def test_the_part_trains_and_is_the_same_function_on_a_prepared_graph(
    options: dict[str, Any],
) -> None:
    model = train(CrossGCN(5, 8, 2, 3, dropout=0.2, **options))
    view = PreparedGraph(features(), EDGES).view(torch.arange(6), model.propagations)
    torch.testing.assert_close(model(*view), model(features(), EDGES))


def test_the_aggregation_is_the_middle_of_the_extremes() -> None:
    aggregation = layers.make_aggregation("mid-range", 5)
    x = features()
    hop = PreparedGraph(x, EDGES).edges("self-loops")
    expected = torch.stack([x[[3, 4]].amax(0), x[[3, 4]].amin(0)]).mean(0)
    torch.testing.assert_close(aggregation(x, [hop])[4], expected)


def test_explain_reads_the_order_aggregation_and_refuses_the_others() -> None:
    data = Data(x=features(), edge_index=EDGES)
    model = train(CrossGCN(5, 8, 2, 3, order=[3, 1], order_weights="halved"))
    score = model(data.x, data.edge_index)[2].max().item()
    assert explain(model, data, 2, top=1000)["contribution"].sum() == pytest.approx(score, abs=1e-4)
    with pytest.raises(BadInput, match="layer 1 joins neighbours by 'mid-range'"):
        explain(CrossGCN(5, 8, 2, 3, aggr="mid-range"), data)
    with pytest.raises(BadInput, match="layer 1 transforms features by a Powers"):
        explain(CrossGCN(5, 8, 2, 3, transform="powers"), data)


def test_the_model_is_trained_with_its_own_loss_term_and_not_in_batches() -> None:
    from crossgcn.training.batches.train import refuse_batches

    entropy = {}
    for name in ("mlp", "confident"):
        torch.manual_seed(0)
        chances = train(build_model(name, 5, 3, dropout=0.0))(features()).detach().softmax(-1)
        entropy[name] = -(chances * chances.log()).sum(-1).mean().item()
    assert entropy["confident"] < entropy["mlp"]
    with pytest.raises(BadInput, match="lowers the entropy of all predictions in each step"):
        refuse_batches(build_model("confident", 5, 3))
    assert RunConfig(model="confident").model == "confident"
    data = Data(x=features(), edge_index=EDGES)
    model = train(build_model("confident", 5, 3))
    scores = model(features()).detach().numpy()
    explained = explain(model, data, 0, top=1000)["contribution"].sum()
    np.testing.assert_allclose(explained, scores[0].max(), atol=1e-4)


def test_help_lists_everything() -> None:
    _, entries = parse()
    code = "\n".join(
        [
            "import sys",
            "from crossgcn.layers.catalogue import *",
            "from crossgcn.layers.catalogue import Part",
            "from crossgcn.models.catalogue import PRESETS, Preset",
            *(f"{table}.update({{{entry.strip()}}})" for table, entry in entries.items()),
            "from crossgcn.cli import main",
            "sys.argv = ['crossgcn', 'train', '--help-all']",
            "sys.exit(main())",
        ]
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.replace("│", " ").split())
    for name in ("mid-range", "halved", "powers", "confident: a perceptron made to be certain"):
        assert name in text
