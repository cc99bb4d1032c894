from __future__ import annotations

import json
from typing import Any

import pytest
from rich.console import Console

from crossgcn.links.compare import LinkComparison, LinkResult
from crossgcn.links.settings import LinkSettings
from crossgcn.reports.terminal.links import links_table, links_verdicts, summarise_links
from crossgcn.training.config import RunConfig
from research.pages.links import links_markdown

METRICS = ("auc", "ap", "hits@10", "mrr")


def record(auc: float, ap: float, hits: float, mrr: float, split: int) -> dict[str, Any]:
    """As a run writes it."""
    kinds = ("train", "validation", "test", "validation_negatives", "test_negatives")
    return {
        "dataset": {"name": "cora"},
        "links": LinkSettings(hits_at=(10,)).describe(),
        "split": {"index": split} | {kind: {"pairs": 1500} for kind in kinds},
        "environment": {"versions": {"crossgcn": "1"}, "threads": 1, "commit": None},
        "parameters": 1234,
        "best_epoch": 7,
        "validation_auc": auc,
        "test": dict(zip(METRICS, (auc, ap, hits, mrr), strict=True)),
        "seconds": 2.5,
    }


def compared(num_splits: int = 3) -> LinkComparison:
    """Ours has a better AUC in every split, a worse AP, and anything else now and then."""
    shifts = [(-1) ** split * 0.01 for split in range(num_splits)]
    plain = [record(0.9 + s, 0.8 + s, 0.5 + s, 0.2, i) for i, s in enumerate(shifts)]
    ours = [record(0.95 + s, 0.7 + s, 0.5, 0.2 - s, i) for i, s in enumerate(shifts)]
    results = (
        LinkResult("gcn", RunConfig.create(dataset="cora", model="gcn"), tuple(plain)),
        LinkResult("ours", RunConfig.create(dataset="cora", order=(2, 1)), tuple(ours)),
    )
    return LinkComparison(results, METRICS, 0.1)


def as_text(summary: dict[str, Any]) -> str:
    console = Console(width=200, record=True, file=None, quiet=False)
    with console.capture() as capture:
        console.print(links_table(summary))
    return capture.get()


def test_the_summary_holds_every_split_and_the_paired_differences() -> None:
    summary = json.loads(json.dumps(summarise_links(compared())))
    plain, ours = summary["models"]
    assert summary["baseline"] == "gcn" and summary["metrics"] == list(METRICS)
    assert summary["edges"] == {"train": 1500, "validation": 1500, "test": 1500}
    assert summary["negatives"] == {"validation": 1500, "test": 1500}
    assert plain["test"]["auc"]["paired_difference"] is None
    assert ours["order"] == [2, 1] and "order" not in plain
    auc = ours["test"]["auc"]
    assert auc["values"] == pytest.approx([0.96, 0.94, 0.96])
    assert auc["paired_difference"] == pytest.approx(0.05)
    assert summary["seconds"] == 15.0


def test_the_table_shows_percent_and_spread_and_pairs_below() -> None:
    text = as_text(summarise_links(compared()))
    assert "cora: links, 1,500 test edges against 1,500 negative pairs, in %" in text
    assert "3 splits" in text
    for cell in ("AUC", "Hits@10", "MRR", "90.3 ± 1.2", "1,234", "paired to gcn", "+5.00 ± 0.00"):
        assert cell in text, cell


def test_verdicts_say_where_the_interval_leaves_out_zero() -> None:
    assert links_verdicts(summarise_links(compared())) == [
        "ours beats gcn in AUC; falls behind gcn in AP; cannot be told apart from gcn in "
        "Hits@10, MRR (95 % intervals of the paired differences)."
    ]


def test_one_split_has_no_spread_and_no_verdict() -> None:
    summary = summarise_links(compared(1))
    assert links_verdicts(summary) == []
    text = as_text(summary)
    assert "1 split," in text and "91.0" in text and "91.0 ±" not in text


def test_markdown_has_a_table_for_each_dataset() -> None:
    summary = summarise_links(compared())
    text = links_markdown({"datasets": [summary, summary | {"dataset": "pubmed"}]})
    assert text.count("| model | AUC | AP | Hits@10 | MRR |") == 2
    assert "**pubmed**: 1,500 edges to train" in text
    assert "| ours | 95.3 ± 1.2 |" in text and "| *paired to gcn* | +5.00 ± 0.00 |" in text
    assert "ours beats gcn in AUC" in text
