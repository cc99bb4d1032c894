"""Explain models exactly: what a class score is made of, and which crosses drive each class.

Names are imported on first use. Most users need only ``crossgcn.explain``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crossgcn.lazy_names import lazy_names

if TYPE_CHECKING:
    from crossgcn.explanation.columns import ColumnTerms
    from crossgcn.explanation.explain import explain_terms
    from crossgcn.explanation.node import NodeExplainer, NodeExplanation, explain_node
    from crossgcn.explanation.pyg import CrossExplainer
    from crossgcn.explanation.run import accuracy_without
    from crossgcn.explanation.strongest import (
        cross_stability,
        first_order_terms,
        strongest_crosses,
    )

_HOMES = {
    "columns": ("ColumnTerms",),
    "explain": ("explain_terms",),
    "node": ("NodeExplainer", "explain_node", "NodeExplanation"),
    "pyg": ("CrossExplainer",),
    "run": ("accuracy_without",),
    "strongest": ("cross_stability", "first_order_terms", "strongest_crosses"),
}

__all__ = [
    "ColumnTerms",
    "CrossExplainer",
    "NodeExplainer",
    "NodeExplanation",
    "accuracy_without",
    "cross_stability",
    "explain_node",
    "explain_terms",
    "first_order_terms",
    "strongest_crosses",
]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
