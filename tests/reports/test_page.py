"""The page of a run: it may run its own scripts only, and counts what it says it counts."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import precision_recall_fscore_support

from crossgcn.data.splits import Split
from crossgcn.reports.format import shorten
from crossgcn.reports.page.explain import name_class
from crossgcn.reports.page.performance import (
    measure_classes,
    measure_coverage,
    measure_numbers,
)
from crossgcn.reports.page.render import LIBRARIES, content_policy, read_part

VENDORED = (
    "912111098ea99503a6f4967361d2bbdc9dbf58cf9c678c8e27e5b02d1a07f0c1",
    "4358086467740777dd788d6b27a95cebdbaefdd50c730a3060117073bd7134cb",
)
"""The SHA-256 of each library as its authors published it."""


def test_the_scripts_are_the_ones_that_were_vendored_and_nothing_else_runs() -> None:
    scripts = [read_part(f"vendor/{name}") for name in LIBRARIES]
    policy = content_policy(scripts)
    for script, digest in zip(scripts, VENDORED, strict=True):
        assert hashlib.sha256(script.encode()).hexdigest() == digest
        found = base64.b64encode(bytes.fromhex(digest)).decode()
        assert f"'sha256-{found}'" in policy
    assert "default-src 'none'" in policy and "form-action 'none'" in policy
    licences = read_part("vendor/LICENSES.txt")
    assert "d3 7.9.2" in licences and "@observablehq/plot 0.6.17" in licences
    assert licences.count("Permission") == 5


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_becomes_writable_without_control_and_direction_marks(text: str) -> None:
    shown = shorten(text)
    shown.encode()
    assert not set("\u0000\u202e\u2066\r\n") & set(shown)
    assert len(shown) <= len(shorten(700 * text)) <= 600


@pytest.mark.parametrize(
    ("classes", "named"),
    [
        (["no", "yes"], ["not late", "late"]),
        (["True", "False"], ["late", "not late"]),
        (["0", "1"], ["not late", "late"]),
        (["1", "2"], ["late=1", "late=2"]),
        (["0", "1", "2"], ["late=0", "late=1", "late=2"]),
        (["often", "never"], ["often", "never"]),
    ],
)
def test_classes_are_named_in_peoples_words(classes: list[str], named: list[str]) -> None:
    assert [name_class("late", name, classes) for name in classes] == named
    assert name_class("late", "the others", classes) == "the others"


def test_performance_counts_every_test_node_of_every_split() -> None:
    draws = np.random.default_rng(3)
    y, degree = draws.integers(3, size=90), draws.integers(9, size=90)
    chances = [draws.dirichlet(np.ones(3), size=90) for _ in range(2)]
    tests = [np.arange(0, 40), np.arange(30, 90)]
    predicted = [each.argmax(axis=1) for each in chances]
    found = measure_classes(y, chances, tests, ["a", "b", "c"], degree)
    truth = np.concatenate([y[test] for test in tests])
    answers = np.concatenate([p[test] for p, test in zip(predicted, tests, strict=True)])
    *scores, support = precision_recall_fscore_support(truth, answers)
    for label, row in enumerate(found["by_class"]):
        assert row["scores"] == pytest.approx([score[label] for score in scores])
        assert row["tested"] == support[label]
    assert np.sum(found["confusion"]) == found["tested"] == 100
    assert sum(row["nodes"] for row in found["by_degree"]) == 100
    assert sum(row["nodes"] for row in found["calibration"]) == 100


def test_numbers_are_measured_by_parts() -> None:
    draws = np.random.default_rng(0)
    y = draws.normal(size=100)
    found = measure_numbers(y, [y + 0.5], [np.arange(100)], draws.integers(5, size=100))
    assert found["median_error"] == pytest.approx(0.5)
    assert sum(row["nodes"] for row in found["by_degree"]) == 100
    values: list[Any] = [row["values"][0] for row in found["by_degree"]]
    assert values == pytest.approx([0.5] * len(values), rel=1e-3)


def test_coverage_is_that_of_the_test_nodes_over_the_splits() -> None:
    y, nodes = np.arange(100.0), torch.arange(100)
    splits = [Split(nodes[:1], nodes[:39], nodes[39:]), Split(nodes[:1], nodes[61:], nodes[:61])]
    scored = [[np.zeros((100, 1)), np.zeros(100)]] * 2  # validation errors: 0 to 38, 61 to 99
    found = measure_coverage(y, scored, splits)
    assert [row["promise"] for row in found] == [80, 90, 95]
    assert [row["inside"] for row in found] == [
        0.5,
        0.5,
        0.5,
    ]  # none of the first, all of the second
    assert [row["size"] for row in found] == [31 + 92, 35 + 96, 37 + 98]
    few = [Split(nodes[:1], nodes[:18], nodes[39:])]
    assert measure_coverage(y, scored[:1], few) == []
