"""The columns of a node as SQL: what encoders compute in memory, as Ibis expressions.

A cell is read as text, whatever its type, and its text is understood as in training.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from crossgcn.data.tables.cells import PLAIN, plain_id
from crossgcn.data.tables.encode import AnyEncoder, TableEncoder
from crossgcn.data.tables.kinds.date import DateEncoder
from crossgcn.data.tables.kinds.numeric import MAX_DEVIATIONS, NumberEncoder
from crossgcn.data.tables.kinds.words import SET, FlagEncoder, WordEncoder
from crossgcn.errors import BadInput

if TYPE_CHECKING:
    from crossgcn.export.query import Query

_NUMBER = "^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,2})?$"
_WHOLE = "^([+-]?[0-9]+)[.]0+$"
_DIGITS = {"%Y": "([0-9]{4})", "%m": "([0-9]{1,2})", "%d": "([0-9]{1,2})"}
_WEEKDAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
_DECIMALS = 8
"""Of ranks, which are between -0.5 and 0.5."""
_ARRAYS = ("numbers", "ranks")
_MOST, _MOST_DIGITS = 1e308, 1e15
_DAYS_BEFORE_1970 = 719_468
"""Days from 0000-03-01 to 1970-01-01."""


def add_columns(
    query: Query,
    name: str,
    rows: Any,
    keys: Mapping[str, Any],
    encoder: TableEncoder,
    wanted: Mapping[int, str],
) -> Any:
    """Add the steps that encode a table, and return a table of the keys and the wanted features.

    Args:
        name: Name of the last step.
        keys: Further columns.
        wanted: What features are called, by their positions.
    """
    prefix, first, read = "" if name == "own" else f"{name}_", 0, []
    for each in encoder.columns:
        places = range(first, first := first + len(each.feature_names))
        if not wanted.keys().isdisjoint(places):
            read.append((each, places))
    cells = {query.name(each.column): _cell(rows, each, encoder.missing) for each, _ in read}
    if not read:
        return query.add(name, rows.select(**keys))
    table = query.add(f"{prefix}cells", rows.select(**keys, **cells))
    dates = [each for each, _ in read if isinstance(each, DateEncoder)]
    if dates:
        table = _add_dates(query, prefix, table, dates)
    numbers = [each.parts[3] if isinstance(each, DateEncoder) else each for each, _ in read]
    encoders = [each for each in numbers if isinstance(each, NumberEncoder)]
    table = _add_ranks(query, prefix, table, encoders)
    features: dict[str, Any] = {}
    for each, places in read:
        values = zip(places, _encode(query, table, each), strict=True)
        features |= {wanted[place]: value for place, value in values if place in wanted}
    return query.add(name, table.select(*keys, **features))


def exclusive_columns(encoder: TableEncoder) -> list[str]:
    """Return the columns of which at most one flag is 1."""
    kinds = ("flag", "categorical", "numeric")
    return [each.column for each in encoder.columns if each.kind in kinds]


def _cell(rows: Any, encoder: AnyEncoder, missing: Sequence[str]) -> Any:
    """Return the number or the text of a cell, null if it is missing."""
    import ibis

    text = rows[encoder.column].cast("string").strip()
    if not isinstance(encoder, NumberEncoder):
        return ibis.cases((text.lower().isin(["", *missing]), ibis.null("string")), else_=text)
    if encoder.style != PLAIN:
        raise BadInput(
            f"column {encoder.column} has numbers{encoder.style}, which SQL does not read; write "
            "plain numbers such as 1234.5, and train again"
        )
    number = ibis.cases((text.re_search(_NUMBER), text.try_cast("float64")))
    words = [word for word in missing if re.fullmatch(_NUMBER, word)]
    return ibis.cases((text.isin(words), ibis.null("float64")), else_=number) if words else number


def _encode(query: Query, table: Any, encoder: AnyEncoder) -> list[Any]:
    """Return the features of a column, in the order of its encoder."""
    cell = table[query.name(encoder.column)]
    if isinstance(encoder, NumberEncoder):
        return _encode_number(query, table, encoder)
    if isinstance(encoder, WordEncoder):
        return _encode_words(cell, encoder)
    if isinstance(encoder, FlagEncoder):
        features = [_flag(cell.lower().isin(sorted(SET))), _flag(cell.isnull())]
        return features[: 1 + encoder.has_missing]
    *parts, days = encoder.parts
    words = [_encode_words(table[query.name(each.column, "dates")], each) for each in parts]
    return [*(value for each in words for value in each), *_encode_number(query, table, days)]


def _flag(condition: Any) -> Any:
    return condition.ifelse(1, 0).cast("float64")


def _encode_number(query: Query, table: Any, encoder: NumberEncoder) -> list[Any]:
    import ibis

    cell, bounds = table[query.name(encoder.column)], encoder.bounds
    ranges = [(cell >= low) & (cell < high) for low, high in pairwise(bounds)]
    ranges = [cell < bounds[0], *ranges, cell >= bounds[-1]] if bounds else [cell.notnull()]
    missing = [cell.isnull()] * encoder.has_missing
    standard = (cell - encoder.mean) / encoder.deviation
    standard = ibis.greatest(ibis.least(standard, MAX_DEVIATIONS), -MAX_DEVIATIONS)
    rank = table[query.name(f"{encoder.column} rank", "ranks")]
    return [*map(_flag, [*ranges, *missing]), rank, cell.isnull().ifelse(0.0, standard)]


def _add_ranks(query: Query, prefix: str, table: Any, encoders: Sequence[NumberEncoder]) -> Any:
    """Add the rank of each number, interpolated between the saved ranks of training.

    These are two arrays per column. First each number is placed among the known ones.
    """
    if not encoders:
        return table
    arrays: dict[str, list[float]] = {}
    for each in encoders:
        numbers = [int(x) if x.is_integer() and abs(x) < _MOST_DIGITS else x for x in each.known]
        ranks = [each.ranks[0], *each.ranks, each.ranks[-1]]
        values = [-_MOST, *numbers, _MOST], [round(rank, _DECIMALS) for rank in ranks]
        names = (query.name(f"{what} of {each.column}", "ranks") for what in _ARRAYS)
        arrays |= dict(zip(names, values, strict=True))
    known, places = query.add_arrays(f"{prefix}known_ranks", arrays), {}
    for each in encoders:
        numbers = known[query.name(f"numbers of {each.column}", "ranks")]
        cell = table[query.name(each.column)].fill_null(0.0)
        places[query.name(f"place of {each.column}", "ranks")] = _count_up_to(numbers, cell)
    joined = table.cross_join(known).select(*[table[name] for name in table.columns], **places)
    placed = query.add(f"{prefix}places", joined)
    found = {}
    for each in encoders:
        arrays_of = (query.name(f"{what} of {each.column}", "ranks") for what in _ARRAYS)
        at = placed[query.name(f"place of {each.column}", "ranks")]
        (low, high), (rank, above) = (
            (known[name][at - 1].cast("float64"), known[name][at].cast("float64"))
            for name in arrays_of
        )
        cell = placed[query.name(each.column)]
        rank = rank + (above - rank) * (cell - low) / (high - low)
        found[query.name(f"{each.column} rank", "ranks")] = cell.isnull().ifelse(0.0, rank)
    kept = [placed[name] for name in table.columns]
    return query.add(f"{prefix}ranks", placed.cross_join(known).select(*kept, **found))


def _count_up_to(array: Any, number: Any) -> Any:
    return array.filter(lambda each: each <= number).length()


def _encode_words(cell: Any, encoder: WordEncoder) -> list[Any]:
    words = list(encoder.words)
    if encoder.kind == "list":
        found, has_others = _find_words(cell, encoder)
        return [*map(_flag, found), _flag(has_others)]
    if any(re.fullmatch("[+-]?[0-9]+", plain_id(word)) for word in words):
        words = list(map(plain_id, words))
        cell = cell.re_replace(_WHOLE, r"\1")
        if len(set(words)) < len(words):
            raise BadInput(
                f"column {encoder.column} has the same whole number written in two ways, such as 7 "
                "and 7.0; write them alike, and train again"
            )
    is_other = cell.notnull() & ~cell.isin(words) if words else cell.notnull()
    others = [is_other, cell.isnull()] if encoder.has_missing else [is_other | cell.isnull()]
    return [*(_flag(cell == word) for word in words), *map(_flag, others)]


def _find_words(cell: Any, encoder: WordEncoder) -> tuple[list[Any], Any]:
    """Return whether a list has each word, and whether it has others."""
    mark = encoder.separator
    if mark == "json":
        raise BadInput(
            f"column {encoder.column} has lists written as JSON, which SQL does not read; write "
            "them as text with ; between the words, and train again"
        )
    spaced = f"{mark}" + cell.re_replace(f"[ ]*[{mark}][ ]*", f"{mark}{mark}") + f"{mark}"
    found = [spaced.contains(f"{mark}{word}{mark}") for word in encoder.words]
    known = "|".join(re.sub(r"([][.^$*+?(){}|\\])", r"\\\1", word) for word in encoder.words)
    return found, spaced.re_replace(f"[{mark}]({known}|)[{mark}]", "") != ""


def _add_dates(query: Query, prefix: str, table: Any, dates: Sequence[DateEncoder]) -> Any:
    """Add year, month, weekday and days since the earliest of each date; null for no date.

    Days are counted by arithmetic, since databases differ in functions of dates, and in what they
    do with the 31st of February.
    """
    import ibis

    digits = {}
    for each in dates:
        if not {*re.findall("%.", each.written)} <= _DIGITS.keys():
            raise BadInput(
                f"column {each.column} has dates written {each.written}, which SQL does not read; "
                "write them as 2024-05-17, and train again"
            )
        cell = table[query.name(each.column)]
        # Columns of the type date are cast to text in the ISO format.
        formats = {written: _date_pattern(written) for written in (each.written, "%Y-%m-%d")}
        for code in _DIGITS:
            branches = []
            for written, pattern in formats.items():
                number, order = ibis.literal(1, "int64"), re.findall("%.", written)
                if code in order:
                    place = order.index(code) + 1
                    number = cell.re_extract(pattern, place).nullif("").cast("int64")
                branches.append((cell.re_search(pattern), number))
            digits[query.name(f"{each.column} {code}", "digits")] = ibis.cases(*branches)
    table = query.add(f"{prefix}digits", table.mutate(**digits))
    days = {}
    for each in dates:
        year, month, day = _digits(query, table, each)
        is_leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
        february, short = month == 2, month.isin([4, 6, 9, 11])
        length = ibis.cases((short, 30), (february & is_leap, 29), (february, 28), else_=31)
        # Years begin in March, so that leap days come last.
        is_early = month <= 2
        since, place = year - is_early.ifelse(1, 0), month + is_early.ifelse(9, -3)
        number = 365 * since + since // 4 - since // 100 + since // 400 + (153 * place + 2) // 5
        number = number + day - 1 - _DAYS_BEFORE_1970
        is_date = month.between(1, 12) & day.between(1, length)
        days[query.name(f"{each.column} days", "days")] = is_date.ifelse(number, ibis.null("int64"))
    table = query.add(f"{prefix}days", table.mutate(**days))
    parts = {}
    for each in dates:
        number = table[query.name(f"{each.column} days", "days")]
        year, month, _ = (part.cast("string") for part in _digits(query, table, each))
        is_weekday = [((number + 4 + 7 * _DAYS_BEFORE_1970) % 7 == at) for at in range(7)]
        texts = [year, month, ibis.cases(*zip(is_weekday, _WEEKDAYS, strict=True))]
        for part, text in zip(each.parts, texts, strict=False):
            written = number.isnull().ifelse(ibis.null("string"), text)
            parts[query.name(part.column, "dates")] = written
        first = date.fromisoformat(each.earliest).toordinal() - date(1970, 1, 1).toordinal()
        parts[query.name(each.parts[3].column)] = (number - first).cast("float64")
    return query.add(f"{prefix}dates", table.mutate(**parts))


def _date_pattern(written: str) -> str:
    """Return a regular expression with a group for each number of a date."""
    pattern = re.sub("[./-]", lambda mark: f"[{mark[0]}]", written)
    for code, digits in _DIGITS.items():
        pattern = pattern.replace(code, digits)
    return f"^{pattern}([T ][0-9]{{1,2}}:[0-9]{{2}}.*)?$"


def _digits(query: Query, table: Any, encoder: DateEncoder) -> list[Any]:
    return [table[query.name(f"{encoder.column} {code}", "digits")] for code in _DIGITS]
