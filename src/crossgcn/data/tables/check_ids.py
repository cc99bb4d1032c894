"""Whether every node can be told from every other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from crossgcn.data.tables.check_places import Place, Rule, find_alike
from crossgcn.data.tables.findings import Finding, quote
from crossgcn.data.tables.table import Table

__all__ = ["check_ids"]


def check_ids(nodes: Table, id_column: str) -> Iterator[Finding]:
    """Ids that are missing, given twice, or hard to tell apart.

    ``NA`` is an id: a country, for example.

    Args:
        nodes: The node table.
        id_column: Where its ids are.
    """
    ids, place = nodes.distinct(id_column), Place(nodes, id_column)
    blank = ids.blank
    yield from place.at_values(
        blank,
        Rule("missing-id", "error", "the node has no id", "give it one, or delete the row"),
    )
    repeated = np.flatnonzero(pd.Series(ids.codes).duplicated() & ~blank[ids.codes])
    if len(repeated) > 0:
        second = int(repeated[0])
        first = nodes.row_number(int(np.argmax(ids.codes == ids.codes[second])))
        rule = Rule(
            "duplicate-id",
            "error",
            f"{{value}} is the id of row {first} already",
            "keep one row per node, or choose another column by --id-column",
        )
        yield place.at_row(second, rule, count=len(repeated))
    alike = find_alike(ids.values)
    if alike:
        second, earlier = next(iter(alike.items()))
        rule = Rule(
            "similar-ids",
            "warning",
            f"{{value}} differs from {quote(ids.values[earlier])} only in case or spaces, "
            "and is another node",
            "write the id the same way everywhere if one node is meant",
        )
        yield place.at_row(int(np.argmax(ids.codes == second)), rule, count=len(alike))
