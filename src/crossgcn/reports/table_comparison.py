"""The answer of ``compare`` on a user's tables: one JSON object, one table, a few sentences."""

from __future__ import annotations

from typing import Any

from rich.console import Group
from rich.text import Text

from crossgcn.evaluation.candidates import CANDIDATES
from crossgcn.evaluation.statistics import PairedDifference
from crossgcn.evaluation.table_comparison import CandidateResult, TableComparison
from crossgcn.reports.number_columns import number_columns
from crossgcn.reports.tables import paired_cell, with_spread

__all__ = ["answer", "candidates_table", "summarise_candidates"]

Summary = dict[str, Any]


def summarise_candidates(comparison: TableComparison, baseline: str | None = None) -> Summary:
    """Models and answer, for ``--json`` and ``result.json``.

    Args:
        comparison: What was measured.
        baseline: The model the others are paired with; the best one without crosses when left
            out.
    """
    plain = baseline or comparison.best("none") or comparison.results[0].name
    ours = comparison.best("crosses")
    against = comparison.best("none")
    judged = comparison.difference(ours, against) if ours and against else None
    return {
        "baseline": plain,
        "models": [_model(comparison, result, plain) for result in comparison.results],
        "crosses_help": comparison.crosses_help,
        "with_crosses": ours,
        "without_crosses": against,
        "difference": None if judged is None else judged.mean,
        "interval": None if judged is None else judged.interval(),
        "recommended": comparison.recommended,
        "answer": answer(comparison),
    }


def _model(comparison: TableComparison, result: CandidateResult, baseline: str) -> Summary:
    summary = result.summary
    itself = result.name == baseline
    difference = comparison.difference(result.name, baseline)
    return {
        "model": result.name,
        "description": result.candidate.description,
        "parameters": result.parameters,
        "hidden_channels": result.hidden_channels,
        "test_accuracy": list(result.test_accuracy),
        "mean": summary.mean,
        "sd": summary.sd,
        "validation_accuracy": list(result.validation_accuracy),
        "chosen_trials": list(result.trials),
        "paired_difference": None if itself else difference.mean,
        "paired_se": None if itself else difference.standard_error,
        "paired_interval": None if itself else difference.interval(),
        "seconds": result.seconds,
    }


def answer(comparison: TableComparison) -> list[str]:
    """Whether crosses help, what a perceptron does instead, and which model to take."""
    sentences = []
    ours, plain = comparison.best("crosses"), comparison.best("none")
    if ours is not None and plain is not None:
        sentences.append(_verdict(comparison, ours, plain))
    perceptron = comparison.best("perceptron")
    if ours is not None and perceptron is not None:
        difference = comparison.difference(perceptron, ours)
        sentences.append(f"A perceptron instead of crosses ({perceptron}) {_relate(difference)}.")
    best, simplest = comparison.best(), comparison.recommended
    if len(comparison.results) > 1:
        why = (
            "the best by validation, and no simpler one comes near"
            if best == simplest
            else f"the simplest that cannot be told apart from the best by validation, {best}"
        )
        sentences.append(f"Recommended: {simplest} ({CANDIDATES[simplest].description}), {why}.")
    return sentences


def _verdict(comparison: TableComparison, ours: str, plain: str) -> str:
    difference = comparison.difference(ours, plain)
    measured = f"{ours} against {plain}, the best model without them: {_points(difference)}"
    match comparison.crosses_help:
        case None:
            return f"One split cannot tell whether crosses help. {measured}."
        case True:
            return f"Crosses help here. {measured}."
        case _:
            return f"Crosses do not help here. {measured}."


def _relate(difference: PairedDifference) -> str:
    interval = difference.interval()
    if interval is None or interval[0] <= 0 <= interval[1]:
        return f"cannot be told apart from ours: {_points(difference)}"
    return f"does {'better' if interval[0] > 0 else 'worse'}: {_points(difference)}"


def _points(difference: PairedDifference) -> str:
    words = f"{100 * difference.mean:+z.1f} points"
    interval = difference.interval()
    if interval is None:
        return words
    low, high = (f"{100 * end:+z.1f}" for end in interval)
    return f"{words} (95 % interval {low} to {high}, paired over {difference.count} splits)"


def candidates_table(summary: Summary) -> Group:
    """All models as rows, simplest first."""
    table = number_columns("model", "mean ± sd", f"paired to {summary['baseline']}", "parameters")
    table.add_column("what it is")
    for model in summary["models"]:
        sd = None if model["sd"] is None else 100 * model["sd"]
        table.add_row(
            model["model"],
            with_spread(100 * model["mean"], sd),
            paired_cell(model),
            f"{model['parameters']:,}",
            model["description"],
        )
    title = (
        f"{summary['dataset']}, {summary['target']}: test accuracy in %, {summary['num_splits']} "
        f"splits, {summary['epochs']} epochs, best of {summary['trials']} trials by validation"
    )
    return Group(Text(title, style="bold"), table)
