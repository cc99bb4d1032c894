"""A trained run as one SQL query over the tables ``nodes`` and ``edges``."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from crossgcn import __version__
from crossgcn.data.relations import NEIGHBOURS
from crossgcn.data.tables.encode import TableEncoder
from crossgcn.data.tables.graph import read_edge_encoders, read_encoding
from crossgcn.errors import BadInput, printable
from crossgcn.experiments.run_folder import RunFolder
from crossgcn.export.encode import add_columns, exclusive_columns
from crossgcn.export.neighbours import Labels, Side, add_sides, add_things
from crossgcn.export.query import Query, rounded
from crossgcn.export.scores import Form, read_model, read_scores
from crossgcn.graph.hops import HopPlan
from crossgcn.graph.neighbourhood import NeighbourLabels
from crossgcn.graph.standardise import Scale

MOST_LABELS = 20_000
"""How many training labels a query lists at most; Snowflake and BigQuery take queries of 1 MB."""

_AT_ONCE = 200
"""How many terms of a sum are nested."""

_DIGITS = 10
"""Digits of the largest weight of a sum; the others have as many decimals."""


class Exported(NamedTuple):
    """A query.

    Attributes:
        sql: Its text.
        tables: The tables that it reads, and the columns of each.
        columns: The columns of its result.
        labels: The rows of the table ``training_labels``, if the query reads it.
    """

    sql: str
    tables: dict[str, list[str]]
    columns: list[str]
    labels: pd.DataFrame | None


def export_sql(run: RunFolder, dialect: str, *, labels_apart: bool = False) -> Exported:
    """Write the chosen model of a run as a query with a row per node.

    Its columns are ``id``, ``score`` (``score: CLASS`` for each of more than two classes), of two
    classes ``probability``, that of the second, then the purified term of each single column and
    the sum of all crosses, which add up to the score with its mean.

    Args:
        dialect: One of :data:`~crossgcn.export.query.DIALECTS`.
        labels_apart: Read the labels of training nodes, which the columns of their neighbours
            show, from a table ``training_labels`` with columns ``id`` and ``label``, instead of
            listing them in the query.

    Raises:
        BadInput: If something of the model cannot be written in SQL.
    """
    return _Export(run, dialect, labels_apart).write()


class _Input(NamedTuple):
    """What an input of the model is made of.

    Attributes:
        kind: An ``own`` column, its ``mean`` over neighbours, the ``count`` of neighbours, a mean
            over the ``edges`` of a node, or what neighbours show of ``labels``.
        side: The kind of neighbours, as numbered in ``HopPlan.sides``.
        at: Position among the columns of this kind.
    """

    kind: str
    side: int = -1
    hop: int = 0
    at: int = 0


def _list_inputs(plan: HopPlan) -> list[_Input]:
    """Return what each input is made of, in the order of the model."""
    sides, counts = range(len(plan.sides)), plan.edge_columns
    found = [_Input("own", at=at) for at in range(plan.num_features)]
    for hop in range(1, plan.hops + 1):
        found += [_Input("mean", s, hop, at) for s in sides for at in range(plan.num_features)]
    found += [_Input("count", side) for side in sides]
    for side, (number, _) in enumerate(plan.sides):
        found += [_Input("edges", side, at=at) for at in range(counts[number] if counts else 0)]
    for hop in range(1, plan.label_hops + 1):
        found += [_Input("labels", s, hop, at) for s in sides for at in range(plan.num_labels + 1)]
    return found


class _Export:
    """The parts from which the query of a run is made."""

    def __init__(self, run: RunFolder, dialect: str, labels_apart: bool) -> None:
        self.run, self.query, self.labels_apart = run, Query(dialect), labels_apart
        self.model = read_model(run, "SQL")
        self.hops = self.model.plan
        try:
            self.encoder, self.plan = read_encoding(run.saved.preprocess)
            self.edge_encoders = read_edge_encoders(run.saved.preprocess)
        except BadInput as error:
            raise BadInput(f"{run.folder}: {error}") from None
        self.scores = read_scores(run, exclusive_columns(self.encoder))
        self.features = [self.query.name(each) for each in self.encoder.space.names]
        self.prior = [rounded(each) for each in self.model.prior.tolist()]
        self.titles = {
            int(place): title
            for column in self.scores.columns
            for place, title in zip(column.places, column.features, strict=True)
        }
        inputs = _list_inputs(self.hops)
        self.read = {inputs[place]: place for place in sorted(self.titles)}
        self.labels: pd.DataFrame | None = None

    def write(self) -> Exported:
        """Add all steps and write the query."""
        plan, query, read = self.plan, self.query, self.read
        wanted = {i.at: self.features[i.at] for i in read if i.kind in ("own", "mean")}
        columns = _columns_of(self.encoder, wanted)
        nodes = query.table("nodes", list(dict.fromkeys([plan.id_column, *columns])))
        used = {self.hops.sides[each.side][0] for each in read if each.side >= 0}
        edges = {number: self._open_edges(number) for number in sorted(used)}
        shown = self._shown_labels()
        labels = None if shown is None else self._add_labels(shown)
        node = nodes[plan.id_column]
        keys = {"id": node, "node": node.cast("string")}
        own = add_columns(query, "own", nodes, keys, self.encoder, wanted)
        values = {each: own[self.features[each.at]] for each in read if each.kind == "own"}
        tables = list[Any]()
        for number, table in edges.items():
            places = [at for at, (each, _) in enumerate(self.hops.sides) if each == number]
            for side, links in zip(places, self._add_edges(number, table, own), strict=True):
                added, found = self._add_side(own, side, links, labels)
                tables += added
                values |= found
        last = self._add_scores(own, tables, {place: values[each] for each, place in read.items()})
        sql = query.write(last, self._header())
        return Exported(
            sql, query.tables, list(last.columns), self.labels if self.labels_apart else None
        )

    def _inputs(self, kind: str, side: int) -> list[_Input]:
        return [each for each in self.read if each.kind == kind and each.side == side]

    def _edge_columns(self, number: int) -> dict[int, str]:
        """Return the columns of edges of a relation that are read, by their positions."""
        title, sides = self.plan.relations[number].title, self.hops.sides
        places = [i.at for i in self.read if i.kind == "edges" and sides[i.side][0] == number]
        return {place: self.query.name(f"{title} {place}", "edges") for place in sorted(places)}

    def _open_edges(self, number: int) -> Any:
        """Return the table of edges of a relation."""
        plan = self.plan.relations[number]
        encoder = self.edge_encoders.get(plan.name)
        columns = [] if encoder is None else _columns_of(encoder, self._edge_columns(number))
        weight = filter(None, [plan.edge_weight])
        listed = dict.fromkeys([plan.source_column, plan.destination_column, *weight, *columns])
        is_only = len(self.plan.relations) == 1 and plan.name in (NEIGHBOURS, self.plan.relation)
        return self.query.table("edges" if is_only else plan.name, list(listed))

    def _add_edges(self, number: int, table: Any, own: Any) -> list[Side]:
        """Add the links of a relation."""
        plan = self.plan.relations[number]
        prefix = re.sub(r"\W", "_", plan.title) + "_" if len(self.plan.relations) > 1 else ""
        keys = {
            "source": table[plan.source_column].cast("string"),
            "target": table[plan.destination_column].cast("string"),
        }
        if plan.edge_weight is not None:
            keys["weight"] = table[plan.edge_weight].cast("float64")
        columns, encoder = self._edge_columns(number), self.edge_encoders.get(plan.name)
        if encoder is None:
            encoder = self.encoder.model_copy(update={"columns": ()})
        step = add_columns(self.query, f"{prefix}ends", table, keys, encoder, columns)
        if plan.through:
            return [add_things(self.query, prefix, own, step)]
        directed = (number, "in-") in self.hops.sides
        return add_sides(self.query, prefix, own, step, list(columns.values()), directed)

    def _add_side(
        self, own: Any, side: int, links: Side, labels: Labels | None
    ) -> tuple[list[Any], dict[_Input, Any]]:
        """Add the columns of one kind of neighbours; return tables to join, and their values."""
        tables: list[Any] = []
        values: dict[_Input, Any] = {}
        means, before = self._inputs("mean", side), own
        counts, of_edges = self._inputs("count", side), self._inputs("edges", side)
        for hop in range(1, max([each.hop for each in means] + [1] * len(counts), default=0) + 1):
            features = sorted({each.at for each in means if each.hop >= hop})
            prior = {self.features[each]: self.prior[each] for each in features}
            name = "neighbours" if hop == 1 else f"hops_{hop}"
            strength = float(self.model.strength[(hop - 1) * len(self.hops.sides) + side])
            gaps = hop > 1 and not links.is_symmetric
            before = links.add_means(name, before, prior, strength, gaps=gaps)
            tables.append(before)
            for each in means:
                if each.hop == hop:
                    values[each] = before[self.features[each.at]].fill_null(self.prior[each.at])
        for each in counts:
            values[each] = (tables[0].number.fill_null(0).cast("float64") + 1.0).ln()
        if of_edges:
            columns = self._edge_columns(self.hops.sides[side][0])
            tables.append(links.add_edge_means(list(columns.values())))
            values |= {each: tables[-1][columns[each.at]].fill_null(0.0) for each in of_edges}
        shown = self._inputs("labels", side)
        if labels is not None and shown:
            found = links.add_labels(labels, max(each.hop for each in shown))
            priors = list(labels.prior.items())
            tables += [found[hop - 1] for hop in sorted({each.hop for each in shown})]
            for each in shown:
                table = found[each.hop - 1]
                known = table.known.fill_null(0.0)
                values[each] = (known + 1.0).ln()
                if each.at < len(priors):
                    name, mean = priors[each.at]
                    total = table[name].fill_null(0.0) + each.hop * mean
                    values[each] = total / (known + each.hop)
        return tables, values

    def _shown_labels(self) -> NeighbourLabels | None:
        """Return the training labels, if a column that is read shows them."""
        shown = self.run.labels(self.model)
        if shown is None or not any(each.kind == "labels" for each in self.read):
            return None
        if shown.times is not None:
            raise BadInput(
                f"{self.run.folder}: neighbours show the labels of earlier nodes only, which is "
                "not written in SQL; train with --set label_features=false"
            )
        return shown

    def _add_labels(self, shown: NeighbourLabels) -> Labels:
        """Add what neighbours show of training labels."""
        import ibis

        nodes = shown.known.nonzero().flatten()
        targets, classes = self.run.data.y[nodes], self.run.saved.preprocess.classes
        is_number, query = len(classes) == 1, self.query
        ids = [self.run.ids[each] for each in nodes.tolist()]
        written = [each if is_number else classes[int(each)] for each in targets.tolist()]
        self.labels = pd.DataFrame({"id": ids, "label": written})
        if not self.labels_apart and len(nodes) > MOST_LABELS:
            raise BadInput(
                f"{self.run.folder}: {len(nodes):,} training labels are too many for a query; give "
                "--labels FILE.parquet, which writes them as a table"
            )
        if self.labels_apart:
            table = query.table("training_labels", ["id", "label"])
            kind = "float64" if is_number else "string"
            table = table.mutate(id=table.id.cast("string"), label=table.label.cast(kind))
        elif is_number:
            rows = list(self.labels.itertuples(index=False, name=None))
            table = query.add_values("training_labels", rows, {"id": "string", "label": "float64"})
        else:  # one list of nodes per class
            parts = []
            for number, (name, part) in enumerate(self.labels.groupby("label", sort=False)):
                nodes_of = [(each,) for each in part["id"]]
                listed = query.add_values(f"class_{number}", nodes_of, {"id": "string"})
                parts.append(listed.mutate(label=ibis.literal(name)))
            table = query.add("training_labels", ibis.union(*parts))
        if is_number:
            mean = float(targets.mean())
            deviation = float(targets.std(correction=0).clamp(min=1e-12))
            values = {"label": (table.label - mean) / deviation}
        else:
            values = {
                f"label {number}": (table.label == name).ifelse(1, 0).cast("float64")
                for number, name in enumerate(classes[1:] if len(classes) == 2 else classes, 1)
            }
        known = query.add("known_labels", table.select(node=table.id, **values, known=1.0))
        prior = shown.values[shown.known].double().mean(0).tolist()
        return Labels(known, dict(zip(values, prior, strict=True)))

    def _add_scores(self, own: Any, tables: Sequence[Any], values: Mapping[int, Any]) -> Any:
        """Add the standardised columns and the terms, and return the last step."""
        query, outputs, joined = self.query, self.scores.outputs, own
        for number, table in enumerate(tables):
            joined = joined.left_join(table, own.node == table.node, rname=f"{{name}} {number}")
        inputs = {
            query.name(title): self._standardise(values[place], place)
            for place, title in self.titles.items()
        }
        columns = query.add("columns", joined.select(own.id, **inputs))
        x = {place: columns[query.name(title)] for place, title in self.titles.items()}
        prefixes = [f"{name}: " if len(outputs) > 1 else "" for name in outputs]
        terms: list[dict[str, Any]] = [
            {
                query.name(prefix + column.name): _write_form(
                    forms[output], x, column.places.tolist()
                )
                for column, forms in zip(self.scores.columns, self.scores.singles, strict=True)
            }
            for output, prefix in enumerate(prefixes)
        ]
        crosses = self.scores.crosses
        has_crosses = any(each.linear.any() or each.square.any() for each in crosses)
        # A cross is a sum of many products, whose inputs get short names.
        short = {place: query.name(f"x{place}") for place in x if has_crosses}
        singles = {name: term for each in terms for name, term in each.items()}
        renamed = {name: x[place] for place, name in short.items()}
        table = query.add("single_terms", columns.select("id", **singles, **renamed))
        if has_crosses:
            x = {place: table[name] for place, name in short.items()}
            sums = {
                query.name(f"{prefix}crosses"): _write_form(form, x, range(len(form.linear)))
                for prefix, form in zip(prefixes, crosses, strict=True)
            }
            for each, (name, term) in zip(terms, sums.items(), strict=True):
                each[name] = term
            table = query.add("terms", table.select("id", *singles, **sums))
        scores = {}
        for name, average, here in zip(outputs, self.scores.average.tolist(), terms, strict=True):
            title = query.name(f"score: {name}") if len(outputs) > 1 else "score"
            scores[title] = _sum([rounded(average), *(table[each] for each in here)])
        names = [name for each in terms for name in each]
        scored = query.add("scored", table.select("id", *names, **scores))
        probability = {"probability": 1.0 / (1.0 + (-scored.score).exp())} if self._has_two else {}
        return scored.select("id", *scores, **probability, **{each: scored[each] for each in names})

    @property
    def _has_two(self) -> bool:
        return len(self.run.saved.preprocess.classes) == 2

    def _standardise(self, value: Any, place: int) -> Any:
        import ibis

        scale: Scale = self.model.scale
        assert scale.low is not None and scale.high is not None
        low, high = float(scale.low[place]), float(scale.high[place])
        width = self.hops.num_features
        is_share = place < self.hops.num_means and self.prior[place % width] == 0 and low == 0
        if not (is_share and high >= 1):
            value = ibis.least(value, high)
        if not is_share:
            value = ibis.greatest(value, low)
        center, deviation = float(scale.center[place]), float(scale.deviation[place])
        value = value - center if center else value
        return value / deviation if deviation != 1 else value

    def _header(self) -> str:
        classes, target = self.run.saved.preprocess.classes, self.plan.target
        what = "" if len(classes) == 1 else f": the log-odds of {classes[-1]}"
        what = what if len(classes) <= 2 else ": the scores before the softmax"
        lines = [f"{target}{what}, by crossgcn {__version__}. Reads these tables:"]
        lines += [f"  {name} ({', '.join(each)})" for name, each in self.query.tables.items()]
        return "\n".join(map(printable, lines))


def _columns_of(encoder: TableEncoder, features: Collection[int]) -> list[str]:
    """Return the columns of a table from which some features are made."""
    fields = encoder.space.fields
    return list(dict.fromkeys(fields[each] for each in features))


def _write_form(form: Form, x: Mapping[int, Any], places: Sequence[int]) -> Any:
    """Write a polynomial of the inputs at some places as a sum with one part per input."""
    largest = max(np.abs(each).max(initial=0.0) for each in form[1:])
    decimals = _DIGITS - int(np.ceil(np.log10(largest or 1.0)))
    linear, square = (np.round(each, decimals) for each in form[1:])
    parts: list[Any] = [rounded(form.constant)]
    for at, place in enumerate(places):
        weights = square[at, square[at] != 0].tolist()
        others = np.flatnonzero(square[at]).tolist()
        inner = [x[places[o]] * weight for o, weight in zip(others, weights, strict=True)]
        if linear[at]:
            inner.insert(0, float(linear[at]))
        if inner:
            parts.append(x[place] * _sum(inner))
    return _sum(parts)


def _sum(parts: Sequence[Any]) -> Any:
    """Return a sum; a long one as a sum of sums, as databases nest no thousand terms."""
    if len(parts) > _AT_ONCE:
        groups = [parts[at : at + _AT_ONCE] for at in range(0, len(parts), _AT_ONCE)]
        return _sum([_sum(group) for group in groups])
    return reduce(add, parts)
