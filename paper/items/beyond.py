"""What the paper leaves open: higher orders, a bias, other aggregations, other ways to multiply."""

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

_CITESEER_CROSS = {"dataset": "citeseer-cross", "num_layers": 1, "train": "all", "dropout": 0.1}
_FAST = {"learning_rate": 0.02, "weight_decay": 0.0}
_SHORT_PROTOCOL = {"epochs": 200, "num_splits": 5}
_TWO_GRAPHS = (
    Line("Citeseer-Cross, one layer", _CITESEER_CROSS | _FAST),
    Line("Cora, two layers", {"dataset": "cora", "num_layers": 2, "hidden_channels": 16}),
)
_QUICK = {"epochs": 30, "num_splits": 2}


AGGREGATIONS = Item(
    "aggregations",
    _SOURCE,
    "Crosses with other aggregations",
    "table",
    protocol="The paper names mean, max pooling and LSTM as aggregations without trying them. "
    "CrossGCNConv(aggr=...) takes PyG's, with order 1 and with order 2; attention is PyG's "
    "GATv2Conv, and crossify(GATv2Conv(...)). One layer, 5 training sets, 200 epochs, learning "
    "rate 0.02, no weight decay, features of standard deviation one; Citeseer-Cross is trained on "
    "all nodes. The LSTM reads five neighbours of a node.",
    settings=_SHORT_PROTOCOL,
    columns=(
        Line("Citeseer-Cross", _CITESEER_CROSS | _FAST),
        Line("Cora", {"dataset": "cora", "num_layers": 1, **_FAST}),
    ),
    rows=tuple(
        Row(
            f"{aggregation}, crosses" if order > 1 else aggregation,
            {"model": aggregation.lower(), "order": order},
            compare_with=aggregation if order > 1 else None,
        )
        for aggregation in ("mean", "max", "LSTM", "attention")
        for order in (1, 2)
    ),
    claims=(
        Claim(
            "(Ours) On Citeseer-Cross crosses help with every aggregation.",
            lambda r: [
                beats(r, place, place._replace(row=place.row.removesuffix(", crosses")))
                for place in r.places(column="Citeseer-Cross")
                if place.row.endswith(", crosses")
            ],
        ),
    ),
    quick_settings=_QUICK,
)


RIVALS = Item(
    "rivals",
    _SOURCE,
    "Other ways to multiply features",
    "table",
    protocol="DCN's cross network, DCN-v2's of rank 32, xDeepFM's compressed interaction network "
    "and a higher-order factorisation machine, all of order 2, in the place of the linear map of "
    "PyG's GCNConv. Their settings are their papers' or our defaults; nothing was tuned. One layer "
    "on Citeseer-Cross trained on all nodes (learning rate 0.02, no weight decay), two layers of "
    "16 hidden units on Cora; 5 training sets, 200 epochs.",
    settings=_SHORT_PROTOCOL,
    columns=_TWO_GRAPHS,
    rows=(
        Row("GCN", {"model": "gcn"}),
        Row("DCN", {"model": "dcn"}, compare_with="GCN"),
        Row("DCN-v2", {"model": "dcn-v2"}, compare_with="GCN"),
        Row("CIN", {"model": "cin"}, compare_with="GCN"),
        Row("HOFM", {"model": "hofm"}, compare_with="GCN"),
        Row("gated (ours)", {"model": "cross-gcn"}, compare_with="GCN"),
    ),
    claims=(
        Claim(
            "(Ours) Gated crosses are better than every other way to multiply features.",
            lambda r: [
                check
                for rival in ("DCN", "DCN-v2", "CIN", "HOFM")
                for check in row_beats("gated (ours)", rival)(r)
            ],
        ),
    ),
    quick_settings=_QUICK,
)
