"""The tables and figures of the paper by name. Nothing here imports anything heavy."""

from __future__ import annotations

from collections.abc import Mapping

ITEM_NAMES: Mapping[str, str] = {
    "datasets": "Table 2, sizes of the graphs",
    "cross-inputs": "Figure 2, GCN fed with cross features",
    "citeseer-cross": "Table 3, models on Citeseer-Cross",
    "hidden-size": "Figure 3, hidden size on Citeseer-Cross",
    "layer-ablation": "Table 4, crosses in the first and the second layer",
    "alpha": "Figure 4, the weight of the crosses",
    "citation": "Table 5, accuracy on the citation graphs",
    "gin-width": "Figure 5, how wide GIN must be",
    "dropout": "Figure 6, dropout",
    "training-time": "Table 6, time per epoch",
}
"""In the order in which the paper shows them, and the report too."""
