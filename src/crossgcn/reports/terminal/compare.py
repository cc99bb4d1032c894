"""The result of ``compare`` on a user's tables: one JSON object, one table, a few sentences."""

from __future__ import annotations

from rich.console import Group
from rich.text import Text

from crossgcn.experiments.answers import CandidateResult, QuestionAnswer, TableComparison
from crossgcn.experiments.statistics import PairedDifference
from crossgcn.reports.format import Summary, count, get_metric, interval_text, paired_text
from crossgcn.reports.summaries import mean_and_sd, paired
from crossgcn.reports.terminal.tables import number_columns
from crossgcn.training.metrics import METRICS

INTERVALS = (
    "The 95 % interval is of the mean gain over random splits of this table. corrected_interval "
    "is wider: it is for a new table of the same kind."
)
"""What ``--json`` says of intervals."""


def summarise_candidates(comparison: TableComparison, baseline: str | None = None) -> Summary:
    """Return models and answers, for ``--json`` and ``result.json``.

    Args:
        baseline: The model that the others are paired with; by default the twin without crosses.
    """
    crosses = comparison.crosses
    plain = baseline or (comparison.results[0].name if crosses is None else crosses.against)
    questions = {
        "crosses": crosses,
        "graph": comparison.graph,
        "black_box": comparison.black_box,
    }
    return {
        "task": comparison.task,
        "metric": comparison.metric,
        "baseline": plain,
        "models": [_model(comparison, result, plain) for result in comparison.results],
        "answers": {name: _question(asked) for name, asked in questions.items()},
        "intervals": INTERVALS,
        "recommended": comparison.recommended,
        "given_up": _given_up(comparison),
        "answer": answer(comparison),
    }


def _question(asked: QuestionAnswer | None) -> Summary | None:
    if asked is None:
        return None
    return {
        "model": asked.model,
        "against": asked.against,
        "difference": asked.difference.mean,
        "interval": asked.difference.interval(),
        "corrected_interval": asked.corrected.interval(),
        "verdict": asked.verdict,
        "beats_constant": not asked.is_constant,
    }


def _given_up(comparison: TableComparison) -> Summary | None:
    """Return the recommended model against the best black box, if one was compared."""
    best = comparison.best(lambda result: not result.candidate.glass_box)
    chosen = comparison.recommended
    if best is None or best == chosen:
        return None
    difference = comparison.difference(chosen, best)
    return {
        "model": chosen,
        "against": best,
        "difference": difference.mean,
        "interval": difference.interval(),
    }


def _model(comparison: TableComparison, result: CandidateResult, baseline: str) -> Summary:
    itself = result.name == baseline
    accuracy = result.test.get("accuracy")
    return {
        "model": result.name,
        "description": result.candidate.description,
        "glass_box": result.candidate.glass_box,
        "parameters": result.parameters,
        "test": {name: list(values) for name, values in result.test.items()},
        **({} if accuracy is None else {"test_accuracy": list(accuracy)}),
        **mean_and_sd(result.scores),
        "validation_score": list(result.validation),
        "chosen_trials": list(result.trials),
        **paired(None if itself else comparison.difference(result.name, baseline)),
        "seconds": result.seconds,
        "train_options": None if result.train_options is None else list(result.train_options),
    }


def answer(comparison: TableComparison) -> list[str]:
    """Return one sentence for each question, and which model to use."""
    sentences = [
        _sentence(comparison, comparison.crosses, "Crosses help", "Crosses do not help"),
        _sentence(comparison, comparison.graph, "The graph helps", "The graph does not help"),
        _sentence(
            comparison,
            comparison.black_box,
            "A black box is better",
            "A glass box is as good as a black box",
        ),
        _recommendation(comparison),
    ]
    return [sentence for sentence in sentences if sentence is not None]


def _sentence(
    comparison: TableComparison, asked: QuestionAnswer | None, helps: str, does_not: str
) -> str | None:
    if asked is None:
        return None
    words = {
        "helps": helps,
        "does not help": does_not,
        "cannot tell": f"{helps}? Cannot tell: more splits needed (--num-splits)",
    }[asked.verdict]
    if asked.is_constant:
        shown = "does not beat" if asked.verdict == "does not help" else "is not shown to beat"
        words += f" ({asked.model} {shown} a constant)"
    measured = _measured(comparison, asked.difference)
    return f"{words}. {asked.model} against {asked.against}: {measured}."


def _recommendation(comparison: TableComparison) -> str:
    chosen = comparison.recommended
    result = comparison.of(chosen)
    words = f"Recommended: {chosen} ({result.candidate.description})"
    best = comparison.best(lambda result: not result.candidate.glass_box)
    if not result.candidate.glass_box:
        return f"{words}, a black box."
    words += ", an exact sum of named terms."
    if best is None:
        return f"{words} No black box was compared."
    difference = comparison.difference(chosen, best)
    is_loss = (difference.mean < 0) == METRICS[comparison.metric].grows
    given = "Given up" if is_loss else "Nothing is given up"
    return (
        f"{words} {given} against {best}, the black box with the best validation score: "
        f"{_measured(comparison, difference)}."
    )


def _measured(comparison: TableComparison, difference: PairedDifference) -> str:
    metric = get_metric(comparison.metric)
    unit = f"points of {metric.label}" if metric.percent else metric.label
    text = f"{metric.change(difference.mean)} {unit}"
    interval = difference.interval()
    if interval is None:
        return text
    words = f"{interval_text(interval, comparison.metric)}, {difference.count} splits of this table"
    return f"{text} ({words})"


def candidates_table(summary: Summary) -> Group:
    """Return all models as rows, glass boxes first."""
    metric, baseline = summary["metric"], summary["baseline"]
    shown = get_metric(metric)
    title = shown.label
    if metric == "average_precision" and "positive_class" in summary:
        title += f" of {summary['positive_class']}"
    title += ", %" if shown.percent else ""
    has_accuracy = metric != "accuracy" and "test_accuracy" in summary["models"][0]
    more = ["accuracy, %"] if has_accuracy else []
    table = number_columns("model", title, f"gain over {baseline}", *more, "seconds")
    for position, model in enumerate(summary["models"]):
        if position and summary["models"][position - 1]["glass_box"] and not model["glass_box"]:
            table.add_section()
        cells = [shown.spread(model["mean"], model["sd"]), paired_text(model | {"metric": metric})]
        if has_accuracy:
            accuracies = model["test_accuracy"]
            cells.append(f"{100 * sum(accuracies) / len(accuracies):.1f}")
        table.add_row(model["model"], *cells, f"{model['seconds']:.0f}")
    words = (
        f"{summary['dataset']}, {summary['target']}: {count(summary['num_splits'], 'split')}, "
        f"best of {count(summary['trials'], 'trial')} on the validation nodes"
    )
    return Group(Text(words, style="bold"), table)
