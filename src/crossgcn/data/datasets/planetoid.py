"""Read Planetoid's raw files safely.

The eight files of a graph are Python 2 pickles and one text file. A pickle is a program; here it is
not run but read as data, so nothing is imported or called, and no object is made.
"""

from __future__ import annotations

import math
import pickletools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path
from reprlib import repr as short
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from crossgcn.data.datasets.catalogue import PLANETOID_PARTS
from crossgcn.data.features import csr_tensor
from crossgcn.data.files import read_bytes
from crossgcn.data.graph_file import read_graph
from crossgcn.errors import BadInput

NUM_VALIDATION = 500
"""Planetoid's public split validates on the rows after its training rows."""


def read_planetoid(folder: Path, name: str) -> Data:
    """Read a Planetoid graph from a folder with its eight files ``ind.{name}.*``.

    A number in the test range that ``test.index`` leaves out (Citeseer has 15) is a node with
    edges, without features, and unlabelled like every node whose one-hot label is all zero
    (``y = -1``).

    Returns:
        ``x`` (sparse CSR, not normalised), ``edge_index`` (undirected, unique, sorted, with
        self-loops), ``y``, ``num_classes``, ``name``, and the public split as ``roles`` [1, N].
    """
    paths = {part: folder / f"ind.{name}.{part}" for part in PLANETOID_PARTS}
    x, tx, allx = (
        _read(paths[part], lambda value, _: _as_matrix(value)) for part in ("x", "tx", "allx")
    )
    ty, ally = (_read_one_hot(paths[part]) for part in ("ty", "ally"))
    test = _read_test_index(paths["test.index"])

    first_test, num_nodes = allx.shape[0], int(test.max()) + 1
    _require(len(ally) == first_test, paths["ally"], f"{len(ally)} rows, allx {first_test}")
    _require(len(ty) == tx.shape[0], paths["ty"], f"{len(ty)} rows, tx {tx.shape[0]}")
    _require(len(test) == tx.shape[0], paths["test.index"], f"{len(test)} rows, tx {tx.shape[0]}")
    _require(int(test.min()) == first_test, paths["test.index"], f"its least is {test.min()}")
    # A gap is a node without features: Citeseer has 15 of them.
    _require(
        num_nodes - first_test <= 10 * len(test), paths["test.index"], f"its most is {test.max()}"
    )
    _require(x.shape[0] <= first_test, paths["x"], f"{x.shape[0]} rows, allx {first_test}")
    _require(tx.shape[1] == allx.shape[1], paths["tx"], f"{tx.shape[1]} columns")
    _require(ty.shape[1] == ally.shape[1], paths["ty"], f"{ty.shape[1]} columns")

    # Numbers that test.index leaves out get the empty row appended to tx.
    tx_row = np.full(num_nodes - first_test, -1)
    tx_row[test - first_test] = np.arange(len(test))
    padded = sparse.vstack([tx, sparse.csr_matrix((1, tx.shape[1]), dtype=tx.dtype)], "csr")
    features = sparse.csr_matrix(sparse.vstack([allx, padded[tx_row]]), dtype=np.float32)
    features.sum_duplicates()

    y = np.full(num_nodes, -1, np.int64)
    y[:first_test] = _labels(ally)
    y[test] = _labels(ty)

    roles = np.zeros((1, num_nodes), np.int8)
    roles[0, : x.shape[0]] = 1
    roles[0, x.shape[0] : first_test][:NUM_VALIDATION] = 2
    roles[0, test] = 3

    return Data(
        x=csr_tensor(features.indptr, features.indices, features.data, features.shape),
        edge_index=_read_edges(paths["graph"], num_nodes),
        y=torch.from_numpy(y),
        roles=torch.from_numpy(roles),
        name=name,
        num_classes=ally.shape[1],
        num_nodes=num_nodes,
    )


Value = TypeVar("Value")


def _read(path: Path, make: Callable[[Any, int], Value]) -> Value:
    """Read a pickle, and make what it describes; ``make`` also gets the size of the file."""
    try:
        content = read_bytes(path)
        return make(_read_pickle(content), len(content))
    except _Refused as refused:
        raise BadInput(
            f"{path}: refused, its pickle asks for {refused}, which no Planetoid file needs; "
            "get the file again from a source you trust"
        ) from None
    except OSError as error:
        raise BadInput(
            f"{path}: cannot be read ({error.strerror}); a graph is eight files ind.NAME.*"
        ) from error
    except _Unsound as error:
        raise _damaged(path, str(error)) from None


def _read_one_hot(path: Path) -> NDArray[np.integer]:
    array = _read(path, lambda value, _: _as_array(value, "iu"))
    _require(array.ndim == 2 and array.size > 0, path, "it holds no matrix of one-hot labels")
    return array


def _labels(one_hot: NDArray[np.integer]) -> NDArray[np.int64]:
    # NOTE[D7]: a plain argmax would turn an all-zero row into class 0.
    return np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), -1)


