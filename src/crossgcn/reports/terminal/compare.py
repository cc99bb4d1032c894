"""The result of ``compare`` on a user's tables: one JSON object, one table, a few sentences."""

from __future__ import annotations

from rich.console import Group
from rich.text import Text

from crossgcn.experiments.candidates import CANDIDATES
from crossgcn.experiments.compare import CandidateResult, TableComparison
from crossgcn.experiments.statistics import PairedDifference
from crossgcn.reports.format import (
    Summary,
    accuracy_text,
    count,
    interval_text,
    paired_text,
    points,
)
from crossgcn.reports.summaries import mean_and_sd, paired
from crossgcn.reports.terminal.tables import number_columns


def summarise_candidates(comparison: TableComparison, baseline: str | None = None) -> Summary:
    """Return models and answer, for ``--json`` and ``result.json``.

    Args:
        comparison: The measured models.
        baseline: The model that the others are paired with; by default the best one with neither
            crosses nor a perceptron.
    """
    ours, against = comparison.best("crosses"), comparison.best("none")
    plain = baseline or against or comparison.results[0].name
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
    itself = result.name == baseline
    return {
        "model": result.name,
        "description": result.candidate.description,
        "parameters": result.parameters,
        "hidden_channels": result.hidden_channels,
        "test_accuracy": list(result.test_accuracy),
        **mean_and_sd(result.test_accuracy),
        "validation_accuracy": list(result.validation_accuracy),
        "chosen_trials": list(result.trials),
        **paired(None if itself else comparison.difference(result.name, baseline)),
        "seconds": result.seconds,
        "train_options": None if result.train_options is None else list(result.train_options),
    }


def answer(comparison: TableComparison) -> list[str]:
    """Return whether crosses help, how a perceptron compares, and which model to use."""
    sentences = []
    ours, plain = comparison.best("crosses"), comparison.best("none")
    if ours is not None and plain is not None:
        sentences.append(_verdict(comparison, ours, plain))
    perceptron = comparison.best("perceptron")
    if ours is not None and perceptron is not None:
        difference = comparison.difference(perceptron, ours)
        sentences.append(f"A perceptron instead of crosses ({perceptron}) {_relate(difference)}.")
    if len(comparison.results) > 1:
        simplest = comparison.recommended
        description = CANDIDATES[simplest].description
        sentences.append(f"Recommended: {simplest} ({description}), {_why(comparison)}.")
    return sentences


def _why(comparison: TableComparison) -> str:
    best, simplest = comparison.best(), comparison.recommended
    if len(comparison.results[0].test_accuracy) == 1:
        return "the best by validation; one split cannot tell it from simpler ones"
    if best == simplest:
        return "the best by validation, which beats every simpler one on test nodes"
    return f"the simplest that the best by validation, {best}, does not beat on test nodes"


def _verdict(comparison: TableComparison, ours: str, plain: str) -> str:
    difference = comparison.difference(ours, plain)
    interval = difference.interval()
    measured = f"{ours} against {plain}, the best with neither crosses nor a perceptron"
    if interval is None:
        verdict = (
            "One split cannot tell whether crosses help (several can: --num-splits 5, and --ignore "
            "for a column that says who trains)"
        )
    elif interval[0] > 0:
        verdict = "Crosses help here"
    elif interval[1] < 0:
        verdict = "Crosses do not help here, they make it worse"
    else:
        verdict = "Crosses do not help here, as far as these splits can tell"
    return f"{verdict}. {measured}: {_points(difference)}."


def _relate(difference: PairedDifference) -> str:
    interval = difference.interval()
    if interval is None or interval[0] <= 0 <= interval[1]:
        return f"cannot be told apart from ours: {_points(difference)}"
    return f"does {'better' if interval[0] > 0 else 'worse'}: {_points(difference)}"


def _points(difference: PairedDifference) -> str:
    interval = difference.interval()
    smallest = min(map(abs, (difference.mean, *(interval or ()))))
    digits = 1 if 100 * smallest >= 0.05 else 3
    words = f"{points(difference.mean, digits)} points"
    if interval is None:
        return words
    return f"{words} ({interval_text(interval, digits)}, paired over {difference.count} splits)"


def candidates_table(summary: Summary) -> Group:
    """Return all models as rows, the simplest first."""
    table = number_columns("model", "mean ± sd", f"paired to {summary['baseline']}", "parameters")
    table.add_column("what it is")
    for model in summary["models"]:
        table.add_row(
            model["model"],
            accuracy_text(model),
            paired_text(model),
            f"{model['parameters']:,}",
            model["description"],
        )
    title = (
        f"{summary['dataset']}, {summary['target']}: test accuracy in %, "
        f"{count(summary['num_splits'], 'split')}, {summary['epochs']} epochs, best of "
        f"{count(summary['trials'], 'trial')} by validation"
    )
    return Group(Text(title, style="bold"), table)
