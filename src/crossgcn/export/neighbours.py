"""The columns of a neighbourhood as SQL: means over neighbours, their number and their labels.

They are what :class:`~crossgcn.graph.hops.HopColumns` computes in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crossgcn.data.engines import unique_edges
from crossgcn.export.query import rounded

if TYPE_CHECKING:
    from crossgcn.export.query import Query


@dataclass(frozen=True)
class Labels:
    """What neighbours show of the labels of training nodes.

    Attributes:
        table: A row per training node: ``node``, and each value in a column of its name.
        prior: Mean of each value, by its name.
    """

    table: Any
    prior: Mapping[str, float]


@dataclass(frozen=True)
class Side:
    """The neighbours of nodes in a relation, in one direction.

    Attributes:
        query: The query that gets the steps.
        prefix: What the names of steps start with.
        links: A row per ``node`` and ``neighbour``. Weighted ones have a ``share``, the weight
            divided by the mean weight of the node's links. Of nodes that share things, a row per
            ``node`` and ``thing``, with the number of ``others`` that have the thing.
        is_symmetric: Whether every link is one in both directions.
    """

    query: Query
    prefix: str
    links: Any
    is_symmetric: bool

    @property
    def _is_through(self) -> bool:
        return "thing" in self.links.columns

    def gather(
        self, name: str, values: Any, missing: Mapping[str, float | None]
    ) -> tuple[Any, Any, dict[str, Any]]:
        """Join nodes with the values of their neighbours.

        Args:
            name: What a step between is called.
            values: A table with a row per ``node``.
            missing: What counts for neighbours that have no row, by the name of each column;
                ``None`` if all have one, or those without do not count.

        Returns:
            The rows of each node, the number of neighbours, and the sum of each column, in which
            links of mean weight count one: both are aggregates over these rows.
        """
        links = self.links
        if self._is_through:
            return self._gather_things(name, values, missing)
        join = links.left_join if any(m is not None for m in missing.values()) else links.join
        near = join(values, links.neighbour == values.node)
        sums = {column: self._value(values, column, missing) for column in missing}
        if "share" in links.columns:
            sums = {column: value * links.share for column, value in sums.items()}
        return near.group_by(links.node), near.count(), {c: v.sum() for c, v in sums.items()}

    def _gather_things(
        self, name: str, values: Any, missing: Mapping[str, float | None]
    ) -> tuple[Any, Any, dict[str, Any]]:
        """Do so by the sums over the nodes of each thing, without listing the pairs of nodes."""
        links = self.links
        members = links.left_join(values, links.node == values.node)
        sums = {column: self._value(values, column, missing, 0.0).sum() for column in missing}
        of_things = self.query.add(name, members.group_by(links.thing).aggregate(**sums))
        near = links.join(of_things, links.thing == of_things.thing, rname="{name}_of_thing")
        near = near.left_join(values, links.node == values.node, rname="{name}_own")
        number, found = links.others.sum(), {}
        for column in missing:
            own = self._value(values, column, missing, 0.0)
            total = ((of_things[column] - own) / links.others).sum()
            found[column] = total * number / near.count()
        return near.group_by(links.node), number, found

    @staticmethod
    def _value(
        values: Any, column: str, missing: Mapping[str, float | None], default: float | None = None
    ) -> Any:
        filled = default if missing[column] is None else missing[column]
        return values[column] if filled is None else values[column].fill_null(filled)

    def add_means(
        self, name: str, values: Any, prior: Mapping[str, float], strength: float, *, gaps: bool
    ) -> Any:
        """Add the smoothed means of values over neighbours, and the ``number`` of neighbours.

        Args:
            prior: What the means of few neighbours are drawn to, by the name of each column.
            gaps: Whether some neighbours have no row in ``values``: these count as the prior.
        """
        missing = {column: mean if gaps else None for column, mean in prior.items()}
        near, number, sums = self.gather(f"{self.prefix}things_{name}", values, missing)
        means = {}
        for column, total in sums.items():
            drawn = rounded(strength * prior[column])
            total = total + drawn if drawn else total
            means[column] = total / (number + rounded(strength) if strength else number)
        return self.query.add(f"{self.prefix}{name}", near.aggregate(number=number, **means))

    def add_edge_means(self, columns: Sequence[str]) -> Any:
        """Add the means of columns of links."""
        links = self.links
        weigh = "share" in links.columns
        means = {each: (links[each] * links.share if weigh else links[each]) for each in columns}
        step = links.group_by("node").aggregate(**{c: v.mean() for c, v in means.items()})
        return self.query.add(f"{self.prefix}edge_columns", step)

    def add_labels(self, labels: Labels, hops: int) -> list[Any]:
        """Add the sums of labels over the walks of one and of two steps, and return both tables.

        They have a row per ``node``: the sum of each value, and in ``known`` how many labels were
        found. Walks that return to their start are left out.
        """
        names, known = list(labels.prior), labels.table
        missing = dict.fromkeys([*names, "known"])
        near, _, sums = self.gather(f"{self.prefix}labels_of_things", known, missing)
        first = self.query.add(f"{self.prefix}labels", near.aggregate(**sums))
        if hops < 2:
            return [first]
        near, _, sums = self.gather(f"{self.prefix}walks_of_things", first, missing)
        walks = self.query.add(f"{self.prefix}walks", near.aggregate(**sums))
        back = self.query.add(f"{self.prefix}returns", self._returns())
        joined = walks.left_join(back, walks.node == back.node)
        joined = joined.left_join(known, walks.node == known.node, rname="{name}_known")
        returns = back.number.fill_null(0).cast("float64")
        left = {each: walks[each] - returns * known[each].fill_null(0.0) for each in missing}
        step = joined.select(walks.node, **left)
        return [first, self.query.add(f"{self.prefix}labels_2", step)]

    def _returns(self) -> Any:
        """Return how many walks of two steps return to their node."""
        links = self.links
        if self.is_symmetric and {"share", "thing"}.isdisjoint(links.columns):
            return links.group_by("node").aggregate(number=links.count())
        if not self._is_through:
            back = links.view()
            both = links.join(back, [links.node == back.neighbour, links.neighbour == back.node])
            is_weighted = "share" in links.columns
            number = (links.share * back.share).sum() if is_weighted else both.count()
            return both.group_by(links.node).aggregate(number=number)
        other = links.view()
        pairs = links.join(other, [links.thing == other.thing, links.node != other.node])
        pairs = pairs.group_by([links.node, other.node.name("neighbour")])
        pairs = pairs.aggregate(weight=(1.0 / links.others).sum())
        pairs = self.query.add(f"{self.prefix}pairs_of_nodes", pairs)
        mean = links.others.sum() / links.count()
        means = links.group_by("node").aggregate(mean=mean)
        means = self.query.add(f"{self.prefix}mean_others", means)
        there = means.view()
        walks = pairs.join(means, pairs.node == means.node)
        walks = walks.join(there, pairs.neighbour == there.node, rname="{name}_there")
        total = (pairs.weight * pairs.weight * means.mean * there.mean).sum()
        return walks.group_by(pairs.node).aggregate(number=total)


def add_sides(
    query: Query, prefix: str, own: Any, ends: Any, columns: Sequence[str], directed: bool
) -> list[Side]:
    """Add the unique edges between known nodes, and return their sides.

    Args:
        ends: A table with ``source``, ``target``, ``weight`` if edges have one, and ``columns``
            that describe edges.
    """
    import ibis

    other = own.view()
    known = ends.join(own, ends.source == own.node)
    known = known.join(other, ends.target == other.node, rname="{name}_2")
    known = known.select(*ends.columns).filter(ends.source != ends.target)
    found = query.add(f"{prefix}known_edges", known)
    weight = ("weight",) if "weight" in ends.columns else ()
    means = {each: found[each].mean() for each in (*weight, *columns)}
    unique = query.add(f"{prefix}unique_edges", unique_edges(found, directed, **means))
    if weight:
        unique = unique.filter(unique.weight > 0)
    into = unique.select(*means, node=unique.target, neighbour=unique.source)
    out = unique.select(*means, node=unique.source, neighbour=unique.target)
    both = {"in_": into, "out_": out} if directed else {"": ibis.union(into, out)}
    sides = []
    for side, links in both.items():
        name = f"{prefix}{side}"
        if weight:
            links = query.add(f"{name}weighted_links", links)
            mean = links.weight.mean().over(group_by=links.node)
            links = links.select("node", "neighbour", *columns, share=links.weight / mean)
        sides.append(Side(query, name, query.add(f"{name}links", links), not directed))
    return sides


def add_things(query: Query, prefix: str, own: Any, ends: Any) -> Side:
    """Add the things that known nodes share."""
    pairs = ends.join(own, ends.source == own.node).filter(ends.target != "")
    pairs = pairs.select(node=ends.source, thing=ends.target).distinct()
    pairs = query.add(f"{prefix}pairs", pairs)
    counted = pairs.select("node", "thing", size=pairs.count().over(group_by=pairs.thing))
    counted = query.add(f"{prefix}sizes", counted)
    members = counted.filter(counted.size > 1)
    members = members.select("node", "thing", others=(counted.size - 1).cast("float64"))
    return Side(query, prefix, query.add(f"{prefix}members", members), True)
