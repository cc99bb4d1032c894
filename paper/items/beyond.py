"""What the paper leaves open: higher orders, and a bias."""

from __future__ import annotations

from paper.cells import Claim, Item, Line, Row
from paper.items.citation import GRAPHS
from paper.verdicts import beats, row_beats

_SOURCE = "not in the paper"


ORDERS = Item(
    "orders",
    _SOURCE,
    "Crosses of pairs and of triples",
    "table",
    protocol="Citeseer-Cross with planted pairs, as in the paper, and with planted triples: one "
    "layer of ours, dropout 0.2, trained on all labelled nodes outside validation and test.",
    settings={"model": "cross-gcn", "num_layers": 1, "dropout": 0.2, "train": "all"},
    columns=(
        Line("pairs", {"dataset": "citeseer-cross"}),
        Line("triples", {"dataset": "citeseer-cross-3"}),
    ),
    rows=tuple(
        Row(f"order {order}", {"order": order}, compare_with="order 1" if order > 1 else None)
        for order in (1, 2, 3)
    ),
    claims=(
        Claim(
            "(Ours) The planted order is better than every lower one.",
            lambda r: [
                beats(r, place, place._replace(row=lower))
                for row, column, lower in (
                    ("order 2", "pairs", "order 1"),
                    ("order 3", "triples", "order 1"),
                    ("order 3", "triples", "order 2"),
                )
                for place in r.places(row, column=column)
            ],
        ),
    ),
)


BIAS = Item(
    "bias",
    _SOURCE,
    "One layer with a bias",
    "table",
    protocol="As Table 5, but with a bias in every layer. Neither the paper's models nor Kipf's "
    "GCN have one.",
    settings={"num_layers": 1, "bias": True},
    columns=GRAPHS,
    rows=(
        Row("GCN1", {"model": "gcn"}),
        Row("Cross-GCN1_Fix", {"model": "cross-gcn-release-fix"}, compare_with="GCN1"),
        Row("gated, one layer (ours)", {"model": "cross-gcn"}, compare_with="GCN1"),
    ),
    claims=(
        Claim(
            "(Ours) With a bias in every layer, too, one layer of crosses beats one of GCN.",
            lambda r: [
                *row_beats("Cross-GCN1_Fix", "GCN1")(r),
                *row_beats("gated, one layer (ours)", "GCN1")(r),
            ],
        ),
    ),
)
