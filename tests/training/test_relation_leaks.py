"""No label of a validation or test node is in the columns of any relation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.graph import canonical_graph
from crossgcn.data.relations import Relation
from crossgcn.data.splits import Split
from crossgcn.models.cross_hops import CrossHops
from crossgcn.training.config import RunConfig
from crossgcn.training.trainer import Run, Trainer

KINDS: dict[str, dict[str, Any]] = {
    "ties": {},
    "follows": {"directed": True},
    "same team": {"things": tuple(map(str, range(60)))},
}


def rows(y: Tensor, only: str | None) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    ends = {name: torch.randint(60, (2, 150), generator=generator) for name in KINDS}
    relations = tuple(
        Relation(name, ends[name], **KINDS[name]) for name in KINDS if only in (None, name)
    )
    x = torch.rand(60, 2, generator=generator)
    data = Data(x=x, relations=relations, y=y, num_classes=1 + int(y.max()))
    split = Split(*torch.split(torch.arange(60), 20))
    trainer = Trainer(canonical_graph(data), [split])
    model = trainer.build(Run(RunConfig(model="cross-hops"), 0))
    assert isinstance(model, CrossHops)
    return trainer.hop_rows(model, split).rows(torch.arange(60))


@pytest.mark.parametrize("only", [*KINDS, None])
@pytest.mark.parametrize("num_classes", [2, 3])
def test_labels_outside_of_training_are_in_no_column(num_classes: int, only: str | None) -> None:
    y = torch.arange(60) % num_classes
    before, other = rows(y, only), y.clone()
    other[20:] = y[20:].flip(0)
    assert not torch.equal(other, y) and torch.equal(rows(other, only), before)
    other[:20] = y[:20].roll(1)
    assert not torch.equal(rows(other, only), before)
