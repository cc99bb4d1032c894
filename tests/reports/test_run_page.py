"""The page of a run: what is in it, and how large it may be."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_contents import HOSTILE, make_content, make_terms
from sklearn.metrics import precision_recall_fscore_support, roc_auc_score

from crossgcn.errors import WorkFailed
from crossgcn.reports.format import readable, shorten
from crossgcn.reports.run_report.page import (
    LIBRARIES,
    embed_json,
    read_part,
    render_run_report,
    write_run_report,
)
from crossgcn.reports.run_report.performance import measure_classes, measure_numbers
from crossgcn.reports.run_report.terms import pack_terms

PLAIN = ("gender", "age", "city", "income")


def page_data(html: str) -> dict[str, Any]:
    (script,) = re.findall(r'id="page-data">(.*?)</script>', html)
    content: dict[str, Any] = json.loads(script)
    return content


def test_the_chart_library_is_the_one_that_was_vendored() -> None:
    for name, digest in LIBRARIES.items():
        assert hashlib.sha256(read_part("vendor", name).encode()).hexdigest() == digest
    licences = read_part("vendor", "LICENSES.txt")
    assert "d3 7.9.2" in licences and "@observablehq/plot 0.6.17" in licences
    assert licences.count("Permission") == 5


def test_a_page_may_run_its_own_scripts_and_nothing_more() -> None:
    html = render_run_report(make_content(("a", "b", "c"), PLAIN)).html
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', html)
    policy = policy.replace("&#39;", "'")
    scripts = re.findall(r"<script>(.*?)</script>", html, flags=re.DOTALL)
    assert len(scripts) == 3
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy and "form-action 'none'" in policy
    assert html.index("Content-Security-Policy") < html.index("<style")
    assert "Permission to use, copy, modify" in html
    assert render_run_report(make_content(("a", "b", "c"), PLAIN)).html == html


def test_names_from_the_tables_are_text_and_nothing_else() -> None:
    html = render_run_report(make_content(HOSTILE, HOSTILE)).html
    without = re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)
    assert html.count("<script") == 4
    assert not re.findall(r"<(img|iframe|object|embed|form|base)\b", without)
    assert not re.findall(r"<[^>]*\son\w+=", without)
    assert "49" not in without
    assert page_data(html)["classes"] == [shorten(name) for name in HOSTILE]


def test_commands_in_an_answer_are_code_and_names_stay_text() -> None:
    answers = [("How?", "`crossgcn compare` of <b>it</b>")]
    html = render_run_report(make_content(("a", "b"), PLAIN) | {"answers": answers}).html
    assert "<dd><code>crossgcn compare</code> of &lt;b&gt;it&lt;/b&gt;</dd>" in html


@given(st.text())
def test_embedded_json_is_the_same_text_and_cannot_leave_its_element(text: str) -> None:
    embedded = embed_json({"key": text})
    assert json.loads(embedded) == {"key": text}
    assert not set("<>&\u2028\u2029") & set(embedded)


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_becomes_writable_without_control_and_direction_marks(text: str) -> None:
    shown = readable(text)
    shown.encode()
    assert not set("\u0000\u202e\u2066\r\n") & set(shown)
    assert 0 < len(shorten(text)) <= 160


def test_what_does_not_fit_is_left_out_and_the_page_says_so(tmp_path: Path) -> None:
    content = make_content(("a", "b", "c"), [f"column {at}" for at in range(30)])
    whole = render_run_report(content)
    assert whole.nodes == 40 and "as many as fit" not in whole.html
    most = whole.size - int(0.8 * len(embed_json(content)))
    small = write_run_report(tmp_path / "page.html", content, most_bytes=most)
    assert small.size == (tmp_path / "page.html").stat().st_size <= most
    assert 0 < small.nodes < 40
    assert f"{small.nodes} of 120 nodes (as many as fit into this file)" in small.html
    kept = page_data(small.html)
    items = kept["terms"]["items"]
    assert any("axes" not in item for item in items) and any("axes" in item for item in items)
    with pytest.raises(WorkFailed, match="3 classes and 30 columns are too many for a page"):
        write_run_report(tmp_path / "page.html", content, most_bytes=20_000)
    assert (tmp_path / "page.html").read_text() == small.html


def test_very_many_classes_and_columns_fit() -> None:
    columns = [f"{name} {at}" for at in range(8) for name in HOSTILE][:60]
    classes = [f"{HOSTILE[at % 8]} {at}" for at in range(40)]
    report = render_run_report(make_content(classes, columns, num_nodes=300, num_listed=200))
    assert report.size < 3_000_000
    assert report.nodes == 200


def test_a_cell_is_the_mean_of_its_nodes() -> None:
    terms = make_terms(PLAIN, ("a", "b", "c"))
    packed = pack_terms(terms, 20)
    by_name = {tuple(item["columns"]): item for item in packed["items"]}
    item = by_name["gender", "neighbours: gender"]
    term = next(t for t in terms.terms if t.columns == ("gender", "neighbours: gender"))
    gender, near = item["axes"]
    assert set(gender["labels"]) == {"a", "b", "c"} and near["share"] and not gender["share"]
    shares = terms.inputs[:, 3:6]
    for place, label in enumerate(gender["labels"]):
        for at, level in enumerate(near["labels"]):
            share = shares[:, "abc".index(level)]
            inside = (terms.inputs[:, "abc".index(label)] == 1) & (
                share >= np.quantile(share, 0.75)
            )
            cell = place * 3 + at
            assert item["counts"][cell] == inside.sum()
            for output in item["means"]:
                expected = term.contributions[inside, output]
                assert item["means"][output][cell] == pytest.approx(expected.mean(), rel=1e-3)
            assert term.spread is not None
            error = term.spread[inside, 0].mean()
            assert item["errors"][0][cell] == pytest.approx(error, rel=1e-3)


def test_numbers_are_cut_into_parts_in_their_own_unit() -> None:
    terms = make_terms(PLAIN, ("spent",))
    items = {tuple(item["columns"]): item for item in pack_terms(terms, 20)["items"]}
    age = items[("age",)]
    (axis,) = age["axes"]
    assert len(axis["at"]) == 24 and axis["at"] == sorted(axis["at"])
    assert sum(age["counts"]) == 120 == sum(age["histogram"]["counts"])
    assert 30 < np.average(axis["at"], weights=age["counts"]) < 50
    (triple,) = (item for item in items.values() if len(item["columns"]) == 3)
    assert len(triple["counts"]) == np.prod([len(each["labels"]) for each in triple["axes"]])


def test_performance_counts_every_test_node_of_every_split() -> None:
    draws = np.random.default_rng(3)
    y, degree = draws.integers(3, size=90), draws.integers(9, size=90)
    chances = [draws.dirichlet(np.ones(3), size=90) for _ in range(2)]
    tests = [np.arange(0, 90, 2), np.arange(0, 90, 3)]
    predicted = [each.argmax(axis=1) for each in chances]
    found = measure_classes(y, chances, tests, "abc", degree, predicted)
    truth = np.concatenate([y[test] for test in tests])
    answers = np.concatenate([p[test] for p, test in zip(predicted, tests, strict=True)])
    scores = precision_recall_fscore_support(truth, answers, labels=range(3))
    for at, row in enumerate(found["by_class"]):
        assert [row["precision"], row["recall"], row["f1"], row["tested"]] == pytest.approx(
            [score[at] for score in scores], rel=1e-3
        )
    assert np.sum(found["confusion"]["counts"]) == 75 == found["tested"]
    assert sum(row["nodes"] for row in found["by_degree"]) == 75
    zero = next(row for row in found["by_degree"] if row["name"] == "no neighbours")
    alone = [test[degree[test] == 0] for test in tests]
    assert zero["values"] == pytest.approx(
        [(p[a] == y[a]).mean() for p, a in zip(predicted, alone, strict=True)], rel=1e-3
    )
    for curve in found["curves"]:
        label = "abc".index(curve["name"])
        for roc, each, test in zip(curve["roc"], chances, tests, strict=True):
            area = np.trapezoid(roc, np.linspace(0, 1, len(roc)))
            assert area == pytest.approx(
                roc_auc_score(y[test] == label, each[test, label]), abs=0.02
            )
    bins = found["calibration"]["bins"]
    assert sum(each["nodes"] for each in bins) == 75
    right = sum(each["nodes"] * each["right"] for each in bins)
    assert right == pytest.approx((truth == answers).sum(), abs=0.1)


def test_a_number_is_measured_by_how_far_it_is_off() -> None:
    y, tests = np.arange(100.0), [np.arange(50), np.arange(50, 100)]
    found = measure_numbers(y, [y + 2, y - 4], tests, np.full(100, 3))
    (row,) = found["by_degree"]
    assert (row["name"], row["nodes"], row["values"]) == ("2 to 3", 100, [2.0, 4.0])
    assert found["middle"] == 3.0 and found["points"][0] == [0.0, 2.0]
    assert sum(part["nodes"] for part in found["by_target"]) == 100
    assert len(found["by_target"]) == 5


def test_a_class_without_test_nodes_has_no_scores() -> None:
    chances = [np.eye(3)[np.zeros(4, int)]]
    found = measure_classes(
        np.zeros(4, int), chances, [np.arange(4)], "abc", np.zeros(4, int), [np.zeros(4, int)]
    )
    assert found["by_class"][1]["precision"] is None and found["curves"] == []
    html = render_run_report(make_content(("a", "b", "c"), PLAIN) | {"performance": found}).html
    assert not re.search(
        r">\s*(nan|None|inf)\b", re.sub(r"<script.*?</script>", "", html, flags=re.S)
    )


def test_of_many_categories_those_that_matter_are_shown() -> None:
    terms = make_terms(PLAIN, ("a", "b", "c"))
    city = next(t for t in terms.terms if t.columns == ("gender",))
    group = terms.groups[city.groups[0]]
    values = np.eye(40)[np.arange(120) % 40]
    wide = replace(
        group, columns=np.arange(40), features=tuple(f"gender=v{at}" for at in range(40))
    )
    effect = np.zeros((120, 3))
    effect[values[:, 37] == 1] = 2.0
    term = replace(city, contributions=effect, spread=None)
    groups = tuple(wide if each is group else each for each in terms.groups)
    packed = pack_terms(replace(terms, terms=(term,), rest=None, groups=groups, inputs=values), 5)
    (axis,) = packed["items"][0]["axes"]
    assert "v37" in axis["labels"] and len(axis["labels"]) == 30 and axis["left_out"] == 10
