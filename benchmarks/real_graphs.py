"""Every model on graphs of people and places: the records in ``results/real``.

``python -m benchmarks real --graph NAME [--protocol 10/10/80]`` makes one record anew: what
``crossgcn compare`` prints with ``--json``, with the models of :data:`MODELS`, and the columns that
were used. With ``--models``, only these are measured, and take the place of those of the same name
in the record, which says for each model by which commit it was measured.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.harness import crossgcn
from benchmarks.records import markdown_table
from crossgcn import BadInput, CrossGCNError

FOLDER = Path(__file__).parents[1] / "results" / "real"

MODELS = (
    *("majority-or-mean", "linear", "cross-own", "cross-hops-1", "cross-hops-2", "cross-hops-3"),
    *("ebm", "gcn", "boosting", "boosting-hops", "lightgbm", "lightgbm-hops"),
    *("perceptron", "perceptron-hops", "gnn"),
)
"""Those that ``compare`` trains by default, and the strong ones that it trains if named."""

PROTOCOLS = {"60/20/20": "", "10/10/80": "-10"}
"""Shares of nodes that train, validate and test, and the end of the name of such a record."""

_TIES = "ties=$CROSSGCN_DATA/real/us-county-ties/edges.csv"

COMPARISONS: dict[str, tuple[str, ...]] = {
    "facebook100-Amherst41": ("facebook100/Amherst41",),
    "facebook100-Haverford76": ("facebook100/Haverford76",),
    "facebook100-JohnsHopkins55": ("facebook100/JohnsHopkins55",),
    "tolokers-official": ("tolokers", "--splits", "public"),
    "tolokers": ("tolokers",),
    "twitch-DE": ("twitch/DE",),
    "us-county-democratic_share": ("us-county", "--target", "democratic_share"),
    "us-county": ("us-county",),
    "us-county-ties-democratic_share": ("us-county", _TIES, "--target", "democratic_share"),
    "us-county-ties": ("us-county", _TIES),
}
"""Arguments of ``crossgcn compare``, by the name of the record."""

OTHERS = ("future", "transfer", "tried")
"""Records of other kinds: see ``real_shifts.py`` and ``real_tried.py``."""

BRIEF = (
    *("facebook100/Amherst41, gender", "facebook100/Haverford76, gender", "tolokers, banned"),
    *("twitch/DE, mature", "us-county, democratic_share"),
)
"""The rows of the README's table."""

Record = Mapping[str, Any]

_IN_PERCENT = ("roc_auc", "accuracy")
NO_BREAK = str.maketrans({" ": "\N{NO-BREAK SPACE}", "-": "\N{NON-BREAKING HYPHEN}"})


