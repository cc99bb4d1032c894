"""The paper's tables and figures: run again, judged and shown. Nothing heavy is imported here."""

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
"""The items by name, in the order of the paper and of the report."""
