"""Read Planetoid's pickles as data: nothing is imported or called, and no object is made.

A pickle is a program for a stack machine. This reader knows the 30 instructions that occur in
Planetoid's files. An instruction that would look up a name or call something leaves a
:class:`Name` or a :class:`Call` on the stack instead. Arrays and matrices are made afterwards,
once types, shapes and sizes were checked against the bytes that are there.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from reprlib import repr as short
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

ARRAY, DTYPE = "numpy.core.multiarray._reconstruct", "numpy.dtype"
MATRIX, MAPPING = "scipy.sparse.csr.csr_matrix", "collections.defaultdict"
NAMES = (ARRAY, DTYPE, MATRIX, MAPPING, "numpy.ndarray", "__builtin__.list")

MOST_COLUMNS = 2**31 - 1


class RefusedPickle(Exception):
    """A pickle asks for something that no Planetoid file needs."""


class Unsound(Exception):
    """A pickle is cut short, or its parts do not fit together."""


@dataclass(frozen=True)
class Name:
    """The name of a class or function, which is not looked up."""

    text: str


@dataclass(eq=False)
class Call:
    """A call that is not made: its function, its arguments, and the state set afterwards.

    ``items`` are those of a mapping.
    """

    function: str
    arguments: tuple[Any, ...]
    state: Any = None

    def __post_init__(self) -> None:
        self.items: dict[Any, Any] = {}


_MARK = object()

# The instructions, as in Python's pickletools.
_BININT2, _EMPTY_LIST, _MARK_NEXT, _APPENDS, _APPEND = b"M](ea"
_EMPTY_DICT, _SETITEM, _SETITEMS, _TUPLE_SINCE_MARK, _GLOBAL = b"}sutc"
_REDUCE, _NEWOBJ, _BUILD, _PROTO, _STOP = b"R\x81b\x80."
_PUT = {ord("q"): "<B", ord("r"): "<I"}
_GET = {ord("h"): "<B", ord("j"): "<I"}
_INTEGER = {ord("K"): "<B", ord("J"): "<i"}
_STRING = {ord("U"): "<B", ord("T"): "<i", ord("X"): "<I"}
_CONSTANT = {ord("N"): None, 0x88: True, 0x89: False, ord(")"): ()}
_TUPLE = {0x85: 1, 0x86: 2, 0x87: 3}


def read_pickle(content: bytes) -> Any:
    """Return the value of a pickle: plain values, :class:`Name` and :class:`Call`.

    Strings are bytes.

    Raises:
        RefusedPickle: Naming what it asks for.
        Unsound: Saying what is wrong.
    """
    try:
        return _run(content)
    except (IndexError, KeyError, ValueError, struct.error) as error:
        raise Unsound(f"it is damaged or cut short, {type(error).__name__}: {error}") from None


def _run(content: bytes) -> Any:
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    at = 0

    def take(count: int) -> bytes:
        nonlocal at
        part = content[at : at + count]
        if count < 0 or len(part) < count:
            raise Unsound("it is cut short")
        at += count
        return part

    def line() -> str:
        nonlocal at
        end = content.index(b"\n", at)
        part, at = content[at:end].decode("ascii", "backslashreplace"), end + 1
        return part

    def since_mark() -> list[Any]:
        first = len(stack) - 1
        while stack[first] is not _MARK:
            first -= 1
            if first < 0:
                raise Unsound("a mark is missing")
        items = stack[first + 1 :]
        del stack[first:]
        return items

    def number(form: str) -> int:
        (value,) = struct.unpack(form, take(struct.calcsize(form)))
        return int(value)

    while True:
        code = content[at]
        at += 1
        # The first six are nearly all of a file.
        if code == _BININT2:
            stack.append(int.from_bytes(content[at : at + 2], "little"))
            at += 2
        elif code == _EMPTY_LIST:
            stack.append([])
        elif code == _MARK_NEXT:
            stack.append(_MARK)
        elif code == _APPENDS:
            items = since_mark()
            _as(list, stack[-1]).extend(items)
        elif code == _APPEND:
            value = stack.pop()
            _as(list, stack[-1]).append(value)
        elif code in _PUT:
            memo[number(_PUT[code])] = stack[-1]
        elif code in _INTEGER:
            stack.append(number(_INTEGER[code]))
        elif code in _GET:
            stack.append(memo[number(_GET[code])])
        elif code in _STRING:
            stack.append(take(number(_STRING[code])))
        elif code in _CONSTANT:
            stack.append(_CONSTANT[code])
        elif code == _EMPTY_DICT:
            stack.append({})
        elif code in (_SETITEM, _SETITEMS):
            items = since_mark() if code == _SETITEMS else [stack.pop(), stack.pop()][::-1]
            _set_items(stack[-1], items)
        elif code in _TUPLE:
            items = [stack.pop() for _ in range(_TUPLE[code])]
            stack.append(tuple(reversed(items)))
        elif code == _TUPLE_SINCE_MARK:
            stack.append(tuple(since_mark()))
        elif code == _GLOBAL:
            name = f"{line()}.{line()}"
            if name not in NAMES:
                raise RefusedPickle(name)
            stack.append(Name(name))
        elif code in (_REDUCE, _NEWOBJ):
            arguments = _as(tuple, stack.pop())
            stack.append(Call(_as(Name, stack.pop()).text, arguments))
        elif code == _BUILD:
            state = stack.pop()
            _as(Call, stack[-1]).state = state
        elif code == _PROTO:
            if number("<B") != 2:
                raise Unsound("it is no pickle of protocol 2")
        elif code == _STOP:
            (value,) = stack
            return value
        else:
            raise RefusedPickle(f"the instruction {chr(code)!r}")


def _set_items(target: Any, items: list[Any]) -> None:
    keys = items[::2]
    # Not tuples: the hash of a deeply nested one would exhaust the stack.
    if not all(type(key) in (int, bytes) for key in keys):
        raise Unsound("a mapping has keys that are neither numbers nor texts")
    own = target.items if isinstance(target, Call) else _as(dict, target)
    own.update(zip(keys, items[1::2], strict=True))


def _as(kind: Any, value: Any) -> Any:
    if type(value) is not kind:
        raise Unsound(f"a {type(value).__name__} stands where a {kind.__name__} belongs")
    return value


def as_array(value: Any, kinds: str) -> NDArray[Any]:
    """Make an array of numbers of some kinds, such as ``"iu"``."""
    if not isinstance(value, Call) or value.function != ARRAY:
        raise Unsound("it holds no array")
    state = value.state
    if not (isinstance(state, tuple) and len(state) == 5):
        raise Unsound("an array has no content")
    _, shape, dtype, by_columns, content = state
    if not (isinstance(dtype, Call) and dtype.function == DTYPE):
        raise Unsound("an array has no type")
    code = dtype.arguments[0] if dtype.arguments else None
    order = dtype.state[1] if isinstance(dtype.state, tuple) and len(dtype.state) > 1 else None
    if not (
        isinstance(code, bytes)
        and code[:1].decode("latin1") in kinds
        and code[1:] in (b"1", b"2", b"4", b"8")
        and order in (b"<", b">", b"|")
    ):
        raise Unsound(f"an array is of type {short(order)} {short(code)}, not of numbers ({kinds})")
    if not (
        isinstance(shape, tuple)
        and 1 <= len(shape) <= 2
        and all(type(size) is int and size >= 0 for size in shape)
        and isinstance(content, bytes)
        and math.prod(shape) * int(code[1:]) == len(content)
    ):
        raise Unsound(f"an array of shape {short(shape)} does not have as many bytes")
    try:
        kind = np.dtype((order + code).decode("ascii"))
    except TypeError:
        raise Unsound(f"an array is of type {short(code)}") from None
    array = np.frombuffer(content, kind).reshape(shape, order="F" if by_columns is True else "C")
    return np.ascontiguousarray(array, kind.newbyteorder("="))


def as_matrix(value: Any) -> sparse.csr_matrix:
    """Make a CSR matrix of numbers."""
    if not isinstance(value, Call) or value.function != MATRIX:
        raise Unsound("it holds no CSR matrix")
    if not isinstance(value.state, dict):
        raise Unsound("a matrix has no content")
    try:
        shape = value.state[b"_shape"]
        indptr, indices = (as_array(value.state[name], "i") for name in (b"indptr", b"indices"))
        data = as_array(value.state[b"data"], "fiu")
    except KeyError as error:
        raise Unsound(f"a matrix has no {error}") from None
    if not (
        isinstance(shape, tuple)
        and len(shape) == 2
        and all(type(size) is int and 0 < size <= MOST_COLUMNS for size in shape)
    ):
        raise Unsound(f"a matrix is of shape {short(shape)}")
    rows, columns = shape
    fits = (
        indptr.shape == (rows + 1,)
        and indices.shape == data.shape == (int(indptr[-1]),)
        and indptr[0] == 0
        and bool((np.diff(indptr) >= 0).all())
        and bool(((indices >= 0) & (indices < columns)).all())
    )
    if not fits:
        raise Unsound(f"the entries of a matrix do not fit its shape {shape}")
    return sparse.csr_matrix((data, indices, indptr), shape=shape)


def as_edges(value: Any, most: int) -> NDArray[np.int64]:
    """Make pairs ``[edges, 2]`` of a mapping of nodes to lists of neighbours.

    Args:
        most: How many there can be; a small pickle can name one long list many times.
    """
    if isinstance(value, Call) and value.function == MAPPING:
        value = value.items
    if type(value) is not dict:
        raise Unsound("it holds no mapping of nodes to neighbours")
    count = 0
    for node, near in value.items():
        if type(node) is not int or type(near) is not list:
            raise Unsound(f"node {short(node)} has no list of neighbours")
        count += len(near)
        if count > most:
            raise Unsound(f"more than {most:,} neighbours are too many for a file of its size")
        for neighbour in near:
            if type(neighbour) is not int:
                raise Unsound(f"node {node} has the neighbour {short(neighbour)}: no number")
    pairs = [(node, neighbour) for node, near in value.items() for neighbour in near]
    return np.array(pairs, np.int64).reshape(-1, 2)
