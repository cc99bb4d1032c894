from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from rich.console import Console, Group, RenderableType

from crossgcn.reports.format import change_text, make_table, number_text, spread_text
from crossgcn.reports.terminal.compare import comparison_screen, training_screen

SHARED = {
    "dataset": "cora",
    "splits": "random",
    "num_splits": 20,
    "num_runs": 20,
    "train": 20,
    "epochs": 500,
    "metric": "accuracy",
    "answer": [],
}


def rendered(screen: Iterable[RenderableType], width: int = 160) -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(Group(*screen), markup=False)
    return capture.get().splitlines()


def model_row(name: str, mean: float = 0.7, **entries: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "model": name,
        "num_layers": 2,
        "mean": mean,
        "sd": 0.0123,
        "paired_difference": None,
        "paired_se": None,
        "paired_interval": None,
        "seconds": 12.4,
        "metric": "accuracy",
        "test": {"accuracy": [mean], "roc_auc": [0.8]},
        "validation_score": [0.71, 0.73],
        "trained_order_weights": [],
        "doubts": [],
        "epochs": 500,
        "learning_rate": 0.05,
        "weight_decay": 0.0005,
        "hidden_channels": 64,
    }
    return row | entries


def compared(name: str, difference: float, reach: float, **entries: Any) -> dict[str, Any]:
    return model_row(
        name,
        paired_difference=difference,
        paired_se=reach / 2,
        paired_interval=(difference - reach, difference + reach),
        **entries,
    )


def test_a_training_is_shown_in_percent() -> None:
    alphas = [[[1.0, 0.2], [1.0, -0.1], [1.0]], [[1.0, 0.4], [1.0, 0.3], [1.0]]]
    tests = {"accuracy": [0.78, 0.81], "roc_auc": [0.9, 0.92]}
    row = model_row("gcn", trained_order_weights=alphas, test=tests)
    title, *lines = rendered(training_screen(SHARED | row))
    assert title == "gcn on cora: 20 random splits, 20 per class, 500 epochs"
    text = " ".join("\n".join(lines).split())
    assert "accuracy in % 79.5 ± 2.1 ROC-AUC in % 91.0 ± 1.4" in text
    assert "accuracy in % on the validation nodes: 72.0" in text
    assert lines[-2:] == [
        "layer 1: order weights |α| = 1.00, 0.30",
        "layer 2: order weights |α| = 1.00, 0.20",
    ]


def test_a_comparison_shows_signed_points_and_their_error() -> None:
    rows = [model_row("gcn"), compared("gin", 0.0123, 0.008), compared("mlp", -0.1, 0.02)]
    summary = SHARED | {"baseline": "gcn", "models": rows}
    lines = {line.split()[0]: line for line in rendered(comparison_screen(summary)) if line.strip()}
    assert "+1.23 ± 0.40" in lines["gin"]
    assert "-10.00 ± 1.00" in lines["mlp"]
    assert lines["gcn"].split() == ["gcn", "2", "70.0", "±", "1.2", "—", "12"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"train": "all"}, "20 random splits, all labelled nodes, 500 epochs"),
        ({"splits": "public", "num_splits": 1, "num_runs": 1}, "1 public split, 500 epochs"),
        ({"dataset": "[old]/a[/b].npz"}, "gcn on [old]/a[/b].npz: 20 random"),
    ],
)
def test_the_title_says_what_was_trained_on(changes: dict[str, Any], expected: str) -> None:
    assert expected in "\n".join(rendered(training_screen(SHARED | changes | model_row("gcn"))))


def test_a_table_folds_its_cells_beyond_100_columns() -> None:
    table = make_table([["x" * 90, "12.5", "y " * 90]], ["name"], ["number"], ["more"])
    lines = rendered([table], 200)
    assert max(map(len, lines)) <= 100
    text = "".join(lines)
    assert (text.count("x"), text.count("y"), text.count("12.5")) == (90, 90, 1)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_number_is_cut_in_a_narrow_terminal(width: int) -> None:
    models = [
        model_row(name, num_layers=layers, mean=0.6789, paired_difference=-0.0123, paired_se=0.0045)
        for name in ("cross-gcn-release-fix", "cross-gcn")
        for layers in (1, 2)
    ]
    lines = rendered(comparison_screen(SHARED | {"baseline": "gcn", "models": models}), width)
    assert all(len(line) <= width for line in lines)
    assert "…" not in "".join(lines)
    text = " ".join(lines).split()
    assert text.count("67.9") == text.count("-1.23") == text.count("0.45") == 4
    assert sum(word in ("1", "2") for word in text) == 4


def test_black_boxes_stand_below_a_line() -> None:
    models = [model_row("linear", glass_box=True), model_row("boosting", glass_box=False)]
    summary = SHARED | {"baseline": "linear", "models": models}
    lines = rendered(comparison_screen(summary))
    place = {line.split()[0]: at for at, line in enumerate(lines) if line.strip()}
    assert place["boosting"] - place["linear"] == 2
    assert "Below the gap: black boxes." in lines
    glass = SHARED | {"baseline": "linear", "models": models[:1]}
    assert "Below the gap: black boxes." not in rendered(comparison_screen(glass))


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (88.0, "88"), (54321.7, "54,322"), (0.03145, "0.03145"), (-2.5, "-2.500")],
)
def test_numbers_are_written_as_people_write_them(value: float, text: str) -> None:
    assert number_text(value) == text
    assert number_text(float("nan")) == "nan" and number_text(float("inf")) == "inf"
    assert spread_text("rmse", 54321.2, 1234.5) == "54,321 ± 1,234"
    assert change_text("mae", 0.01234) == "+0.0123"
