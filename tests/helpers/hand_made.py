"""Items of every kind and results for them, small enough to check by eye."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crossgcn.reproduction.items import Cell, Item
from crossgcn.reproduction.plan import CellResult, ChoiceResult, Curve, ItemResult

ENVIRONMENT = {"versions": {"python": "3.11.7", "torch": "2.13.0"}, "threads": 2, "commit": "abc12"}
SHIFTS = (-0.02, -0.005, 0.005, 0.02)

TABLE = Item(
    name="citation",
    title="Accuracy on the citation graphs",
    source="Table 5",
    kind="table",
    paper_says="Crosses help.",
    protocol="20 training sets.",
    columns=({"label": "Citeseer"}, {"label": "Cora"}),
    rows=(
        {
            "label": "GCN",
            "settings": {"model": "gcn"},
            "choose": {"hidden_channels": [16, 32]},
            "paper": {"Citeseer": {"mean": 69.7, "sd": 2.0}, "Cora": {"mean": 79.1, "sd": 1.8}},
        },
        {
            "label": "Cross-GCN",
            "settings": {"model": "cross-gcn-release"},
            "compare_with": "GCN",
            "paper": {"Citeseer": {"mean": 71.3, "sd": 1.7}, "Cora": {"mean": 79.8, "sd": 1.6}},
            "reasons": {"Citeseer": "Paired over splits, crosses do not help there."},
        },
        {
            "label": "DeepWalk",
            "settings": {"model": "deep-walk"},
            "compare_with": "GCN",
            "paper": {"Citeseer": {"mean": 43.2, "tolerance": 3}},
        },
        {"label": "gated (ours)", "settings": {"model": "cross-gcn"}},
    ),
    claims=(
        {
            "says": "Crosses beat GCN.",
            "finding": "Only where there is little else.",
            "checks": [{"cell": {"row": "Cross-GCN"}, "better_than": {"row": "GCN"}}],
        },
    ),
)
FIGURE = Item(
    name="hidden-size",
    title="Hidden size",
    source="Figure 3",
    kind="figure",
    x_label="hidden size E",
    log_x=True,
    paper_says="Wider is better.",
    settings={"dataset": "citeseer-cross"},
    panels=({"label": "20 per class"}, {"label": "all nodes"}),
    columns=[{"label": str(width), "x": width} for width in (128, 256, 512)],
    rows=(
        {"label": "GCN", "settings": {"model": "gcn"}, "paper": {"256": {"mean": 62.9, "sd": 1.7}}},
        {"label": "GIN", "settings": {"model": "gin"}, "compare_with": "GCN"},
    ),
    not_reproducible="The paper does not say how many nodes were trained on.",
)
CURVES = Item(
    name="cross-inputs",
    title="GCN fed with cross features",
    source="Figure 2",
    kind="curves",
    x_label="epoch",
    rows=({"label": "original features"}, {"label": "cross features"}),
)
TIMING = Item(
    name="training-time",
    title="Time per epoch",
    source="Table 6",
    kind="timing",
    x_label="hidden size E",
    not_reproducible="The paper does not name its hardware.",
    columns=[{"label": str(width), "x": width} for width in (32, 64)],
    rows=(
        {"label": "GCN", "paper": {"32": {"mean": 0.433}, "64": {"mean": 0.466}}},
        {
            "label": "Cross-GCN",
            "compare_with": "GCN",
            "paper": {"32": {"mean": 0.485}, "64": {"mean": 0.525}},
        },
    ),
)
STATISTICS = Item(
    name="datasets",
    title="The datasets",
    source="Table 2",
    kind="statistics",
    columns=({"label": "nodes"}, {"label": "label rate"}),
    rows=(
        {
            "label": "Citeseer",
            "paper": {"nodes": {"mean": 3312}, "label rate": {"mean": 0.036}},
            "reasons": {"nodes": "15 more are unlabelled."},
        },
    ),
)
MEANS: Mapping[str, float] = {"GCN": 0.70, "Cross-GCN": 0.69, "DeepWalk": 0.44, "GIN": 0.64}


def result_of(item: Item, *, splits: int = 4, without: str = "", **entries: Any) -> ItemResult:
    """A result for every cell but those of one column or panel."""
    cells = tuple(
        measured_cell(cell, item.kind, splits)
        for cell in item.cells()
        if without not in (cell.column, cell.panel) or not without
    )
    settings: dict[str, Any] = {"environment": ENVIRONMENT, "splits": {"citeseer": "20 authors'"}}
    return ItemResult(item=item.name, cells=cells, **(settings | entries))


def measured_cell(cell: Cell, kind: str, splits: int) -> CellResult:
    """A made-up measurement of the right kind."""
    place = cell.model_dump(exclude={"choose", "paper"})
    place["settings"] = {"where": f"{cell.panel} {cell.row} {cell.column}", "kind": kind}
    if kind == "statistics":
        value = 3327 if cell.column == "nodes" else 120 / 3327
        return CellResult(**place, paper=cell.paper, statistics={"value": value})
    if kind == "timing":
        seconds = (0.012 if cell.row == "GCN" else 0.015) * (cell.x or 0) / 32
        timing = {"seconds": [seconds], "mean": seconds, "sd": None}
        timing |= {"device": "cpu", "device_name": "x86_64"}
        return CellResult(**place, paper=cell.paper, timing=timing)
    mean = MEANS.get(cell.row, 0.68) + (0.09 if cell.column == "Cora" else 0.0)
    own = 0.002 if cell.row == "GCN" else -0.002
    accuracy = [mean + shift + (own if i % 2 else 0) for i, shift in enumerate(SHIFTS)]
    curve = Curve(
        epoch=(1, 2, 3),
        train=(0.2, 0.5, 0.9),
        train_sd=(0.1, 0.1, 0.05),
        test=(0.2, 0.4, 0.6),
        test_sd=(0.1, 0.05, 0.02),
    )
    return CellResult(
        **place,
        paper=cell.paper,
        test_accuracy=tuple(accuracy[:splits]),
        chosen={name: values[-1] for name, values in cell.choose.items()},
        candidates=tuple(
            ChoiceResult(settings=settings, validation_accuracy=0.7) for settings in cell.choices()
        ),
        curve=curve if kind == "curves" else None,
    )


ITEMS = (STATISTICS, CURVES, FIGURE, TABLE, TIMING)


def all_pairs(**entries: Any) -> list[tuple[Item, ItemResult]]:
    """Every kind of item with a result."""
    return [(item, result_of(item, **entries)) for item in ITEMS]
