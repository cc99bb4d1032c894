"""Three parts, half a minute: where crosses help, where they do not, and a glass box.

python examples/first_look.py  # or, in a checkout: make run
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

import crossgcn
from crossgcn import Experiment, PreparedGraph, RepeatedRuns, RunConfig, TableModel

EPOCHS, SEEDS, SPLITS, COUNTY_SPLITS = 200, 3, 5, 2
"""Enough for a first look; the recorded results have 10 to 20 splits and up to 500 epochs."""

console = Console(highlight=False, markup=False)


def head(words: str) -> None:
    """Print the headline of a part."""
    console.print(f"\n{words}", style="bold")


def train(dataset: str, models: tuple[str, ...], **settings: Any) -> list[RepeatedRuns]:
    """Train models on the same splits of a graph, on two cores."""
    configs = [
        RunConfig.create(dataset=dataset, model=name, epochs=EPOCHS, **settings) for name in models
    ]
    with console.status(f"training {', '.join(models)} on {dataset}"):
        return Experiment(configs).run(workers=2)


def gain_of(crosses: RepeatedRuns, plain: RepeatedRuns) -> tuple[str, str]:
    """Return what crosses do, and the paired gain in words."""
    gain = crossgcn.paired_difference(crosses.test_accuracy, plain.test_accuracy)
    low, high = gain.interval() or (gain.mean, gain.mean)
    verdict = (
        "crosses help" if low > 0 else "crosses do not help" if high < 0.005 else "cannot tell"
    )
    return verdict, f"{100 * gain.mean:+.1f} points ({100 * low:+.1f} to {100 * high:+.1f})"


def planted_pairs_found() -> str:
    """Train one Cross-GCN and count the classes whose strongest pair is the planted one."""
    data = crossgcn.load_dataset("citeseer-cross")
    torch.manual_seed(0)
    model = crossgcn.build_model("cross-gcn", data.num_features, data.num_classes, num_layers=1)
    (split,) = crossgcn.make_splits(data, num_splits=1, train="all")
    graph = PreparedGraph(data.x, data.edge_index)
    crossgcn.train_full_batch(model, graph, data.y, split, RunConfig(epochs=EPOCHS), seed=0)
    strongest = [term for term in crossgcn.explain(model, data).to_json(1) if term["columns"][1:]]
    planted = [[f"x{2 * place}", f"x{2 * place + 1}"] for place in range(data.num_classes)]
    found = [term["columns"] for term in strongest]
    right = sum(one == other for one, other in zip(found, planted, strict=True))
    return f"The strongest pair of columns is the planted one in {right} of {len(planted)} classes."


def in_words(term: dict[str, Any]) -> str:
    """Say what the least and the most of a column add, and where a cross adds most."""
    cells = term["cells"]
    ends = [cells[0], cells[-1]] if len(term["columns"]) == 1 and "slope" in term else cells[:2]
    return "; ".join(
        f"{' and '.join(cell['names'])} {cell['contribution']:+.2f}".replace(
            f"{term['columns'][0]} ", ""
        )
        for cell in ends
    )


def counties(page: Path) -> Iterator[str]:
    """Train cross-hops; yield its score, its strongest terms and one county; write the page."""
    graph = crossgcn.load_real("us-county", target="democratic_share")
    with console.status(f"training cross-hops on us-county, {COUNTY_SPLITS} splits"):
        model = TableModel(graph, {"num_splits": COUNTY_SPLITS}).fit(workers=2)
    with console.status("explaining"):
        terms, one = model.explain(), model.explain(node="San Francisco County")
        model.report(page)
    score = model.scores["r2"].mean()
    yield f"us-county, democratic_share, {COUNTY_SPLITS} splits: test R² {score:.2f}"
    yield "The five strongest terms, and what low and high values add to the share:"
    for term in sorted(terms.to_json(5), key=lambda each: -each["importance"])[:5]:
        yield f"  {' × '.join(term['columns']):29} {in_words(term)}"
    shown = one.to_frame().iloc[1:6]  # the first row is the average
    rest = one.score - one.average - shown["value"].sum()
    yield f"San Francisco County, {one.score:.2f}: {one.average:.2f} on average, and"
    for row in shown.itertuples():
        yield f"  {row.value:+.2f}  {row.term} ({row.shown})"
    yield f"  {rest:+.2f}  {len(one.terms) - len(shown)} other terms"


def main() -> None:
    """Show three parts, each in a few lines."""
    models = ("gcn", "gin", "cross-gcn")
    runs = train("citeseer-cross", models, num_layers=1, train="all", num_splits=SEEDS)
    verdict, points = gain_of(runs[2], runs[0])
    head(f"1. Classes planted in products of two columns: {verdict}")
    console.print(f"citeseer-cross, one layer, {EPOCHS} epochs, test accuracy of {SEEDS} seeds:")
    for each in runs:
        share = each.summary.mean
        console.print(f"  {each.config.model:10} {share:6.1%}  {'█' * round(40 * share)}")
    console.print(f"cross-gcn over gcn, with its 95 % interval: {points}")
    console.print(planted_pairs_found())

    gcn, cross = train("citeseer", ("gcn", "cross-gcn"), num_layers=2, num_splits=SPLITS)
    verdict, points = gain_of(cross, gcn)
    head(f"2. Words of documents: {verdict}")
    shares = f"gcn {gcn.summary.mean:.1%}, cross-gcn {cross.summary.mean:.1%}"
    console.print(f"citeseer, {SPLITS} splits: {shares}, {points}")

    head("3. Votes of counties, as an exact sum of named terms")
    page = Path("runs") / "first-look.html"
    page.parent.mkdir(exist_ok=True)
    for line in counties(page):
        console.print(line)
    console.print(f"All of it, and 400 counties one by one, on a page: open {page}")


if __name__ == "__main__":
    main()
