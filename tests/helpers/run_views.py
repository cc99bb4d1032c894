"""Reports of runs that never were: a shop's customers, and what users' tables may hold."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from crossgcn.reports.run_report.scores import Calibration, Confusion, Errors
from crossgcn.reports.run_report.view import (
    ClassCrosses,
    ColumnView,
    ComparedModel,
    ComparisonView,
    CrossView,
    Curve,
    FieldStrengths,
    LayerWeights,
    NodeView,
    Role,
    RunView,
    Step,
)

FIELDS = {
    "gender": ("gender=female", "gender=male"),
    "age": ("age<20", "age=[20, 25)", "age=[25, 35)", "age=[35, 50)", "age≥50"),
    "city": ("city=Porto", "city=Lyon", "city=Graz", "city=Gent", "city=Bergen"),
    "membership": ("membership=gold", "membership=silver", "membership=none"),
    "device": ("device=tablet", "device=telephone", "device=desktop"),
    "income": ("income<1500", "income=[1500, 2500)", "income=[2500, 4000)", "income≥4000"),
    "visits": ("visits=0", "visits=[1, 5)", "visits≥5"),
    "newsletter": ("newsletter",),
    "tags": ("tags:garden", "tags:sale", "tags:tools", "tags:(other)"),
    "channel": ("channel=friend", "channel=search", "channel=advert"),
}
CLASSES = ("books", "garden", "sports", "toys")
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{7*7}}{% raise %}",
    "$\\frac{1}{2$ & $x_",
    "</script><script>alert(2)</script><!--",
    "javascript:alert(1)//' onclick='alert(3)",
    "tab\tnew\nline \u0000\u202e\u2028 end",
    "a long name " + "without-any-place-to-break" * 40,
)


def shop_view(
    *,
    num_splits: int = 10,
    num_nodes: int = 500,
    classes: Sequence[str] = CLASSES,
    fields: Mapping[str, tuple[str, ...]] = FIELDS,
    order: int = 2,
    compared: bool = True,
    num_crosses: int = 12,
    seed: int = 0,
) -> RunView:
    """A run like that of the example shop."""
    draws = random.Random(seed)
    model = "cross-gcn" if order > 1 else "gcn"
    nodes = tuple(_node(draws, number, classes, fields, order) for number in range(num_nodes))
    tested = [node for node in nodes if node.role == "test" and node.true_class is not None]
    return RunView(
        title="shop",
        target="buys",
        num_nodes=max(num_nodes, 2000),
        num_edges=9874,
        num_columns=len(fields),
        class_sizes={name: 300 + draws.randrange(400) for name in classes},
        model=model,
        has_crosses=order > 1,
        facts={"model": f"{model}, 2 layers", "dropout": "0.2", "seed": "0", "torch": "2.13.0"},
        columns=(
            ColumnView("customer", "id", "all different, and the ends of the edges"),
            ColumnView("buys", "target", "given with --target"),
            *(
                ColumnView(name, "categorical", f"{len(values)} different values")
                for name, values in fields.items()
            ),
        ),
        warnings=("nodes.csv, column visits: 61 % of the cells are 0; nothing to do",),
        test={"accuracy": tuple(0.71 + draws.gauss(0, 0.015) for _ in range(num_splits))},
        guess=0.312,
        shown_split=min(3, num_splits),
        curves=tuple(_curve(draws) for _ in range(num_splits)),
        confusion=Confusion.measure(
            classes,
            [node.true_class for node in tested],
            [node.predicted_class for node in tested],
        ),
        calibration=Calibration.measure(
            [node.probability for node in tested],
            [node.predicted_class == node.true_class for node in tested],
        ),
        order_weights=(
            LayerWeights(
                tuple(
                    (1.0, *(draws.gauss(0.8, 0.1) for _ in range(order - 1)))
                    for _ in range(num_splits)
                )
            ),
            LayerWeights(((1.0,),) * num_splits),
        ),
        crosses=tuple(_class_crosses(draws, name, fields, order, num_crosses) for name in classes),
        fields=_field_strengths(draws, tuple(fields)) if order > 1 else None,
        comparison=_comparison(draws, num_splits) if compared else None,
        nodes=nodes,
        completeness=0.974,
    )


def number_view(num_splits: int = 4) -> RunView:
    """A run that predicts a number and is not explained."""
    draws = random.Random(0)
    view = shop_view(num_splits=num_splits, num_nodes=0, compared=False)
    truth = [draws.gauss(40, 12) for _ in range(1_500)]
    r2 = tuple(0.71 + draws.gauss(0, 0.015) for _ in range(num_splits))
    return replace(
        view,
        target="spent",
        class_sizes={},
        target_range=(min(truth), max(truth)),
        model="cross-hops",
        test={"r2": r2, "rmse": (6.5,) * num_splits, "mae": (4.9,) * num_splits},
        guess=12.1,
        confusion=None,
        calibration=None,
        errors=Errors.measure(truth, [value + draws.gauss(0, 6) for value in truth]),
        order_weights=(),
        crosses=(),
        fields=None,
        completeness=None,
        unexplained="This page does not list the terms of cross-hops yet.",
    )


def hostile_view() -> RunView:
    """Every name that the user's tables give is an attack or a nuisance."""
    fields = {name: (f"{name}={name}", f"{name}=b") for name in HOSTILE}
    view = shop_view(classes=(*HOSTILE[:6], "", "x" * 300), fields=fields, num_nodes=40)
    nodes = [
        replace(node, id=f"{HOSTILE[i % len(HOSTILE)]}{i}") for i, node in enumerate(view.nodes)
    ]
    return replace(
        view,
        title=HOSTILE[0],
        target=HOSTILE[1],
        nodes=tuple(nodes),
        warnings=HOSTILE,
        facts={HOSTILE[0]: HOSTILE[1]},
        columns=tuple(ColumnView(name, "categorical", name) for name in HOSTILE),
    )


