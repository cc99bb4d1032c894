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

_SMALLEST = 1e-10
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


def read_scores(run: RunFolder, exclusive: Sequence[str] = ()) -> Scores:
    """Split the scores of a run into an average, terms of single columns, and crosses.

    Scores are those before the softmax. Of two classes, the score is that of the second minus that
    of the first, as in explanations.

    Args:
        exclusive: Own columns of which at most one flag is 1.

    Raises:
        BadInput: If the model is not a polynomial of degree 2 or less.
    """
    model = read_model(run, "SQL")
    if model.order > 2:
        raise BadInput(
            f"{run.folder}: products of {model.order} columns are too long for SQL; train with "
            "--order 2"
        )
    explainer = HopExplainer(model, run.data, names_of_run(run), run.labels(model))
    columns, classes = explainer.columns, explainer.names.classes
    is_single = len(classes) <= 2
    margin = explainer.outputs.margin if is_single else np.eye(len(classes))
    polynomial, x = read_hops(model, margin), explainer.inputs(explainer.fitted_nodes())
    flags = [
        _flags(model, each) if each.scope == "own" and each.name in exclusive else each.places[:0]
        for each in columns
    ]
    zero = np.zeros((x.shape[1],) * 2, np.bool_)
    for places in flags:
        zero[np.ix_(places, places)] = True
    singles = _single_terms(polynomial, x, columns, flags, zero)
    average, crosses = [], []
    for output in range(len(margin)):
        whole = _expand(polynomial, output, zero)
        average.append(whole.evaluate(x).mean())
        linear, square = whole.linear.copy(), whole.square.copy()
        for column, forms in zip(columns, singles, strict=True):
            linear[column.places] -= forms[output].linear
            square[np.ix_(column.places, column.places)] -= forms[output].square
        rest = _drop_smallest(Form(0.0, linear, square), whole)
        crosses.append(rest._replace(constant=-float(rest.evaluate(x).mean())))
    outputs = explainer.outputs.names if is_single else classes
    return Scores(outputs, columns, np.array(average), tuple(singles), tuple(crosses))


def _flags(model: CrossHops, column: Column) -> NDArray[np.int64]:
    """Return the inputs of an own column that are 0 or 1."""
    is_flag = (model.center == 0) & (model.deviation == 1) & (model.low == 0) & (model.high == 1)
    return np.asarray(column.places[is_flag.numpy()[column.places]])


def _expand(polynomial: Polynomial, output: int, zero: NDArray[np.bool_]) -> Form:
    """Multiply the units of a polynomial out, as the mean over its bags.

    Args:
        zero: Which products of inputs are 0, and which squares are the inputs themselves.
    """
    units = polynomial.weights.shape[1]
    readout = polynomial.readout.reshape(units, polynomial.bags, -1).mean(axis=1)[:, output]
    linear, square = readout @ polynomial.weights[0], np.zeros(zero.shape)
    if polynomial.order == 2:
        _, first, second = polynomial.weights
        square = (first * (readout * polynomial.order_weights[1])[:, np.newaxis]).T @ second
    square = np.triu(square) + np.tril(square, -1).T
    linear = linear + np.where(zero.diagonal(), square.diagonal(), 0.0)
    return Form(float(polynomial.bias[output]), linear, np.where(zero, 0.0, square))


def _single_terms(
    polynomial: Polynomial,
    x: Floats,
    columns: Sequence[Column],
    flags: Sequence[NDArray[np.int64]],
    zero: NDArray[np.bool_],
) -> list[tuple[Form, ...]]:
    """Return the purified term of each column, by output.

    A purified term of one column is a quadratic polynomial of the inputs of that column. It is
    fitted to the values of the term at random rows, which are added to the nodes that the terms
    are fitted on.
    """
    products = {}
    for number, places in enumerate(each.places for each in columns):
        first, second = np.triu_indices(len(places))
        products[number] = np.stack([first, second])[:, ~zero[places[first], places[second]]]
    most = max(1 + len(columns[each].places) + found.shape[1] for each, found in products.items())
    random = np.random.default_rng(0)
    probes = x.mean(axis=0) + random.normal(size=(2 * most, x.shape[1]))
    for places in filter(len, flags):  # one flag of a column is 1, or none
        states = np.arange(len(probes))[:, np.newaxis] % (1 + len(places))
        probes[:, places] = states == np.arange(len(places))
    purified = Terms(polynomial, np.concatenate([x, probes]), [c.places for c in columns], len(x))
    found: list[tuple[Form, ...]] = [()] * len(columns)
    for key, term in purified.purify():
        if len(key) != 1:
            continue
        (number,) = key
        (first, second), size = products[number], len(columns[number].places)
        inputs = probes[:, columns[number].places]
        design = [np.ones((len(inputs), 1)), inputs, inputs[:, first] * inputs[:, second]]
        values = term[len(x) :].reshape(len(inputs), polynomial.bags, -1).mean(axis=1)
        forms = []
        for weights in np.linalg.lstsq(np.concatenate(design, axis=1), values)[0].T:
            square = np.zeros((size, size))
            square[first, second] = weights[1 + size :]
            form = Form(float(weights[0]), weights[1 : 1 + size], square)
            forms.append(_drop_smallest(form, form))
        found[number] = tuple(forms)
    return found


def _drop_smallest(form: Form, scale: Form) -> Form:
    """Return a polynomial without what rounding left of zeros."""
    least = _SMALLEST * max(
        np.abs(scale.linear).max(initial=0), np.abs(scale.square).max(initial=0)
    )
    linear, square = (np.where(np.abs(each) > least, each, 0.0) for each in form[1:])
    return Form(form.constant, linear, square)
