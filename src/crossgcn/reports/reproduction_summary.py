"""The report of a reproduction as one JSON object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, get_args

from crossgcn.evaluation.claims import ClaimOutcome, evaluate_claims
from crossgcn.evaluation.item_results import CellResult, ItemResult
from crossgcn.evaluation.items import Item
from crossgcn.evaluation.verdicts import (
    VerdictName,
    baseline_of,
    judge_cell,
    measured,
    paired_with,
)

__all__ = ["summarise_reproduction"]

Pairs = Sequence[tuple[Item, ItemResult]]


def summarise_reproduction(pairs: Pairs) -> dict[str, Any]:
    """Every number with its verdict, every claim with its outcome, and how many of each.

    Args:
        pairs: Items and what came out of them.
    """
    items = [_item(item, result) for item, result in pairs]
    verdicts = Counter(cell["verdict"] for item in items for cell in item["cells"])
    claims = Counter(claim["outcome"] for item in items for claim in item["claims"])
    return {
        "verdicts": {name: verdicts[name] for name in get_args(VerdictName)},
        "claims": {name: claims[name] for name in get_args(ClaimOutcome)},
        "items": items,
    }


def _item(item: Item, result: ItemResult) -> dict[str, Any]:
    return {
        "item": item.name,
        "title": item.title,
        "source": item.source,
        "shortened": list(result.shortened),
        "skipped": list(result.skipped),
        "failed": list(result.failed),
        "splits": dict(result.splits),
        "cells": [_cell(cell, item, result) for cell in result.cells],
        "claims": [
            {
                "says": claim.claim.says,
                "finding": claim.claim.finding,
                "outcome": claim.outcome,
                "where": claim.where,
                "checks": [asdict(check) for check in claim.checks],
            }
            for claim in evaluate_claims(item, result)
        ],
    }


def _cell(cell: CellResult, item: Item, result: ItemResult) -> dict[str, Any]:
    ours, verdict = measured(cell), judge_cell(cell, item)
    paired = paired_with(cell, baseline_of(cell, result))
    return {
        "panel": cell.panel,
        "row": cell.row,
        "column": cell.column,
        "mean": None if ours is None else ours.mean,
        "sd": None if ours is None else ours.sd,
        "paper": None if cell.paper is None else cell.paper.model_dump(),
        "difference": None if verdict is None else verdict.difference,
        "verdict": None if verdict is None else verdict.name,
        "reasons": [] if verdict is None else list(verdict.reasons),
        "compared_with": cell.compare_with,
        "paired_difference": None if paired is None else paired.mean,
        "paired_se": None if paired is None else paired.standard_error,
        "paired_interval": None if paired is None else paired.interval(),
        "chosen": dict(cell.chosen),
        "test_accuracy": list(cell.test_accuracy),
    }
