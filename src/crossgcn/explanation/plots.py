"""Draw explanations with matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from crossgcn.explanation.column_details import NodeSum
    from crossgcn.explanation.columns import ColumnTerms

_COLOURS = {"own": "#1b6ca8", "neighbourhood": "#c46a1b", "both": "#6b8e23"}


def _axes(ax: Axes | None, rows: int) -> Axes:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(7, 1 + 0.35 * rows), layout="constrained")[1]


def draw_importance(terms: ColumnTerms, output: int, top: int, ax: Axes | None) -> Axes:
    """Draw the strongest terms as bars with error bars, coloured by whose they are."""
    listed = terms.strongest(output)[:top][::-1]
    ax = _axes(ax, len(listed))
    for whose, colour in _COLOURS.items():
        rows = [row for row, term in enumerate(listed) if terms.whose(term) == whose]
        if rows:
            errors = [listed[row].error for row in rows]
            ax.barh(
                rows,
                [float(listed[row].importance[output]) for row in rows],
                xerr=[0.0 if error is None else float(error[output]) for error in errors],
                color=colour,
                label=whose,
            )
    ax.set_yticks(range(len(listed)), [term.name for term in listed])
    ax.set_xlabel(f"importance ({terms.unit})")
    ax.set_title(terms.outputs[output])
    ax.legend()
    return ax


def draw_waterfall(explained: NodeSum, top: int, ax: Axes | None) -> Axes:
    """Draw the way from the average to the score of a node."""
    frame, others = explained.frame.head(top), explained.frame.iloc[top:]
    names, steps = list(frame["term"]), frame["contribution"].tolist()
    if len(others):
        names.append(f"{len(others):,} other terms")
        steps.append(float(others["contribution"].sum()))
    starts = explained.average + np.concatenate([[0.0], np.cumsum(steps)[:-1]])
    ax = _axes(ax, len(steps))
    colours = ["#2a7f3f" if step > 0 else "#b3372f" for step in steps]
    rows = range(len(steps))[::-1]
    ax.barh(rows, steps, left=starts, color=colours)
    ax.axvline(explained.average, color="grey", linestyle=":", label="average")
    ax.axvline(explained.score, color="black", label="score")
    ax.set_yticks(rows, names)
    ax.set_xlabel(explained.unit)
    ax.set_title(explained.output)
    ax.legend()
    return ax
