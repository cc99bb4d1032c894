"""Exact explanations: what a class score is made of, and the crosses that drive each class.

This room is also its own main function: ``crossgcn.explain(model, data)`` is
:func:`crossgcn.explain.explain.explain`.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crossgcn.explain.node import NodeExplainer, explain_node
    from crossgcn.explain.node_explanation import NodeExplanation
    from crossgcn.explain.pyg import CrossExplainer
    from crossgcn.explain.removal import accuracy_without
    from crossgcn.explain.stability import cross_stability
    from crossgcn.explain.strongest import first_order_terms, strongest_crosses

_HOMES = {
    "NodeExplainer": "node",
    "explain_node": "node",
    "NodeExplanation": "node_explanation",
    "CrossExplainer": "pyg",
    "accuracy_without": "removal",
    "cross_stability": "stability",
    "first_order_terms": "strongest",
    "strongest_crosses": "strongest",
}

__all__ = [
    "CrossExplainer",
    "NodeExplainer",
    "NodeExplanation",
    "accuracy_without",
    "cross_stability",
    "explain_node",
    "first_order_terms",
    "strongest_crosses",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]


class _Explain(ModuleType):
    """The room, callable: a name can be a room or a function, and users expect both."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        explain = importlib.import_module(f"{__name__}.explain").explain
        return explain(*args, **kwargs)


sys.modules[__name__].__class__ = _Explain
