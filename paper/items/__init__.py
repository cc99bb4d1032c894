"""The tables and figures: what to run, what the paper prints, what it claims."""

from __future__ import annotations

from paper.cells import Item
from paper.items.beyond import BIAS, ORDERS
from paper.items.citation import CITATION, DATASETS, DROPOUT, GIN_WIDTH, TRAINING_TIME
from paper.items.citeseer_cross import (
    ALPHA,
    CITESEER_CROSS,
    CROSS_INPUTS,
    HIDDEN_SIZE,
    LAYER_ABLATION,
)

ITEMS: dict[str, Item] = {
    item.name: item
    for item in (
        DATASETS,
        CROSS_INPUTS,
        CITESEER_CROSS,
        HIDDEN_SIZE,
        LAYER_ABLATION,
        ALPHA,
        CITATION,
        GIN_WIDTH,
        DROPOUT,
        TRAINING_TIME,
        ORDERS,
        BIAS,
    )
}
"""In the order of the paper and of the report; the last two are not in the paper."""
