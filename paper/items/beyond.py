"""What the paper leaves open: higher orders, a bias, other aggregations, other ways to multiply."""

from __future__ import annotations

from collections.abc import Iterator

from paper.cells import Item, Line, Result, Row
from paper.items.citation import GRAPHS
from paper.verdicts import Check, beats, beats_everywhere

_SOURCE = "not in the paper"


def _the_planted_order_is_best(result: Result) -> Iterator[Check]:
    """(Ours) The planted order is better than every lower one."""
    for row, column in (("order 2", "pairs"), ("order 3", "triples")):
        for place in result.places(row, column=column):
            lower = range(1, int(row[-1]))
            yield from (beats(result, place, place._replace(row=f"order {k}")) for k in lower)


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
    claims=(_the_planted_order_is_best,),
)


def _crosses_beat_gcn_with_a_bias(result: Result) -> Iterator[Check]:
    """(Ours) With a bias in every layer, too, one layer of crosses beats one of GCN."""
    yield from beats_everywhere(result, "Cross-GCN1_Fix", "GCN1")
    yield from beats_everywhere(result, "gated, one layer (ours)", "GCN1")


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
    claims=(_crosses_beat_gcn_with_a_bias,),
)

_SHORT_PROTOCOL = {"epochs": 200, "num_splits": 5}
_TWO_GRAPHS = (
    Line(
        "Citeseer-Cross, one layer",
        {"dataset": "citeseer-cross", "num_layers": 1, "train": "all", "dropout": 0.1},
    ),
    Line("Cora, two layers", {"dataset": "cora", "num_layers": 2, "hidden_channels": 16}),
)
_QUICK = {"epochs": 30, "num_splits": 2}


def _crosses_work_in_every_aggregation(result: Result) -> Iterator[Check]:
    """(Ours) On Citeseer-Cross crosses help with every aggregation."""
    for aggregation in ("mean", "max", "LSTM", "attention"):
        for place in result.places(f"{aggregation}, crosses", column=_TWO_GRAPHS[0].label):
            yield beats(result, place, place._replace(row=aggregation))


AGGREGATIONS = Item(
    "aggregations",
    _SOURCE,
    "Crosses with other aggregations",
    "table",
    protocol="The paper names mean, max pooling and LSTM as aggregations without trying them. "
    "CrossGCNConv(aggr=...) takes PyG's, with order 1 and with order 2; attention is PyG's "
    "GATv2Conv, and crossify(GATv2Conv(...)). One layer on Citeseer-Cross trained on all nodes, "
    "two layers of 16 hidden units on Cora; 5 training sets, 200 epochs, no bias in CrossGCNConv.",
    settings=_SHORT_PROTOCOL,
    columns=_TWO_GRAPHS,
    rows=tuple(
        Row(
            f"{aggregation}, crosses" if order > 1 else aggregation,
            {"model": aggregation.lower(), "order": order},
            compare_with=aggregation if order > 1 else None,
        )
        for aggregation in ("mean", "max", "LSTM", "attention")
        for order in (1, 2)
    ),
    claims=(_crosses_work_in_every_aggregation,),
    quick_settings=_QUICK,
)


def _gates_beat_the_rivals(result: Result) -> Iterator[Check]:
    """(Ours) Gated crosses are better than every other way to multiply features."""
    for rival in ("DCN", "DCN-v2", "CIN", "HOFM"):
        yield from beats_everywhere(result, "gated (ours)", rival)


RIVALS = Item(
    "rivals",
    _SOURCE,
    "Other ways to multiply features",
    "table",
    protocol="DCN's cross network, DCN-v2's of rank 32, xDeepFM's compressed interaction network "
    "and a higher-order factorisation machine, all of order 2, in the place of the linear map of "
    "PyG's GCNConv. Their settings are their papers' or our defaults; nothing was tuned. One layer "
    "on Citeseer-Cross trained on all nodes, two layers of 16 hidden units on Cora; 5 training "
    "sets, 200 epochs.",
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
    claims=(_gates_beat_the_rivals,),
    quick_settings=_QUICK,
)