def _read_test_index(path: Path) -> NDArray[np.int64]:
    try:
        index = np.array([int(line) for line in read_bytes(path).decode("ascii").split()], np.int64)
    except OSError as error:
        raise BadInput(
            f"{path}: cannot be read ({error.strerror}); a graph is eight files ind.NAME.*"
        ) from error
    except (ValueError, OverflowError) as error:
        raise _damaged(path, str(error)) from error
    _require(len(index) > 0, path, "it is empty")
    _require(len(np.unique(index)) == len(index), path, "it names a node twice")
    return index


def _read_edges(path: Path, num_nodes: int) -> torch.Tensor:
    edges = _read(path, _as_edges)
    inside = edges.size == 0 or (edges.min() >= 0 and edges.max() < num_nodes)
    _require(inside, path, f"it names nodes outside 0..{num_nodes - 1}")
    edge_index: torch.Tensor = to_undirected(torch.from_numpy(edges.T.copy()), num_nodes=num_nodes)
    return edge_index


def _require(condition: bool, path: Path, found: str) -> None:
    if not condition:
        raise _damaged(path, found)


def _damaged(path: Path, found: str) -> BadInput:
    return BadInput(f"{path}: not a sound Planetoid file ({found}); get the file again")


def read_bundled_citeseer() -> Data:
    """Read the Citeseer in this package, with binary features and the public split."""
    with as_file(files("crossgcn.data.datasets") / "citeseer.npz") as path:
        return read_graph(path)


# A pickle is a program for a stack machine. It is not run: pickletools lists its instructions, and
# one that would look up a name or call something leaves a _Name or a _Call on the stack instead.
# Arrays and matrices are made afterwards, once types, shapes and sizes were checked against the
# bytes that are there.

_ARRAY, _DTYPE = "numpy.core.multiarray._reconstruct", "numpy.dtype"
_MATRIX, _MAPPING = "scipy.sparse.csr.csr_matrix", "collections.defaultdict"
_NAMES = (_ARRAY, _DTYPE, _MATRIX, _MAPPING, "numpy.ndarray", "__builtin__.list")

_MOST_COLUMNS = 2**31 - 1

_MARK = object()
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}


class _Refused(Exception):
    """A pickle asks for something that no Planetoid file needs."""


class _Unsound(Exception):
    """A pickle is cut short, or its parts do not fit together."""


@dataclass(frozen=True)
class _Name:
    """The name of a class or function, which is not looked up."""

    text: str


@dataclass(eq=False)
class _Call:
    """A call that is not made, the state set afterwards, and the items of a mapping."""

    function: str
    arguments: tuple[Any, ...]
    state: Any = None
    items: dict[Any, Any] = field(default_factory=dict)


def _read_pickle(content: bytes) -> Any:
    """Return the value of a pickle: plain values, :class:`_Name` and :class:`_Call`."""
    try:
        return _follow(pickletools.genops(content))
    except (IndexError, KeyError, ValueError) as error:
        what = f"{type(error).__name__}: {str(error)[:200]}"
        raise _Unsound(f"it is damaged or cut short, {what}") from None


def _follow(instructions: Iterable[tuple[Any, Any, Any]]) -> Any:
    stack: list[Any] = []
    memo: dict[int, Any] = {}

    def since_mark() -> list[Any]:
        first = len(stack) - 1
        while stack[first] is not _MARK:
            first -= 1
            if first < 0:
                raise _Unsound("a mark is missing")
        items = stack[first + 1 :]
        del stack[first:]
        return items

    for instruction, argument, _ in instructions:
        match instruction.name:
            case "BININT2" | "BININT1" | "BININT":
                stack.append(argument)
            case "EMPTY_LIST":
                stack.append([])
            case "MARK":
                stack.append(_MARK)
            case "APPENDS":
                items = since_mark()
                _as(list, stack[-1]).extend(items)
            case "APPEND":
                value = stack.pop()
                _as(list, stack[-1]).append(value)
            case "BINPUT" | "LONG_BINPUT":
                memo[argument] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(memo[argument])
            case "SHORT_BINSTRING" | "BINSTRING":
                stack.append(argument.encode("latin-1"))
            case "BINUNICODE":
                stack.append(argument.encode("utf-8", "surrogatepass"))
            case "NONE" | "NEWTRUE" | "NEWFALSE" | "EMPTY_TUPLE" as name:
                stack.append(_CONSTANTS[name])
            case "EMPTY_DICT":
                stack.append({})
            case "SETITEM":
                items = [stack.pop(), stack.pop()][::-1]
                _set_items(stack[-1], items)
            case "SETITEMS":
                items = since_mark()
                _set_items(stack[-1], items)
            case "TUPLE1" | "TUPLE2" | "TUPLE3" as name:
                items = [stack.pop() for _ in range(int(name[-1]))]
                stack.append(tuple(reversed(items)))
            case "TUPLE":
                stack.append(tuple(since_mark()))
            case "GLOBAL":
                name = argument.replace(" ", ".")
                if name not in _NAMES:
                    raise _Refused(name[:200])
                stack.append(_Name(name))
            case "REDUCE" | "NEWOBJ":
                arguments = _as(tuple, stack.pop())
                stack.append(_Call(_as(_Name, stack.pop()).text, arguments))
            case "BUILD":
                state = stack.pop()
                _as(_Call, stack[-1]).state = state
            case "PROTO":
                if argument != 2:
                    raise _Unsound("it is no pickle of protocol 2")
            case "STOP":
                break
            case name:
                raise _Refused(f"the instruction {name}")
    (value,) = stack
    return value


