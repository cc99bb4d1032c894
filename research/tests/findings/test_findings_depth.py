from __future__ import annotations

from typing import Any

from research.findings.depth import depth_markdown

SETTINGS = {
    "epochs": 150,
    "splits": 2,
    "hidden_channels": 16,
    "learning_rate": 0.02,
    "weight_decay": 5e-4,
    "datasets": {
        "words": {"train": 20, "dropout": 0.5},
        "numbers": {"train": "all", "dropout": 0.2},
    },
}


def point(place: str, value: int, *percent: float, diverged: int = 0) -> dict[str, Any]:
    dataset, variant, sweep = place.split("/")
    return {
        "dataset": dataset,
        "variant": variant,
        "sweep": sweep,
        "value": value,
        "test_accuracy": [each / 100 for each in percent],
        "diverged": diverged,
    }


def record(*more: dict[str, Any]) -> dict[str, Any]:
    points = [
        point("words/plain/order", 1, 20, 22),
        point("words/plain/order", 2, 80, 82),
        point("words/plain/order", 8, 30, 32),
        point("words/scaled/order", 1, 20, 20),
        point("words/scaled/order", 2, 78, 78),
        point("words/scaled/order", 8, 75, 76),
        point("words/plain/depth", 2, 80, 82),
        point("words/plain/depth", 16, 50, diverged=1),
        point("words/scaled/depth", 2, 70, 70),
        point("words/scaled/depth", 16, diverged=2),
    ]
    return {"accuracy": [*points, *more], "settings": SETTINGS}


def test_what_trains_and_what_does_not_is_computed() -> None:
    text = depth_markdown(record())
    assert (
        "- From order 2 to order 8: *scaled* trains (at most 2.5 points below the best of its "
        "row, on words at order 8); *plain* does not (50.0 points lost on words at order 8)."
        in text
    )
    assert (
        "*plain* does not (1 of 4 runs diverged on words; 31.0 points lost on words at 16" in text
    )
    assert "*scaled* does not (2 of 4 runs diverged on words)." in text


def test_variants_are_held_against_the_plain_one_at_both_ends() -> None:
    text = depth_markdown(record())
    assert "- Against *plain* at order 2, in points: *scaled* -3.0 on words." in text
    assert "- Against *plain* at order 8, in points: *scaled* +44.5 on words." in text
    assert "- Against *plain* at 16 layers, in points: *scaled* diverged on words." in text
    partly = [
        point("numbers/plain/depth", 2, 80),
        point("numbers/plain/depth", 16, 50, diverged=1),
        point("numbers/scaled/depth", 2, 80),
        point("numbers/scaled/depth", 16, 60),
    ]
    assert "diverged on words, +10.0 (1 diverged) on numbers" in depth_markdown(record(*partly))


def test_tables_have_means_and_count_what_diverged() -> None:
    text = depth_markdown(record(), figure="figures/depth.png")
    assert "| order | 1 | 2 | 8 |" in text
    assert "| words: plain | 21.0 | 81.0 | 31.0 |" in text
    assert "| layers | 2 | 16 |" in text
    assert "| words: plain | 81.0 | 50.0<br>1 diverged |" in text
    assert "| words: scaled | 70.0 | —<br>2 diverged |" in text
    assert text.endswith("(figures/depth.png)")


def test_the_settings_are_told() -> None:
    text = depth_markdown(record())
    assert "means over 2 splits" in text and "150 epochs, 16 hidden units" in text
    assert "20 nodes of each class training and dropout 0.5 on words" in text
    assert "all labelled nodes training and dropout 0.2 on numbers" in text


def test_what_was_not_measured_or_never_trained_says_so() -> None:
    assert depth_markdown(None) == "Not measured yet."
    alone = {"accuracy": [point("words/plain/depth", 16, diverged=2)], "settings": SETTINGS}
    assert "*plain* does not (2 of 2 runs diverged on words)." in depth_markdown(alone)
