"""A query of named steps, each an Ibis expression, written in the dialect of a database."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from itertools import count
from typing import Any

from crossgcn.data.engines import import_ibis
from crossgcn.errors import BadInput, unknown_name

DIALECTS = ("duckdb", "spark", "postgres", "snowflake", "bigquery")
_MOST_BYTES = 63
"""The longest name of a column in PostgreSQL, which cuts longer ones."""
_RESERVED = ("id", "node", "neighbour", "source", "target", "weight", "share", "number", "known")
_NOT_IN_BIGQUERY = re.compile(r'[!"$()*,./;?@[\\\]^`{}~\n]')
_WIDTH, _DIGITS = 100, 12


def rounded(number: float) -> float:
    """Return a constant with as many digits as are written."""
    return float(f"{number:.{_DIGITS}g}")


class Query:
    """Steps of a query; each is a table expression with a plain name and becomes ``WITH name AS``.

    Attributes:
        dialect: One of ``DIALECTS``.
        tables: The tables of the database and their columns; no step has the name of one.
    """

    def __init__(self, dialect: str) -> None:
        if dialect not in DIALECTS:
            raise unknown_name("dialect", dialect, DIALECTS)
        import_ibis("ibis.backends.sql.compilers", extra="duckdb")
        self.dialect = dialect
        self.tables: dict[str, list[str]] = {}
        self._steps: dict[str, Any] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._taken = set(_RESERVED)
        if dialect == "spark":
            _set_spark_options()

    def name(self, text: str, what: str = "") -> str:
        """Return the name of a column of the query: ``text``, if the database can and it is free.

        Args:
            what: Tells columns apart that would have the same name.
        """
        key = text, what
        if key not in self._names:
            limited = self.dialect == "bigquery"
            plain = _NOT_IN_BIGQUERY.sub("_", text) if limited else text
            for number in count(1):
                ending = (f"_{number}" if limited else f" ({number})") if number > 1 else ""
                most = _MOST_BYTES - len(ending)
                name = plain.encode()[:most].decode(errors="ignore") + ending
                if name.lower() not in self._taken:
                    break
            self._taken.add(name.lower())
            self._names[key] = name
        return self._names[key]

    def table(self, name: str, columns: Sequence[str]) -> Any:
        """Return a table of the database, whose columns may have any type."""
        import ibis
        import ibis.expr.datatypes as dt

        for column in columns:
            if self.dialect == "bigquery" and _NOT_IN_BIGQUERY.search(column):
                raise BadInput(
                    f"column {column!r} of {name} cannot have this name in BigQuery; rename it, "
                    "and train again"
                )
        self.tables[name.lower()] = list(columns)
        return ibis.table(dict.fromkeys(columns, dt.unknown), name=name)

    def add(self, name: str, step: Any) -> Any:
        """Add a step, and return its result as a table for further steps."""
        import ibis

        while name.lower() in self.tables:
            name += "_"
        self._steps[name] = self._compile(step)
        return ibis.table(step.schema(), name=name)

    def add_values(self, name: str, rows: list[tuple[Any, ...]], columns: dict[str, str]) -> Any:
        """Add a step that lists the rows of a table.

        Args:
            columns: Types of the columns, by name.
        """
        import ibis
        from sqlglot import exp

        names = {column: _identifier(column) for column in columns}
        cells = [
            exp.cast(each, "double").as_(each) if columns[column] == "float64" else each
            for column, each in names.items()
        ]
        values = exp.values(rows, alias="listed", columns=[*names.values()])
        self._steps[name] = exp.select(*cells).from_(values)
        return ibis.table(columns, name=name)

    def add_arrays(self, name: str, arrays: Mapping[str, Sequence[float]]) -> Any:
        """Add a step of one row with arrays of numbers."""
        import ibis
        from sqlglot import exp

        cells = [
            exp.array(*map(exp.convert, numbers)).as_(_identifier(column))
            for column, numbers in arrays.items()
        ]
        self._steps[name] = exp.select(*cells)
        return ibis.table(dict.fromkeys(arrays, "array<decimal>"), name=name)

    def write(self, last: Any, header: str) -> str:
        """Return the query whose result is ``last``, with a comment above."""
        # PostgreSQL would insert steps into later ones, and compute their columns again and again.
        start = "AS MATERIALIZED (" if self.dialect == "postgres" else "AS ("
        steps = [
            f"{self._sql(_identifier(name))} {start}\n{self._lines(step, '  ')}\n)"
            for name, step in self._steps.items()
        ]
        comment = "\n".join(f"-- {line}" for line in header.splitlines())
        return f"{comment}\nWITH {', '.join(steps)}\n{self._lines(self._compile(last))}\n"

    def _compile(self, step: Any) -> Any:
        from sqlglot.optimizer.merge_subqueries import merge_subqueries

        package = "pyspark" if self.dialect == "spark" else self.dialect
        compiler = import_module(f"ibis.backends.sql.compilers.{package}").compiler
        query = compiler.to_sqlglot(step)
        for part in query.walk():
            for name, values in part.args.items():
                if isinstance(values, tuple):  # which sqlglot does not look into
                    part.set(name, list(values))
        return _tidy(merge_subqueries(query.copy()))

    def _sql(self, part: Any) -> str:
        return str(part.sql(dialect=self.dialect))

    def _lines(self, query: Any, indent: str = "") -> str:
        """Return a query with each column of the result on lines of its own."""
        from sqlglot import exp

        if not isinstance(query, exp.Select):
            return self._wrap(query, indent)
        columns = ",\n".join(self._wrap(each, f"{indent}  ") for each in query.expressions)
        rest = query.copy()
        rest.set("expressions", [exp.Star()])
        rest.set("distinct", None)
        _, _, tables = self._sql(rest).partition("*")
        start = "SELECT DISTINCT" if query.args.get("distinct") else "SELECT"
        return f"{indent}{start}\n{columns}\n{self._wrap(tables, indent)}"

    def _wrap(self, part: Any, indent: str) -> str:
        """Break the text of a part into lines, at spaces outside of quotes."""
        text = part if isinstance(part, str) else self._sql(part)
        escaped = r"\\.|" if self.dialect in ("spark", "snowflake", "bigquery") else ""
        quoted = rf"""'(?:{escaped}''|[^'])*'|"(?:""|[^"])*"|`[^`]*`"""
        lines = [""]
        for word in re.findall(rf"""(?:{quoted}|[^\s'"`])+""", text):
            if lines[-1] and len(indent) + len(lines[-1]) + len(word) >= _WIDTH:
                lines.append(" ")
            lines[-1] += f" {word}" if lines[-1] else word
        return "\n".join(indent + line for line in lines)