def _set_items(target: Any, items: list[Any]) -> None:
    keys = items[::2]
    # Not tuples: the hash of a deeply nested one would exhaust the stack.
    if not all(type(key) in (int, bytes) for key in keys):
        raise _Unsound("a mapping has keys that are neither numbers nor texts")
    own = target.items if isinstance(target, _Call) else _as(dict, target)
    own.update(zip(keys, items[1::2], strict=True))


def _as(kind: Any, value: Any) -> Any:
    if type(value) is not kind:
        raise _Unsound(f"a {type(value).__name__} stands where a {kind.__name__} belongs")
    return value


def _as_array(value: Any, kinds: str) -> NDArray[Any]:
    """Make an array of numbers of some kinds, such as ``"iu"``."""
    if not isinstance(value, _Call) or value.function != _ARRAY:
        raise _Unsound("it holds no array")
    state = value.state
    if not (isinstance(state, tuple) and len(state) == 5):
        raise _Unsound("an array has no content")
    _, shape, dtype, by_columns, content = state
    if not (isinstance(dtype, _Call) and dtype.function == _DTYPE):
        raise _Unsound("an array has no type")
    code = dtype.arguments[0] if dtype.arguments else None
    order = dtype.state[1] if isinstance(dtype.state, tuple) and len(dtype.state) > 1 else None
    if not (
        isinstance(code, bytes)
        and code[:1].decode("latin1") in kinds
        and code[1:] in (b"1", b"2", b"4", b"8")
        and order in (b"<", b">", b"|")
    ):
        raise _Unsound(
            f"an array is of type {short(order)} {short(code)}, not of numbers ({kinds})"
        )
    if not (
        isinstance(shape, tuple)
        and 1 <= len(shape) <= 2
        and all(type(size) is int and size >= 0 for size in shape)
        and isinstance(content, bytes)
        and math.prod(shape) * int(code[1:]) == len(content)
    ):
        raise _Unsound(f"an array of shape {short(shape)} does not have as many bytes")
    try:
        kind = np.dtype((order + code).decode("ascii"))
    except TypeError:
        raise _Unsound(f"an array is of type {short(code)}") from None
    array = np.frombuffer(content, kind).reshape(shape, order="F" if by_columns is True else "C")
    return np.ascontiguousarray(array, kind.newbyteorder("="))


def _as_matrix(value: Any) -> sparse.csr_matrix:
    """Make a CSR matrix of numbers."""
    if not isinstance(value, _Call) or value.function != _MATRIX:
        raise _Unsound("it holds no CSR matrix")
    if not isinstance(value.state, dict):
        raise _Unsound("a matrix has no content")
    try:
        shape = value.state[b"_shape"]
        indptr, indices = (_as_array(value.state[name], "i") for name in (b"indptr", b"indices"))
        data = _as_array(value.state[b"data"], "fiu")
    except KeyError as error:
        raise _Unsound(f"a matrix has no {error}") from None
    if not (
        isinstance(shape, tuple)
        and len(shape) == 2
        and all(type(size) is int and 0 < size <= _MOST_COLUMNS for size in shape)
    ):
        raise _Unsound(f"a matrix is of shape {short(shape)}")
    rows, columns = shape
    fits = (
        indptr.shape == (rows + 1,)
        and indices.shape == data.shape == (int(indptr[-1]),)
        and indptr[0] == 0
        and bool((np.diff(indptr) >= 0).all())
        and bool(((indices >= 0) & (indices < columns)).all())
    )
    if not fits:
        raise _Unsound(f"the entries of a matrix do not fit its shape {shape}")
    return sparse.csr_matrix((data, indices, indptr), shape=shape)


def _as_edges(value: Any, most: int) -> NDArray[np.int64]:
    """Make at most ``most`` pairs ``[edges, 2]`` of a mapping of nodes to lists of neighbours.

    There is a bound because a small pickle can name one long list many times.
    """
    if isinstance(value, _Call) and value.function == _MAPPING:
        value = value.items
    if type(value) is not dict:
        raise _Unsound("it holds no mapping of nodes to neighbours")
    count = 0
    for node, near in value.items():
        if type(node) is not int or type(near) is not list:
            raise _Unsound(f"node {short(node)} has no list of neighbours")
        count += len(near)
        if count > most:
            raise _Unsound(f"more than {most:,} neighbours are too many for a file of its size")
        for neighbour in near:
            if type(neighbour) is not int:
                raise _Unsound(f"node {node} has the neighbour {short(neighbour)}: no number")
    pairs = [(node, neighbour) for node, near in value.items() for neighbour in near]
    return np.array(pairs, np.int64).reshape(-1, 2)