def read_records(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the comparisons, by dataset, target and protocol."""
    paths = sorted(folder.glob("*.json"), key=lambda path: path.stem)
    records = [json.loads(path.read_bytes()) for path in paths]
    kinds = {"stratified": "", "public": " (official splits)"}
    return {
        f"{record['dataset']}{kinds[record['splits']]}, {record['target']}"
        + "".join(f", with {name}" for name in record.get("relations", ())[1:])
        + ("" if record["train"] != "10%" else ", 10 % of the labels"): record
        for record in records
    }


def brief_markdown(records: Mapping[str, Record]) -> str:
    """Return five rows: the glass box, its twin without crosses and boosting; and a sentence."""
    names = ("cross-hops-2", "cross-hops-1", "boosting-hops", "boosting")
    rows, verdicts = [], []
    for title in BRIEF:
        record = records[title]
        verdicts.append(record["answers"]["crosses"]["verdict"])
        models = {model["model"]: model for model in record["models"]}
        scores = [score(models.get(name), record) for name in names]
        row = [title.removeprefix("facebook100/"), *scores, verdicts[-1]]
        rows.append([cell.translate(NO_BREAK) for cell in row])
    columns = ("table, target", "cross-hops", "without crosses", "boosting", "own columns")
    words = (
        f"Of these {len(verdicts)} tables, crosses help on {verdicts.count('helps')} and do not "
        f"help on {verdicts.count('does not help')}; on {verdicts.count('cannot tell')} ten splits "
        "cannot tell."
    )
    return f"{markdown_table([*columns, 'crosses'], rows)}\n\n{words}"


def ebm_markdown(records: Mapping[str, Record]) -> str:
    """Return one table: explainable boosting on the same columns, and cross-hops."""
    rows = []
    for title, record in records.items():
        models = {model["model"]: model for model in record["models"]}
        ours, other = (models[name] for name in ("cross-hops-2", "ebm-hops"))
        fits = record["trials"] * record["num_splits"]
        seconds = other["seconds"] * record["threads"] / fits
        without = record.get("ignored")
        case = title + (f", without {', '.join(without)}" if without else "")
        scores = (score(model, record) for model in (ours, other))
        rows.append(
            [case, record["metric"], str(record["num_splits"]), *scores, f"{seconds:.0f} s"]
        )
    columns = ("table, target", "metric", "splits", "cross-hops-2", "ebm-hops")
    return markdown_table([*columns, "an EBM's CPU time"], rows)


def score(model: Record | None, record: Record) -> str:
    """Return mean and standard deviation over splits of the metric that selects."""
    if model is None:
        return "—"
    values, metric = model["test"][record["metric"]], record["metric"]
    spread = stdev(values) if len(values) > 1 else 0.0
    return f"{number(mean(values), metric)} ± {number(spread, metric)}"


def number(value: float, metric: str, *, sign: bool = False) -> str:
    """Return a score; areas under the ROC curve and accuracies in percent."""
    scaled, digits = (100 * value, 1) if metric in _IN_PERCENT else (value, 3)
    return f"{scaled:+.{digits}f}" if sign else f"{scaled:.{digits}f}"


def measure(
    name: str, protocol: str, models: Sequence[str], *, workers: int = 1, device: str = "cpu"
) -> dict[str, Any]:
    """Compare models on one graph, and say by which commit and which columns each was measured."""
    arguments = [os.path.expandvars(each) for each in COMPARISONS[name]]
    relations = [each.partition("=")[0] for each in arguments if "=" in each]
    share = ("--train", "10%") if protocol == "10/10/80" else ()
    with TemporaryDirectory() as folder:
        out = Path(folder, "runs")
        options = ("--models", ",".join(models), "--out", str(out))
        work = ("--workers", str(workers), "--device", device)
        cost = crossgcn("compare", *arguments, *share, *options, *work)
        record: dict[str, Any] = {**cost.answer, "cpu_seconds": cost.cpu_seconds}
        if relations:
            record["relations"] = ["neighbours", *relations]
        for model in record["models"]:
            model["commit"] = record["commit"]
            runs = sorted((out / model["model"] / "trial-0").glob("split-*/run.json"))
            columns = [json.loads(path.read_bytes()).get("columns") for path in runs]
            if any(columns):
                model["columns"] = columns
    for key in ("out", "next", "baseline"):
        record.pop(key, None)
    return record


def merge(earlier: Record, record: Record) -> dict[str, Any]:
    """Return an earlier record with the models of a new one in the place of its own.

    Raises:
        BadInput: If they are of other splits, so that models could not be paired.
    """
    for key in ("dataset", "target", "splits", "num_splits", "train", "seed", "trials"):
        if earlier[key] != record[key]:
            raise BadInput(f"{key} is {earlier[key]} in the record and {record[key]} here")
    models = {each["model"]: {"commit": earlier["commit"], **each} for each in earlier["models"]}
    models |= {each["model"]: each for each in record["models"]}
    order = sorted(models, key=lambda each: MODELS.index(each) if each in MODELS else len(MODELS))
    return {**earlier, "models": [models[name] for name in order]}


def _write_other(name: str) -> None:
    from benchmarks.real_shifts import measure_future, measure_transfer
    from benchmarks.real_tried import measure_tried

    functions = (measure_future, measure_transfer, measure_tried)
    record = dict(zip(OTHERS, functions, strict=True))[name]()
    _write(FOLDER / "others" / f"{name}.json", record)


def _write(path: Path, record: Record) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Make one record anew, or some of its models."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks real", description=__doc__)
    parser.add_argument("--graph", required=True, choices=(*COMPARISONS, *OTHERS))
    parser.add_argument("--protocol", choices=PROTOCOLS, default="60/20/20")
    parser.add_argument("--models", metavar="NAMES", help="only these, into the record there is")
    parser.add_argument("--workers", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda, for layered models and gnn")
    given = parser.parse_args(arguments)
    work: dict[str, Any] = {"workers": given.workers, "device": given.device}
    path = FOLDER / f"{given.graph}{PROTOCOLS[given.protocol]}.json"
    try:
        if given.graph not in COMPARISONS:
            _write_other(given.graph)
            return 0
        if given.models is None:
            record = measure(given.graph, given.protocol, MODELS, **work)
        else:
            record = measure(given.graph, given.protocol, given.models.split(","), **work)
            record = merge(json.loads(path.read_bytes()), record)
    except CrossGCNError as error:
        print(f"benchmarks: real: {error}", file=sys.stderr)
        return error.exit_code
    _write(path, record)
    return 0
