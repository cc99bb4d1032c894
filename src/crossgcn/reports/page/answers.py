"""The first screen of a page, in words: how good the model is, and what matters most."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crossgcn.data.files import read_hashed_json, read_json_object
from crossgcn.errors import BadInput
from crossgcn.experiments.predict import score_without_edges
from crossgcn.experiments.run_folder import RunFolder, metrics_of_test
from crossgcn.explanation.polynomial import Floats
from crossgcn.explanation.terms import Explanation, Term
from crossgcn.reports.format import metric_text, round4, shorten, spread_text
from crossgcn.training.metrics import METRICS
from crossgcn.training.records import RECORD, RESULT

Content = dict[str, Any]

_MEANING = "Importance is the standard deviation over nodes of what a term adds to the score."


def describe_metrics(run: RunFolder) -> list[Content]:
    """Return every metric of the test nodes, the one that selected the epochs first."""
    first = run.chosen.record["metric"]
    tests = [metrics_of_test(one.record) for one in run.runs]
    described = []
    for name in sorted(tests[0], key=lambda name: name != first):
        metric = METRICS[name]
        values = [test[name] for test in tests]
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
        described.append(
            {
                "name": name,
                "label": metric.title,
                "percent": metric.shown == "percent",
                "values": round4(values),
                "text": spread_text(name, float(np.mean(values)), spread)
                + ("\u00a0%" if metric.shown == "percent" else ""),
            }
        )
    return described


def read_comparison(folder: Path, run: RunFolder) -> Content:
    """Read the answer of ``compare`` from its folder; it must be about the graph of a run."""
    path = folder / RESULT
    result = read_hashed_json(path, "give the folder that crossgcn compare made", "compare again")
    name = result.get("metric", "accuracy")
    record = next(folder.rglob(RECORD), None)
    try:
        metric, answers = METRICS[name], result["answers"]
        if record is not None:
            compared = read_json_object(record, "give the whole folder", "compare again")["dataset"]
            if compared["sha256"] != run.chosen.record["dataset"]["sha256"]:
                raise BadInput(
                    f"{path}: compares models on another graph, column to predict or choice of "
                    f"columns than those of {run.folder} ({result['dataset']}, "
                    f"{result['target']}): give the comparison of the same tables with the same "
                    "options"
                )
        places = {model["model"]: place for place, model in enumerate(result["models"])}
        models = []
        for model in result["models"]:
            values = model["test"][name] if "test" in model else model["test_accuracy"]
            spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
            models.append(
                {
                    "name": shorten(model["model"]),
                    "words": shorten(model.get("description") or ""),
                    "glass_box": bool(model.get("glass_box")),
                    "values": round4(values),
                    "text": spread_text(name, float(np.mean(values)), spread),
                    "parameters": model.get("parameters") or None,
                }
            )
        return {
            "metric": metric.title,
            "percent": metric.shown == "percent",
            "models": models,
            "recommended": places[result["recommended"]],
            "sentences": [shorten(sentence, 600) for sentence in result["answer"]],
            "verdicts": {key: answers[key] and answers[key]["verdict"] for key in answers},
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise BadInput(
            f"{path}: is not a comparison on tables ({error!r}); make one with crossgcn compare "
            "NODES EDGES --target COLUMN --out"
        ) from None


def answer_in_words(
    run: RunFolder, terms: Explanation | None, comparison: Content | None
) -> list[tuple[str, str]]:
    """Answer in words how good the model is, and whether the graph and crosses matter."""
    first, *_ = metrics = describe_metrics(run)
    splits = len(run.runs)
    over = "one split" if splits == 1 else f"mean ± standard deviation over {splits} splits"
    answers = [
        ("How well?", f"Test {first['label']} {first['text']} ({over}). {_guess(run, metrics)}")
    ]
    if comparison is None:
        answers.append(
            (
                "Against simpler models?",
                "Not compared with boosting and a linear model. `crossgcn compare` does that, and "
                "`crossgcn report --comparison` shows its answer here.",
            )
        )
    else:
        named = {model["name"]: model for model in comparison["models"]}
        chosen = comparison["models"][comparison["recommended"]]
        others = [named[n] for n in ("linear", "boosting", "boosting-hops") if n in named]
        words = ", ".join(f"{each['name']} {each['text']}" for each in others if each != chosen)
        answers.append(
            (
                "Against simpler models?",
                f"Test {comparison['metric']}{' in %' if comparison['percent'] else ''}: "
                f"{chosen['name']} {chosen['text']}" + (f"; {words}." if words else "."),
            )
        )
        answers += [
            (question, sentence)
            for question, start in (
                ("Does the graph matter?", "The graph"),
                ("Do crosses matter?", "Crosses"),
            )
            for sentence in comparison["sentences"]
            if sentence.startswith(start)
        ]
    if run.data.edge_index.size(1) and not any("graph" in question for question, _ in answers):
        with_edges, without = score_without_edges(run)
        metric = run.chosen.record["metric"]
        answers.append(
            (
                "Does the graph matter?",
                f"With its edges the model has a test {METRICS[metric].title} of "
                f"{metric_text(metric, with_edges)}, without them {metric_text(metric, without)}. "
                "That is this model; one trained without edges may do better.",
            )
        )
    if terms is not None:
        unit = "" if terms.unit == "margin" else f" ({terms.unit})"
        parts = {
            "single columns": [t for t in terms.terms if len(t.columns) == 1],
            "crosses": [t for t in terms.terms if len(t.columns) > 1],
        }
        sums = {name: float(_together(terms, some).mean()) for name, some in parts.items()}
        near = [t for t in terms.terms if t.scope != "own"]
        words = (
            f"In this model single columns together have an importance of "
            f"{sums['single columns']:.2g}{unit}, crosses {sums['crosses']:.2g}"
        )
        if near:
            words += f"; terms with the neighbourhood {float(_together(terms, near).mean()):.2g}"
        answers.append(("What is it made of?", f"{words}. {_MEANING}"))
    return answers


def five_terms(terms: Explanation) -> list[Content]:
    """Return the five terms that matter most, over all scores."""
    ranked = sorted(terms.terms, key=lambda term: -float(term.importance.mean()))[:5]
    return [
        {
            "name": shorten(term.name),
            "whose": term.scope,
            "importance": f"{float(term.importance.mean()):.3g}",
            "error": None if term.error is None else f"{float(term.error.mean()):.2g}",
            "share": round4(
                float(term.importance.mean()) / max(float(ranked[0].importance.mean()), 1e-12)
            ),
            "words": describe_in_words(terms, term, int(term.importance.argmax())),
        }
        for term in ranked
    ]


def describe_in_words(terms: Explanation, term: Term, output: int) -> str:
    """Return in a few words what a term does to a score."""
    inside = terms.inside(term, output, 2)
    name = shorten(terms.outputs[output], 60)
    more, less = f"more likely {name}", f"less likely {name}"
    if terms.unit == terms.outputs[output]:
        more, less = f"larger {name}", f"smaller {name}"
    if "slope" in inside:
        words = more if inside["slope"] > 0 else less
        if len(term.columns) == 1:
            return f"the higher, the {words}"
        return (
            f"both high or both low: {words} than each alone says" if len(term.columns) == 2 else ""
        )
    return "; ".join(
        f"{shorten(' and '.join(cell['names']), 80)}: {more if cell['contribution'] > 0 else less} "
        f"({cell['contribution']:+.2g})"
        for cell in inside["cells"]
    )


def _together(terms: Explanation, chosen: Sequence[Term]) -> Floats:
    """Return the importance of some terms together, ``[outputs]``."""
    total = np.zeros(terms.scores.shape)
    for term in chosen:
        total += term.contributions
    return np.asarray(total.std(axis=0))


def _guess(run: RunFolder, metrics: Sequence[Content]) -> str:
    """Compare with the commonest class, or the mean number, of the training nodes."""
    values, y = [], run.data.y
    for one in run.runs:
        split = run.split_of(one)
        own, truth = y[split.train], y[split.test]
        if y.is_floating_point():
            values.append(float((truth - own.mean()).square().mean().sqrt()))
        else:
            values.append(float((truth == own.mode().values).float().mean()))
    name, words = (
        ("rmse", "the mean") if y.is_floating_point() else ("accuracy", "the most frequent class")
    )
    ours = next(metric["text"] for metric in metrics if metric["name"] == name)
    metric, guess = name, float(np.mean(values))
    first = (
        "Always" if metrics[0]["name"] == name else f"Its {METRICS[name].title} is {ours}; always"
    )
    return f"{first} predicting {words} has {metric_text(metric, guess)}."
