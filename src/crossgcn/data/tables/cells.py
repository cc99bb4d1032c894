"""How cells are written: numbers, dates, flags, codes and lists of words."""

from __future__ import annotations

import datetime
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

DateOrder = Literal["day first", "month first"]

MISSING_WORDS = frozenset({"na", "n/a", "nan", "null", "none"})
"""Words for a missing value, in lower case; blank cells are always missing."""

MAX_NUMBER = float(np.finfo(np.float32).max)
"""The largest number to predict."""

MOST_WEIGHT = 1e30
"""The largest weight of an edge: sums of many larger ones exceed 32-bit floats."""

TRUE_WORDS = frozenset({"true", "yes", "y", "t"})
FALSE_WORDS = frozenset({"false", "no", "n", "f"})

SPLIT_WORDS = {"train": 1, "training": 1, "validation": 2, "valid": 2, "val": 2, "test": 3}
"""Lower-case words of a split column, and the role each stands for."""

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = rf"(?:{'|'.join(MONTHS)})[a-z]*\.?"
DATE = re.compile(
    r"(?P<y>\d{4})(?P<s>[-/.])(?P<m>\d{1,2})(?P=s)(?P<d>\d{1,2})(?:[T ]\d{1,2}:\d{2}.*)?"
    r"|(?P<first>\d{1,2})(?P<sep>[-/.])(?P<second>\d{1,2})(?P=sep)(?P<year>\d{4})"
    r"(?: \d{1,2}:\d{2}.*)?"
    rf"|(?P<day>\d{{1,2}})\.?[ -](?P<month>{_MONTH})[ -](?P<of>\d{{4}})"
    rf"|(?P<named>{_MONTH}) (?P<number>\d{{1,2}}),? (?P<then>\d{{4}})"
    r"|(?P<only_year>(?:19|20)\d{2})-(?P<only_month>0[1-9]|1[0-2])",
    re.IGNORECASE,
)
"""Days, and months without a day."""

CODE = re.compile(r"0\d+")
"""Digits with leading zeros, which are not a number."""

WHOLE = re.compile(r"([+-]?[0-9]+)\.0+")
"""A whole number with decimals, as some programs write codes in a column with gaps."""

_NUMBER = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity)", re.IGNORECASE
)
_PLAIN_DIGITS = re.compile(r"[0-9eE.+-]*")
"""NumPy and :func:`parse_number` agree on text made of these characters."""

_MARKS = r"[.,'’\u00a0\u202f ]"
_DIGITS = rf"[0-9]+(?:{_MARKS}[0-9]{{3}})*(?:[.,][0-9]+)?"
_GROUPED = re.compile(rf"[+-]?{_DIGITS}")
_WITH_UNIT = re.compile(
    rf"(?P<before>[$€£¥]?)\s?[+-]?{_DIGITS}\s?(?P<after>[a-zA-Z%°$€£¥µ/²³]{{0,8}})"
)

Decimal = Literal[".", ","]
_SIGNS = re.compile(r"[$€£¥%]")
_MARKED = {
    decimal: re.compile(
        rf"[+-]?(?:[0-9]+|[0-9]{{1,3}}(?:(?P<mark>[{thousands}'’\u00a0\u202f ])[0-9]{{3}})"
        rf"(?:(?P=mark)[0-9]{{3}})*)(?:[{decimal}][0-9]+)?"
    )
    for decimal, thousands in ((".", ","), (",", "."))
}
"""Numbers with separated thousands, by the decimal sign."""

_POINT_AND_THREE = re.compile(r"[+-]?[1-9][0-9]{0,2}\.[0-9]{3}")
_LEAST_POINTED = 20
"""Fewer numbers with three decimals may all have three by chance."""

MAX_VALUE_LENGTH = 60

Separator = Literal["json", ";", "|", ",", " "]


def parse_number(text: str) -> float | None:
    """Return the number in a cell, infinities included, or None.

    Digits are ASCII, the decimal sign is a point, and nothing separates thousands: ``1,5``,
    ``1 000`` and ``1_000`` are not numbers by themselves; see :func:`parse_numbers`. Surrounding
    space is ignored.
    """
    text = text.strip()
    return float(text) if _NUMBER.fullmatch(text) else None


