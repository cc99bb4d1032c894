"""The scores of a run as polynomials of standardised columns, with the terms of single columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crossgcn.errors import BadInput
from crossgcn.experiments.run_folder import RunFolder
from crossgcn.explanation.api import names_of_run
from crossgcn.explanation.columns import Column
from crossgcn.explanation.hop_explainer import HopExplainer
from crossgcn.explanation.polynomial import Floats, Polynomial, read_hops
from crossgcn.explanation.purify import Terms
from crossgcn.models.cross_hops import CrossHops

_SMALLEST = 1e-12
"""Weights below are left out, relative to the largest."""


class Form(NamedTuple):
    """The quadratic polynomial ``constant + linear x + x square x``; ``square`` is triangular."""

    constant: float
    linear: Floats
    square: Floats

    def evaluate(self, x: Floats) -> Floats:
        """Return the value of each row."""
        value: Floats = self.constant + x @ self.linear + ((x @ self.square) * x).sum(axis=1)
        return value


@dataclass(frozen=True)
class Scores:
    """The score of each class, or one score, as ``average`` plus terms.

    Attributes:
        outputs: What each score is for; one for two classes and for a number.
        columns: The columns that the model reads.
        average: Mean score over the training graph, ``[outputs]``.
        singles: The purified term of each column by output, a form of the inputs of the column.
        crosses: By output, what is left: the sum of all crosses, a form of all inputs.
    """

    outputs: tuple[str, ...]
    columns: tuple[Column, ...]
    average: Floats
    singles: tuple[tuple[Form, ...], ...]
    crosses: tuple[Form, ...]


def read_model(run: RunFolder, what: str) -> CrossHops:
    """Return the model of a run; refuse models that are no polynomial of columns.

    Args:
        what: What the model is to be written as, for messages.
    """
    model = run.saved.model
    if type(model) is not CrossHops:
        raise BadInput(
            f"{run.folder}: a {run.config.model} cannot be written as {what}; train with --model "
            "cross-hops"
        )
    return model


def read_scores(run: RunFolder, exclusive: Sequence[Sequence[int]] = ()) -> Scores:
    """Split the scores of a run into an average, terms of single columns, and crosses.

    Scores are those before the softmax. Of two classes, the score is that of the second minus that
    of the first, as in explanations.

    Args:
        exclusive: Positions of own inputs of which at most one is 1, and the others are 0.

    Raises:
        BadInput: If the model is not a polynomial of degree 2 or less.
    """
    model = read_model(run, "SQL")
    if model.order > 2:
        raise BadInput(
            f"{run.folder}: products of {model.order} columns are too long for SQL; train with "
            "--order 2"
        )
    names = names_of_run(run)
    explainer = HopExplainer(model, run.data, names, run.labels(model))
    classes = names.classes
    is_single = len(classes) <= 2
    margin = explainer.outputs.margin if is_single else np.eye(len(classes))
    polynomial, x = read_hops(model, margin), explainer.inputs(explainer.fitted_nodes())
    zero = _products(model, exclusive)
    whole = [_simplify(_expand(polynomial, output), zero) for output in range(len(margin))]
    terms = [
        tuple(_simplify(form, zero[np.ix_(column.places, column.places)]) for form in forms)
        for column, forms in zip(
            explainer.columns, _single_terms(polynomial, x, explainer.columns), strict=True
        )
    ]
    average = np.array([form.evaluate(x).mean() for form in whole])
    crosses = []
    for output, form in enumerate(whole):
        linear, square = form.linear.copy(), form.square.copy()
        for column, single in zip(explainer.columns, terms, strict=True):
            linear[column.places] -= single[output].linear
            square[np.ix_(column.places, column.places)] -= single[output].square
        rest = _rounded(Form(0.0, linear, square), form)
        mean = float(rest.evaluate(x).mean())
        crosses.append(rest._replace(constant=-mean))
    outputs = explainer.outputs.names if is_single else classes
    return Scores(outputs, explainer.columns, average, tuple(terms), tuple(crosses))


def _products(model: CrossHops, exclusive: Sequence[Sequence[int]]) -> NDArray[np.bool_]:
    """Return which products are 0, or on the diagonal, which squares are the inputs themselves."""
    scale = (model.center == 0) & (model.deviation == 1) & (model.low == 0) & (model.high == 1)
    is_flag, zero = scale.numpy(), np.zeros((len(scale), len(scale)), np.bool_)
    for group in exclusive:
        kept = [place for place in group if is_flag[place]]
        zero[np.ix_(kept, kept)] = True
    return zero


def _simplify(form: Form, zero: NDArray[np.bool_]) -> Form:
    """Return the same polynomial without products that are 0, and squares of flags."""
    squares = np.where(zero.diagonal(), form.square.diagonal(), 0.0)
    return Form(form.constant, form.linear + squares, np.where(zero, 0.0, form.square))


def _expand(polynomial: Polynomial, output: int) -> Form:
    """Multiply the units of a polynomial out, as the mean over its bags."""
    units = polynomial.weights.shape[1]
    readout = polynomial.readout.reshape(units, polynomial.bags, -1).mean(axis=1)[:, output]
    square = np.zeros((polynomial.weights.shape[2],) * 2)
    if polynomial.order == 2:
        _, first, second = polynomial.weights
        square = (first * (readout * polynomial.order_weights[1])[:, np.newaxis]).T @ second
    return Form(
        float(polynomial.bias[output]), readout @ polynomial.weights[0], _triangular(square)
    )


def _triangular(square: Floats) -> Floats:
    """Return the same quadratic form with zeros below the diagonal."""
    return np.asarray(np.triu(square) + np.tril(square, -1).T)


def _single_terms(
    polynomial: Polynomial, x: Floats, columns: Sequence[Column]
) -> list[tuple[Form, ...]]:
    """Return the purified term of each column, by output.

    A purified term of one column is a quadratic polynomial of the inputs of that column. It is
    read off its values at probes, rows that are added to the nodes that the terms are fitted on.
    """
    mean, rows = x.mean(axis=0), [x]
    starts = np.cumsum([len(x), *(1 + _num_probes(len(each.places)) for each in columns)])
    for column in columns:
        probes = np.tile(mean, (1 + _num_probes(len(column.places)), 1))
        probes[1:, column.places] += _probes(len(column.places))
        rows.append(probes)
    places = [each.places for each in columns]
    purified = Terms(polynomial, np.concatenate(rows), places, len(x))
    found: list[tuple[Form, ...]] = [()] * len(columns)
    for key, term in purified.purify():
        if len(key) == 1:
            (place,) = key
            column = columns[place]
            here = term[starts[place] : starts[place + 1]]
            values = here.reshape(len(here), polynomial.bags, -1).mean(axis=1)
            found[place] = tuple(_fit(each, mean[column.places]) for each in values.T)
    return found


def _num_probes(size: int) -> int:
    return size * (size + 3) // 2


def _probes(size: int) -> Floats:
    """Return the steps from the mean: one up, one down, and two up for each pair."""
    eye = np.eye(size)
    first, second = np.triu_indices(size, 1)
    return np.concatenate([eye, -eye, eye[first] + eye[second]])


def _fit(values: Floats, mean: Floats) -> Form:
    """Return the quadratic polynomial with these values at the mean and at the probes."""
    size = len(mean)
    up, down, pairs = np.split(values[1:] - values[0], [size, 2 * size])
    square = np.diag((up + down) / 2)
    first, second = np.triu_indices(size, 1)
    square[first, second] = pairs - up[first] - up[second]
    slope = (up - down) / 2
    symmetric = square + square.T
    constant = values[0] - slope @ mean + mean @ square @ mean
    form = Form(float(constant), slope - symmetric @ mean, square)
    return _rounded(form, form)


def _rounded(form: Form, scale: Form) -> Form:
    """Return a polynomial without what rounding left of zeros."""
    least = _SMALLEST * max(
        np.abs(scale.linear).max(initial=0), np.abs(scale.square).max(initial=0)
    )
    linear, square = (np.where(np.abs(each) > least, each, 0.0) for each in form[1:])
    return Form(form.constant, linear, square)
