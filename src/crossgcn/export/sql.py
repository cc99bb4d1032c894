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
from crossgcn.export.encode import add_columns, exclusive_flags
from crossgcn.export.neighbours import Labels, Side, add_sides, add_things
from crossgcn.export.query import Query, rounded
from crossgcn.export.scores import Form, read_model, read_scores
from crossgcn.graph.neighbourhood import NeighbourLabels
from crossgcn.graph.standardise import Scale

MOST_LABELS = 20_000
"""How many training labels a query lists at most; Snowflake and BigQuery take queries of 1 MB."""

_AT_ONCE = 200
"""How many terms of a sum are nested."""


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
        self.scores = read_scores(run, exclusive_flags(self.encoder))
        self.features = [self.query.name(each) for each in self.encoder.space.names]
        self.prior = [rounded(each) for each in self.model.prior.tolist()]
        self.titles = {
            int(place): title
            for column in self.scores.columns
            for place, title in zip(column.places, column.features, strict=True)
        }
        self.labels: pd.DataFrame | None = None

    def write(self) -> Exported:
        """Add all steps and write the query."""
        plan, query = self.plan, self.query
        wanted = {each: self.features[each] for each in self._features_read(0)}
        columns = _columns_of(self.encoder, wanted)
        nodes = query.table("nodes", list(dict.fromkeys([plan.id_column, *columns])))
        edges = [self._open_edges(number) for number in range(len(plan.relations))]
        labels = self._label_rows()
        node = nodes[plan.id_column]
        keys = {"id": node, "node": node.cast("string")}
        own = add_columns(query, "own", nodes, keys, self.encoder, wanted)
        tables = list[Any]()
        values = {place: own[self.features[place]] for place in self._own()}
        known = None if labels is None else self._add_labels(*labels)
        sides = dict[int, Side]()
        for number, table in enumerate(edges):
            if table is not None:
                of_relation = [at for at, (each, _) in enumerate(self.hops.sides) if each == number]
                added = self._add_edges(number, table, own)
                sides |= dict(zip(of_relation, added, strict=True))
        for place, side in sides.items():
            found = self._add_side(own, place, side, known)
            tables += found[0]
            values |= found[1]
        last = self._add_scores(own, tables, values)
        sql = query.write(last, self._header())
        return Exported(
            sql, query.tables, list(last.columns), self.labels if self.labels_apart else None
        )

    def _own(self) -> list[int]:
        return [place for place in self.titles if place < self.hops.num_features]

    def _features_read(self, hop: int, side: int | None = None) -> list[int]:
        """Return the own columns that are read, or averaged, at a hop or a later one."""
        width, sides = self.hops.num_features, len(self.hops.sides)
        found = set(self._own()) if hop == 0 else set[int]()
        for block in range(max(hop - 1, 0) * sides, self.hops.num_blocks):
            if side is None or block % sides == side:
                first = (1 + block) * width
                found |= {place - first for place in self.titles} & {*range(width)}
        return sorted(found)

    def _open_edges(self, number: int) -> Any:
        """Return the table of edges of a relation, if any of its columns is read."""
        plan, sides = self.plan.relations[number], self.hops.sides
        side_of = self.hops.side_of
        if number not in {sides[side_of[place]][0] for place in self.titles if side_of[place] >= 0}:
            return None
        read = self._edge_columns(number)
        encoder = self.edge_encoders.get(plan.name)
        columns = [] if encoder is None else _columns_of(encoder, read)
        weight = filter(None, [plan.edge_weight])
        listed = dict.fromkeys([plan.source_column, plan.destination_column, *weight, *columns])
        is_only = len(self.plan.relations) == 1 and plan.name in (NEIGHBOURS, self.plan.relation)
        return self.query.table("edges" if is_only else plan.name, list(listed))

    def _first_edge_column(self, side: int) -> int:
        """Return the position of the first column of edges of a side."""
        counts = self.hops.edge_columns or (0,) * len(self.plan.relations)
        before = sum(counts[number] for number, _ in self.hops.sides[:side])
        return self.hops.num_means + len(self.hops.sides) + before

    def _edge_columns(self, number: int) -> dict[int, str]:
        """Return the columns of edges of a relation that are read, by their positions."""
        counts = self.hops.edge_columns or (0,) * len(self.plan.relations)
        found = {}
        for side, (relation, _) in enumerate(self.hops.sides):
            first = self._first_edge_column(side)
            for place in range(counts[number]):
                if relation == number and first + place in self.titles:
                    name = f"{self.plan.relations[number].title} {place}"
                    found[place] = self.query.name(name, "edges")
        return found

    def _add_edges(self, number: int, table: Any, own: Any) -> list[Side]:
        """Add the links of a relation."""
        plan = self.plan.relations[number]
        prefix = re.sub(r"\W", "_", plan.title) + "_" if len(self.plan.relations) > 1 else ""
        first, second = (
            table[each].cast("string") for each in (plan.source_column, plan.destination_column)
        )
        keys = {"source": first, "target": second}
        if plan.edge_weight is not None:
            keys["weight"] = table[plan.edge_weight].cast("float64")
        columns = self._edge_columns(number)
        encoder = self.edge_encoders.get(plan.name) or self.encoder.model_copy(
            update={"columns": ()}
        )
        ends = add_columns(self.query, f"{prefix}ends", table, keys, encoder, columns)
        if plan.through:
            return [add_things(self.query, prefix, own, ends)]
        directed = (number, "in-") in self.hops.sides
        return add_sides(self.query, prefix, own, ends, list(columns.values()), directed)

    def _add_side(
        self, own: Any, side: int, links: Side, labels: Labels | None
    ) -> tuple[list[Any], dict[int, Any]]:
        """Add the columns of one kind of neighbours; return tables to join, and their values."""
        hops, num_sides, width = self.hops, len(self.hops.sides), self.hops.num_features
        is_counted = hops.num_means + side in self.titles
        tables: list[Any] = []
        values: dict[int, Any] = {}
        before = own
        for hop in range(1, hops.hops + 1):
            features = self._features_read(hop, side)
            if not features and (hop > 1 or not is_counted):
                break
            block = (hop - 1) * num_sides + side
            prior = {self.features[each]: self.prior[each] for each in features}
            name, gaps = (
                "neighbours" if hop == 1 else f"hops_{hop}",
                hop > 1 and not links.is_symmetric,
            )
            strength = float(self.model.strength[block])
            before = links.add_means(name, before, prior, strength, gaps=gaps)
            tables.append(before)
            for feature in features:
                value = before[self.features[feature]].fill_null(self.prior[feature])
                values[(1 + block) * width + feature] = value
        if tables:
            number = tables[0].number.fill_null(0).cast("float64")
            values[hops.num_means + side] = (number + 1.0).ln()
        columns, first = self._edge_columns(hops.sides[side][0]), self._first_edge_column(side)
        if columns:
            tables.append(links.add_edge_means(list(columns.values())))
            values |= {first + at: tables[-1][name].fill_null(0.0) for at, name in columns.items()}
        if labels is not None:
            size = hops.num_labels + 1
            first = hops.first_label + side * size
            starts = [first + hop * num_sides * size for hop in range(hops.label_hops)]
            read = [
                at
                for at, first in enumerate(starts)
                if {*range(first, first + size)} & {*self.titles}
            ]
            found = links.add_labels(labels, max(read) + 1) if read else []
            for hop in read:
                tables.append(found[hop])
                known = found[hop].known.fill_null(0.0)
                for place, (label, mean) in enumerate(labels.prior.items(), starts[hop]):
                    total = found[hop][label].fill_null(0.0) + (hop + 1) * mean
                    values[place] = total / (known + (hop + 1))
                values[starts[hop] + size - 1] = (known + 1.0).ln()
        return tables, values

    def _label_rows(self) -> tuple[Any, Any] | None:
        """Open the table of training labels, if a column that is read shows them."""
        shown = self.run.labels(self.model)
        if shown is None or max(self.titles) < self.hops.first_label:
            return None
        if shown.times is not None:
            raise BadInput(
                f"{self.run.folder}: neighbours show the labels of earlier nodes only, which is "
                "not written in SQL; train with --set label_features=false"
            )
        nodes = shown.known.nonzero().flatten()
        targets, classes = self.run.data.y[nodes].tolist(), self.run.saved.preprocess.classes
        is_number = len(classes) == 1
        written = targets if is_number else [classes[each] for each in targets]
        ids = [self.run.ids[each] for each in nodes.tolist()]
        self.labels = pd.DataFrame({"id": ids, "label": written})
        if self.labels_apart:
            table = self.query.table("training_labels", ["id", "label"])
            return table.mutate(
                id=table.id.cast("string"),
                label=table.label.cast("float64" if is_number else "string"),
            ), shown
        if len(nodes) > MOST_LABELS:
            raise BadInput(
                f"{self.run.folder}: {len(nodes):,} training labels are too many for a query; give "
                "--labels FILE.parquet, which writes them as a table"
            )
        types = {"id": "string", "label": "float64" if is_number else "string"}
        rows = list(self.labels.itertuples(index=False, name=None))
        return self.query.add_values("training_labels", rows, types), shown

    def _add_labels(self, table: Any, shown: NeighbourLabels) -> Labels:
        """Add what neighbours show of training labels."""
        classes = self.run.saved.preprocess.classes
        if len(classes) == 1:
            targets = self.run.data.y[shown.known]
            mean, deviation = (
                float(targets.mean()),
                float(targets.std(correction=0).clamp(min=1e-12)),
            )
            values = {"label": (table.label - mean) / deviation}
        else:
            listed = classes[1:] if len(classes) == 2 else classes
            values = {
                f"label {number}": (table.label == name).ifelse(1, 0).cast("float64")
                for number, name in enumerate(listed, 1)
            }
        known = self.query.add("known_labels", table.select(node=table.id, **values, known=1.0))
        prior = shown.values[shown.known].double().mean(0).tolist()
        return Labels(known, dict(zip(values, prior, strict=True)))

    def _add_scores(self, own: Any, tables: Sequence[Any], values: Mapping[int, Any]) -> Any:
        """Add the standardised columns and the terms, and return the last step."""
        joined = own
        for number, table in enumerate(tables):
            joined = joined.left_join(table, own.node == table.node, rname=f"{{name}} {number}")
        inputs = {
            self.query.name(title): self._standardise(values[place], place)
            for place, title in self.titles.items()
        }
        columns = self.query.add("columns", joined.select(own.id, **inputs))
        x = {place: columns[self.query.name(title)] for place, title in self.titles.items()}
        terms, names = dict[str, Any](), list[list[str]]()
        for output, name in enumerate(self.scores.outputs):
            prefix = f"{name}: " if len(self.scores.outputs) > 1 else ""
            forms = [
                (column.name, each[output], column.places)
                for column, each in zip(self.scores.columns, self.scores.singles, strict=True)
            ]
            crosses = self.scores.crosses[output]
            if crosses.linear.any() or crosses.square.any():
                forms.append(("crosses", crosses, np.arange(len(crosses.linear))))
            here = {
                self.query.name(prefix + title): _write_form(form, [x.get(p) for p in places])
                for title, form, places in forms
            }
            terms |= here
            names.append(list(here))
        table = self.query.add("terms", columns.select("id", **terms))
        totals = [
            _sum([rounded(average), *(table[name] for name in here)])
            for average, here in zip(self.scores.average.tolist(), names, strict=True)
        ]
        if len(totals) > 1:
            named = {
                f"score: {name}": each
                for name, each in zip(self.scores.outputs, totals, strict=True)
            }
            return table.select(
                "id",
                **{self.query.name(each): total for each, total in named.items()},
                **{name: table[name] for here in names for name in here},
            )
        (score,) = totals
        scored = self.query.add(
            "scored", table.select("id", score=score, **{name: table[name] for name in names[0]})
        )
        if len(self.run.saved.preprocess.classes) == 2:
            probability = {"probability": 1.0 / (1.0 + (-scored.score).exp())}
            return scored.select(
                "id", "score", **probability, **{name: scored[name] for name in names[0]}
            )
        return scored

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


def _write_form(form: Form, x: Sequence[Any]) -> Any:
    """Write a polynomial as a sum with one part per input."""
    parts: list[Any] = [rounded(form.constant)]
    for place, value in enumerate(x):
        others = np.flatnonzero(form.square[place])
        inner = [x[other] * rounded(form.square[place, other]) for other in others.tolist()]
        if form.linear[place]:
            inner.insert(0, rounded(form.linear[place]))
        if inner:
            parts.append(value * _sum(inner))
    return _sum(parts)


def _sum(parts: Sequence[Any]) -> Any:
    """Return a sum; a long one as a sum of sums, as databases nest no thousand terms."""
    if len(parts) > _AT_ONCE:
        groups = [parts[at : at + _AT_ONCE] for at in range(0, len(parts), _AT_ONCE)]
        return _sum([_sum(group) for group in groups])
    return reduce(add, parts)