def find_decimal(texts: Sequence[str]) -> Decimal:
    """Return the decimal sign of a column: a comma if more cells are numbers with it."""
    if not any("," in text or text.count(".") > 1 for text in texts):
        return "."
    point, comma = (int((~np.isnan(parse_numbers(texts, mark))).sum()) for mark in (".", ","))
    return "," if comma > point else "."


def parse_numbers(texts: Sequence[str], decimal: Decimal = ".") -> NDArray[np.float64]:
    """Return the number in each cell of a column, NaN where there is none.

    Thousands may be separated, and the column's currency or a percent sign is left out:
    ``$3,110`` and ``3.110,00 €`` are 3110, ``5 %`` is 5. ``(12)`` is -12, as accountants write.
    """
    if decimal == "." and _PLAIN_DIGITS.fullmatch("".join(texts)):
        try:
            return np.array(texts, dtype=object).astype(np.float64)
        except ValueError:
            pass
    signs = Counter(sign for text in texts for sign in _SIGNS.findall(text))
    sign = next((sign for sign, _ in signs.most_common(1)), None)
    parsed = (_parse_marked(text, decimal, sign) for text in texts)
    return np.array([np.nan if number is None else number for number in parsed], np.float64)


def _parse_marked(text: str, decimal: Decimal, sign: str | None) -> float | None:
    text = text.replace("\N{MINUS SIGN}", "-")
    if text[:1] == "(" and text[-1:] == ")":
        positive = _parse_marked(text[1:-1].strip() or "-", decimal, sign)
        return None if positive is None or text[1] in "+-(" else -positive
    if sign is not None and text.count(sign) == 1 and (text[0] == sign or text[-1] == sign):
        text = text.strip(sign).strip()
    elif sign is not None and text[1:2] == sign and text[0] in "+-":
        text = text.replace(sign, "")
    if decimal == "." and (number := parse_number(text)) is not None:
        return number
    if not _MARKED[decimal].fullmatch(text):
        return None
    return float(re.sub(_MARKS, lambda mark: "." if mark[0] == decimal else "", text))


def find_ambiguous_points(texts: Sequence[str]) -> NDArray[np.bool_]:
    """Return which texts, such as ``6.059``, may be thousands; none if some other text decides."""
    pointed = np.array(["." in text for text in texts], bool)
    may_be = np.array([bool(_POINT_AND_THREE.fullmatch(text)) for text in texts], bool)
    is_decided = (pointed & ~may_be).any() or pointed.sum() < _LEAST_POINTED
    return np.zeros(len(texts), bool) if is_decided else pointed


def are_whole(numbers: NDArray[np.float64]) -> bool:
    """Return whether all numbers are finite and without decimals."""
    return bool((np.isfinite(numbers) & (np.floor(numbers) == numbers)).all())


def find_numbers_as_text(texts: Sequence[str]) -> NDArray[np.bool_]:
    """Return which texts are numbers with separators of thousands, or with the usual unit."""
    matches = [_WITH_UNIT.fullmatch(text) for text in texts]
    units = [match["before"] + match["after"].lower() if match else "" for match in matches]
    (common, _), *_ = [*Counter(filter(None, units)).most_common(1), ("", 0)]
    found = [
        bool(_GROUPED.fullmatch(text)) or (unit != "" and unit == common)
        for text, unit in zip(texts, units, strict=True)
    ]
    return np.array(found, dtype=bool)


def how_to_write_number(value: str) -> str:
    """Return what to write instead of a cell that is not a number."""
    text = value.strip()
    stripped = re.sub(r"^[$€£¥]\s?|\s?[a-zA-Z%°$€£¥µ/²³]{1,8}$", "", text)
    if stripped != text and (parse_number(stripped) is not None or _GROUPED.fullmatch(stripped)):
        return f"write it without the unit: {_ungroup(stripped)}"
    if _GROUPED.fullmatch(text):
        return f"write a point for decimals and nothing between thousands: {_ungroup(text)}"
    return "write a number"