def _identifier(name: str) -> Any:
    from sqlglot import exp

    return exp.to_identifier(name, quoted=True)


def _tidy(query: Any) -> Any:
    """Name tables by themselves instead of ``t0``, and leave the name out where there is one."""
    from sqlglot import exp

    for trim in query.find_all(exp.Trim):
        trim.set("expression", None)  # spaces only
    for paren in list(query.find_all(exp.Paren)):
        outer, inner = paren.parent, paren.this
        is_first = isinstance(outer, exp.Add) or (
            isinstance(outer, exp.Sub | exp.Mul) and outer.this is paren
        )
        if is_first and isinstance(inner, exp.Mul | exp.Column):
            paren.replace(inner)
    for subquery in list(query.find_all(exp.Subquery)):
        outer = subquery.find_ancestor(exp.Select)
        if isinstance(query, exp.Union) and outer.is_star:
            outer.replace(subquery.this)
    for select in query.find_all(exp.Select):
        tables = list(_sources(select))
        names = [each.name for each in tables]
        if not all(isinstance(each, exp.Table) for each in tables) or len({*names}) < len(names):
            continue
        new = {each.alias_or_name: each.this for each in tables}
        for column in select.find_all(exp.Column):
            if column.table in new:
                column.set("table", None if len(new) == 1 else new[column.table].copy())
        for each in tables:
            each.set("alias", None)
    return query


def _sources(select: Any) -> Iterator[Any]:
    if select.args.get("from_") or select.args.get("from"):
        yield (select.args.get("from_") or select.args.get("from")).this
    yield from (join.this for join in select.args.get("joins") or ())


def _set_spark_options() -> None:
    """Let Ibis write Spark's dialect without PySpark, which would set these options."""
    import ibis
    from ibis.config import Config

    class _SparkOptions(Config):  # type: ignore[misc]
        treat_nan_as_null: bool = False

    if ibis.options.pyspark is None:
        ibis.options.pyspark = _SparkOptions()
