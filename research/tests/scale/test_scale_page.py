"""The claims of the scale page: formulas, code and conclusions."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from research.benchmarks.catalogue import BENCHMARKS
from research.scale.cluster import sampled_shape
from research.scale.cost_model import Fitted
from research.scale.cost_points import full_batch, step_work
from research.scale.figure import write_scale_figure
from research.scale.page import BILLION, NOT_YET, WIDE, fit_to_records, ranges, scale_markdown

PROJECT = Path(__file__).parents[3]
PAGE = (PROJECT / "research" / "scale" / "README.md").read_text()
GUIDE = (PROJECT / "docs" / "scale.md").read_text()


@pytest.fixture(scope="module")
def records() -> dict[str, dict[str, Any]]:
    """Return the committed benchmark records."""
    folder = PROJECT / "results" / "benchmarks"
    paths = {name: folder / f"{name}.json" for name in BENCHMARKS}
    return {name: json.loads(path.read_bytes()) for name, path in paths.items() if path.exists()}


@pytest.fixture(scope="module")
def fitted(records: dict[str, dict[str, Any]]) -> Fitted:
    """Return the cost model of the page."""
    found = fit_to_records(records)
    assert found is not None
    return found


def test_the_formulas_of_the_page_are_those_of_the_code() -> None:
    shape = full_batch(70, 500, 30, 8, 5, 3, train_share=0.6)
    sizes = {
        "N": 70,
        "M": 500,
        "D": 30,
        "E": 8,
        "C": 5,
        "K": 3,
        "b": 2,
        "T": shape.targets,
        "m": shape.second_edges,
    }
    rows = re.findall(r"^\| ([\w ]+) \| (.+) \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)
    written = {
        name: [eval(cell.replace("·", "*"), {}, sizes) for cell in cells]
        for name, *cells in rows
        if name in {part.name for part in step_work(shape, 2)}
    }
    assert written == {
        part.name: [part.operations, part.memory_bytes, part.gathered_bytes]
        for part in step_work(shape, 2)
    }


def test_the_conclusions_of_the_page_are_what_the_model_says(fitted: Fitted) -> None:
    full, sampled = {}, {}
    for gpus in (8, 64, 512):
        full[gpus], sampled[gpus] = ranges(BILLION, gpus, fitted)
    assert full[8][1].gpu_bytes < 141e9
    for place in (0, 1):
        assert full[64][place].exchange > 5 * full[64][place].compute
        assert full[64][place].seconds > full[8][place].seconds > full[512][place].seconds
        assert sampled[512][place].seconds < 4 * sampled[8][place].seconds
    assert 2e-4 < sampled[8][0].compute < 1e-3 < 5 * sampled[8][1].compute
    asked = sampled_shape(BILLION)
    assert f"{asked.first_edges + asked.second_edges:,}"[:3] in re.findall(r"(\d+),000 nei", PAGE)
    wide = {gpus: ranges(WIDE, gpus, fitted)[1] for gpus in (8, 64)}
    spread = {gpus: ranges(WIDE, gpus, fitted, shared_weights=False)[1] for gpus in (8, 64)}
    for place in (0, 1):
        assert spread[8][place].epoch < wide[8][place].epoch
        assert spread[64][place].epoch > wide[64][place].epoch
    columns = 15_000_000
    many = ranges(replace(WIDE, features=columns), 8, fitted)[1][0]
    assert 0.85 * 141e9 < many.gpu_bytes < 1.15 * 141e9


def test_ranges_are_from_fast_to_slow(fitted: Fitted) -> None:
    for gpus in (1, 8, 64, 512):
        (fast, slow), (quick, late) = ranges(BILLION, gpus, fitted)
        assert fast.seconds < slow.seconds
        assert quick.epoch < late.epoch


def test_every_measured_step_stands_beside_its_prediction(
    fitted: Fitted, records: dict[str, dict[str, Any]]
) -> None:
    parts = scale_markdown(records)
    rows = [line for line in parts["fit"].splitlines() if re.match(r"\| gpu-[\w-]+: ", line)]
    assert len(rows) == len(fitted.times)
    for row, judged in zip(rows, fitted.times, strict=True):
        _, measured, predicted, ratio, *_ = row.strip("| ").split(" | ")
        assert float(measured) == pytest.approx(1e3 * judged.measured, abs=6e-4)
        assert float(predicted) == pytest.approx(1e3 * judged.predicted, abs=6e-4)
        assert float(ratio) == pytest.approx(judged.predicted / judged.measured, abs=6e-3)


def test_the_cpus_share_of_an_epoch_is_that_of_our_sampler(
    records: dict[str, dict[str, Any]],
) -> None:
    timings = [{"side": "slow", "median": 9.0}, {"side": "ours", "median": 0.02}]
    sampler = {"quick": False, "timings": timings, "notes": [], "results": []}
    text = scale_markdown({**records, "sampler": sampler})["billion"]
    # 60 million nodes train, 8 times 1,024 of them in a step.
    assert "in 20 ms on the CPU" in text
    assert f"an epoch would take {math.ceil(60e6 / 8192) * 0.02:.0f} s" in text
    sampler["quick"] = True
    assert "20 ms" not in scale_markdown({**records, "sampler": sampler})["billion"]


def test_what_was_not_measured_says_so() -> None:
    parts = scale_markdown({})
    assert {parts[name] for name in ("rates", "fit", "memory", "billion", "wide")} == {NOT_YET}
    assert all(line.endswith("not measured yet.") for line in parts["measured"].splitlines())
    blocks = set(re.findall(r"<!-- (.+): begin -->", PAGE + GUIDE))
    assert set(parts) == blocks - {"speed"}  # written from the benchmarks


def test_what_was_measured_is_said_in_the_records_words() -> None:
    record = {
        "quick": False,
        "notes": ["2 nodes: 3 ms a step", "other work kept 0.1 of 16 cores busy"],
        "results": [
            {"case": "a", "what": "1 process", "value": 1.849, "unit": "×"},
            {"case": "a", "what": "memory", "value": 12.0, "unit": "%"},
        ],
    }
    text = scale_markdown({"ranks": record})["measured"]
    assert "2 nodes: 3 ms a step; 1 process, 1.85×." in text
    assert "other work" not in text
    quick = scale_markdown({"ranks": {**record, "quick": True}})["measured"]
    assert "3 ms" not in quick


def test_the_figure_is_the_same_every_time(fitted: Fitted, tmp_path: Path) -> None:
    paths = [tmp_path / "deep" / f"{name}.png" for name in ("one", "two")]
    for path in paths:
        write_scale_figure(path, fitted)
    assert paths[0].read_bytes() == paths[1].read_bytes()