def _ungroup(text: str) -> str:
    """Return the number that was meant: a mark that occurs once, and last, separates decimals."""
    if parse_number(text) is not None:
        return text
    marks = re.findall(_MARKS, text)
    last = marks[-1]
    whole, _, rest = text.rpartition(last)
    has_decimals = last in ".," and marks.count(last) == 1 and not (last == "," and len(rest) == 3)
    digits = re.sub(r"[^0-9+-]", "", whole if has_decimals else text)
    return f"{digits}.{rest}" if has_decimals else digits


def plain_id(text: str) -> str:
    """Return ``7`` for ``7.0``, as programs write ids in a column with gaps."""
    whole = WHOLE.fullmatch(text)
    return whole[1] if whole else text


def find_separator(cells: Sequence[str]) -> Separator:
    """Return the separator that most cells of a column contain."""
    if sum(cell.startswith("[") and cell.endswith("]") for cell in cells) * 2 > len(cells):
        return "json"
    marks: tuple[Separator, ...] = (";", "|", ",")
    holding = {mark: sum(mark in cell for cell in cells) for mark in marks}
    best = max(marks, key=lambda mark: holding[mark])
    return best if holding[best] else " "


def split_words(cell: str, separator: Separator) -> list[str]:
    """Return the different words of a cell in order, without surrounding space.

    With ``json``, a cell that is not a JSON array is split at commas; brackets and quotes are
    dropped.
    """
    if separator == "json":
        words = _split_json(cell)
    else:
        words = cell.split(None if separator == " " else separator)
    return list(dict.fromkeys(filter(None, map(str.strip, words))))


def _split_json(cell: str) -> list[str]:
    try:
        content = json.loads(cell)
    except ValueError:
        content = None
    if isinstance(content, list):
        return [item if isinstance(item, str) else json.dumps(item) for item in content]
    return [word.strip().strip("'\"") for word in cell.strip().strip("[]").split(",")]


def find_date_order(texts: Sequence[str]) -> DateOrder:
    """Return whether dates such as ``3/4/2024`` begin with the day or with the month.

    A number above 12 decides. Otherwise the month is first between slashes, and the day is first
    between points or hyphens.
    """
    found = [match for match in map(DATE.fullmatch, texts) if match and match["first"]]
    if any(int(match["first"]) > 12 for match in found):
        return "day first"
    has_slash = any(match["sep"] == "/" for match in found)
    is_month_first = has_slash or any(int(match["second"]) > 12 for match in found)
    return "month first" if is_month_first else "day first"


def are_ambiguous_dates(texts: Sequence[str]) -> bool:
    """Return whether no date such as ``3/4/2024`` tells the day and the month apart."""
    found = [match for match in map(DATE.fullmatch, texts) if match and match["first"]]
    ends = [(int(match["first"]), int(match["second"])) for match in found if match["sep"] != "."]
    return any(one != two for one, two in ends) and all(max(each) <= 12 for each in ends)


def parse_date(text: str, order: DateOrder) -> datetime.date | None:
    """Return the day in a cell, or None; the time of day is left out."""
    match = DATE.fullmatch(text)
    if match is None:
        return None
    year = match["y"] or match["year"] or match["of"] or match["then"] or match["only_year"]
    month, day = match["m"] or match["only_month"], match["d"] or match["day"] or match["number"]
    if match["first"]:
        day, month = match["first"], match["second"]
        if order == "month first":
            day, month = month, day
    elif name := match["month"] or match["named"]:
        month = MONTHS.index(name[:3].lower()) + 1
    day = day or 1
    try:
        return datetime.date(int(year), int(month), int(day))
    except ValueError:
        return None


def fold_spelling(text: str) -> str:
    """Return the text without case, extra spaces and variants of encoding accents."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return " ".join(plain.casefold().split())


def quote(value: str) -> str:
    """Return a cell's text in quotes on one line, cut when it is long."""
    if len(value) > MAX_VALUE_LENGTH:
        return f"{value[:MAX_VALUE_LENGTH]!r}… ({len(value):,} characters)"
    return repr(value)