def _curve(draws: random.Random) -> Curve:
    epochs = tuple(range(1, 201))
    noise = [draws.gauss(0, 0.012) for _ in epochs]
    accuracy = tuple(
        0.72 - 0.42 * math.exp(-epoch / 25) + wobble
        for epoch, wobble in zip(epochs, noise, strict=True)
    )
    metrics = {
        "epoch": epochs,
        "train_loss": [0.45 + 0.95 * math.exp(-epoch / 40) for epoch in epochs],
        "validation_loss": [
            0.72 + 0.7 * math.exp(-epoch / 30) + 0.0006 * epoch for epoch in epochs
        ],
        "validation_score": accuracy,
    }
    return Curve(metrics, 1 + accuracy.index(max(accuracy)))


def _features(draws: random.Random, fields: Mapping[str, tuple[str, ...]], count: int) -> list[str]:
    chosen = draws.sample(sorted(fields), min(count, len(fields)))
    return [draws.choice(fields[name]) for name in chosen]


def _class_crosses(
    draws: random.Random, name: str, fields: Mapping[str, tuple[str, ...]], order: int, count: int
) -> ClassCrosses:
    crosses = []
    for rank in range(count if order > 1 and len(fields) > 1 else 0):
        members = tuple(_features(draws, fields, 2 if rank % 4 else order))
        strength = draws.choice((1, 1, -1)) * 0.4 / (1 + rank)
        crosses.append(
            CrossView(
                " & ".join(members),
                members,
                strength,
                7 * strength,
                draws.randrange(20, 300),
                draws.randrange(2, 11) / 10,
                0.03 / (1 + rank) - 0.002,
            )
        )
    terms = []
    for rank in range(8):
        strength = draws.choice((1, -1)) * 0.9 / (1 + rank)
        feature = _features(draws, fields, 1)[0]
        support = draws.randrange(50, 900)
        terms.append(CrossView(feature, (feature,), strength, 3 * strength, support))
    return ClassCrosses(name, tuple(crosses), tuple(terms))


def _field_strengths(draws: random.Random, fields: tuple[str, ...]) -> FieldStrengths:
    count = len(fields)
    values = [[0.0] * count for _ in range(count)]
    for i in range(count):
        for j in range(i):
            values[i][j] = values[j][i] = draws.random() ** 4
    return FieldStrengths(fields, tuple(map(tuple, values)))


def _comparison(draws: random.Random, num_splits: int) -> ComparisonView:
    means = {
        "majority class": 0.312,
        "logistic regression": 0.551,
        "MLP": 0.603,
        "GCN": 0.628,
        "GIN": 0.672,
        "Cross-GCN, K = 1": 0.63,
        "Cross-GCN, K = 2": 0.712,
        "Cross-GCN, K = 3": 0.706,
    }
    return ComparisonView(
        tuple(
            ComparedModel(
                name,
                tuple(mean + draws.gauss(0, 0.015) for _ in range(num_splits)),
                None if name.startswith("majority") else 4_000 + draws.randrange(900),
            )
            for name, mean in means.items()
        ),
        "Cross-GCN, K = 2",
        "GCN",
        0.084,
        (0.071, 0.097) if num_splits > 1 else None,
        True,
        "Crosses help: Cross-GCN with K = 2 is 8.4 points better than GCN on the same ten splits "
        "(95 % interval 7.1 to 9.7).",
    )


def _node(
    draws: random.Random,
    number: int,
    classes: Sequence[str],
    fields: Mapping[str, tuple[str, ...]],
    order: int,
) -> NodeView:
    roles: tuple[Role, ...] = ("train", "train", "train", "validation", "test")
    role = "unlabelled" if number % 33 == 0 else draws.choice(roles)
    predicted = draws.randrange(len(classes))
    right = draws.random() < 0.7
    truth = predicted if right else draws.randrange(len(classes))
    steps = tuple(
        Step(" & ".join(_features(draws, fields, 1 + (at % 2 if order > 1 else 0))), value)
        for at, value in enumerate(sorted((draws.gauss(0.2, 0.5) for _ in range(8)), key=abs)[::-1])
    )
    start, rest = -0.21, draws.gauss(0, 0.2)
    return NodeView(
        f"u_{number}",
        None if role == "unlabelled" else truth,
        predicted,
        draws.uniform(0.3, 0.99),
        role,
        start,
        steps,
        start + sum(step.contribution for step in steps) + rest,
    )
