"""Explanations as matplotlib figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np

from crossgcn.explanation.node import NodeExplanation
from crossgcn.explanation.terms import Explanation, score_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = {"own": "#1b6ca8", "neighbourhood": "#c46a1b", "both": "#6b8e23"}


def plot_terms(whole: Explanation, output: int, top: int, ax: Axes | None) -> Axes:
    """Draw the strongest terms as bars with error bars, coloured by their scope."""
    listed = whole.strongest(output)[:top][::-1]
    ax = ax or _axes(len(listed))
    for scope, colour in _COLOURS.items():
        rows = [row for row, term in enumerate(listed) if term.scope == scope]
        sizes = [float(listed[row].importance[output]) for row in rows]
        errors = [listed[row].error for row in rows]
        spread = [0.0 if error is None else float(error[output]) for error in errors]
        if rows:
            ax.barh(rows, sizes, xerr=spread, color=colour, label=scope)
    ax.set_yticks(range(len(listed)), [term.name for term in listed])
    ax.set_xlabel(f"importance ({whole.unit})")
    ax.set_title(whole.outputs[output])
    ax.legend()
    return ax


def plot_node(node: NodeExplanation, top: int, ax: Axes | None) -> Axes:
    """Draw the way from the average to the score of a node."""
    names, steps = [term.name for term in node.terms[:top]], node.values[:top].tolist()
    if len(node.terms) > top:
        names.append(f"{len(node.terms) - top:,} other terms")
        steps.append(float(node.values[top:].sum()))
    starts = node.average + np.concatenate([[0.0], np.cumsum(steps)[:-1]])
    ax = ax or _axes(len(steps))
    rows = range(len(steps))[::-1]
    colours = ["#2a7f3f" if step > 0 else "#b3372f" for step in steps]
    ax.barh(rows, steps, left=starts, color=colours)
    ax.axvline(node.average, color="grey", linestyle=":", label="average")
    ax.axvline(node.score, color="black", label="score")
    ax.set_yticks(rows, names)
    ax.set_xlabel(score_name(node.output, node.unit))
    ax.set_title(node.name)
    ax.legend()
    return ax


def _axes(rows: int) -> Axes:
    return plt.subplots(figsize=(7, 1 + 0.35 * rows), layout="constrained")[1]
