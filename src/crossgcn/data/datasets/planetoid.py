"""Read Planetoid's raw files safely.

The eight files of a graph are Python 2 pickles and one text file. A pickle is a program that may
call anything. Here it may name six classes and functions and use thirty instructions, and what it
would call is only written down: arrays and matrices are made afterwards from what it holds.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import as_file, files
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar, TypeVar

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

Value = TypeVar("Value")

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
    x, tx, allx = (_read(paths[part], _as_matrix) for part in ("x", "tx", "allx"))
    ty, ally = (_read(paths[part], _as_one_hot) for part in ("ty", "ally"))
    test = _read(paths["test.index"], _as_index)

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
    edges = _read(paths["graph"], lambda content: _as_edges(content, num_nodes))

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
        edge_index=to_undirected(torch.from_numpy(edges), num_nodes=num_nodes),
        y=torch.from_numpy(y),
        roles=torch.from_numpy(roles),
        name=name,
        num_classes=ally.shape[1],
        num_nodes=num_nodes,
    )


def _read(path: Path, make: Callable[[bytes], Value]) -> Value:
    """Read a file, and make what it describes."""
    try:
        return make(read_bytes(path))
    except OSError as error:
        raise BadInput(
            f"{path}: cannot be read ({error.strerror}); a graph is eight files ind.NAME.*"
        ) from error
    except _Refused as refused:
        raise BadInput(
            f"{path}: refused, its pickle asks for {refused}, which no Planetoid file needs; "
            "get the file again from a source you trust"
        ) from None
    except Exception as error:  # a damaged or hostile pickle can raise any error
        raise _damaged(path, f"{type(error).__name__}: {str(error)[:200]}") from None


def _require(condition: bool, path: Path, found: str) -> None:
    if not condition:
        raise _damaged(path, found)


def _damaged(path: Path, found: str) -> BadInput:
    return BadInput(f"{path}: not a sound Planetoid file ({found}); get the file again")


def _labels(one_hot: NDArray[np.integer]) -> NDArray[np.int64]:
    # NOTE[D7]: a plain argmax would turn an all-zero row into class 0.
    return np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), -1)


def read_bundled_citeseer() -> Data:
    """Read the Citeseer in this package, with binary features and the public split."""
    with as_file(files("crossgcn.data.datasets") / "citeseer.npz") as path:
        return read_graph(path)


_ARRAY, _DTYPE = "numpy.core.multiarray._reconstruct", "numpy.dtype"
_MATRIX, _MAPPING = "scipy.sparse.csr.csr_matrix", "collections.defaultdict"
_NAMES = (_ARRAY, _DTYPE, _MATRIX, _MAPPING, "numpy.ndarray", "__builtin__.list")

_INSTRUCTIONS = (
    *("PROTO", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2"),
    *("BINSTRING", "SHORT_BINSTRING", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET"),
    *("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_LIST", "APPEND", "APPENDS"),
    *("SETITEM", "SETITEMS", "GLOBAL", "REDUCE"),
)


class _Refused(Exception):
    """A pickle asks for something that no Planetoid file needs."""


@dataclass(eq=False)
class _Call:
    """A call that is not made, and the state that would be set afterwards."""

    function: str
    arguments: tuple[Any, ...]
    state: Any = None


@dataclass(frozen=True)
class _Name:
    """The name of a class or function, which is not looked up."""

    text: str

    def __call__(self, *arguments: Any) -> Any:
        return _Mapping() if self.text == _MAPPING else _Call(self.text, arguments)


class _Mapping(dict[Any, Any]):
    """A dictionary whose keys are numbers or bytes: hashing deep tuples exhausts the stack."""

    def __setitem__(self, key: Any, value: Any) -> None:
        if type(key) not in (int, bytes):
            raise ValueError("a mapping has keys that are neither numbers nor texts")
        super().__setitem__(key, value)


class _Reader(pickle._Unpickler):
    """Python's own reader with fewer instructions, none of which looks up or calls anything.

    It is the one written in Python: that in C takes as much memory as a number in the file says.
    """

    def find_class(self, module: str, name: str) -> Any:
        if f"{module}.{name}" not in _NAMES:
            raise _Refused(f"{module}.{name}"[:200])
        return _Name(f"{module}.{name}")

    def push_mapping(self: Any) -> None:
        self.append(_Mapping())

    def set_state(self: Any) -> None:
        state = self.stack.pop()
        self.stack[-1].state = state

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        code: pickle._Unpickler.dispatch[code]
        for code in (getattr(pickle, name)[0] for name in _INSTRUCTIONS)
    } | {
        pickle.EMPTY_DICT[0]: push_mapping,
        pickle.BUILD[0]: set_state,
        pickle.BINUNICODE[0]: pickle._Unpickler.dispatch[pickle.BINSTRING[0]],
        pickle.NEWOBJ[0]: pickle._Unpickler.dispatch[pickle.REDUCE[0]],
    }


def _unpickle(content: bytes) -> Any:
    return _Reader(BytesIO(content), encoding="bytes").load()


def _as_index(content: bytes) -> NDArray[np.int64]:
    index = np.array([int(line) for line in content.split()], np.int64)
    if len(index) == 0 or len(np.unique(index)) < len(index):
        raise ValueError("it is empty, or names a node twice")
    return index


def _as_array(value: Any, kinds: str) -> NDArray[Any]:
    """Make an array of numbers of some kinds, such as ``"iu"``."""
    if getattr(value, "function", None) != _ARRAY:
        raise ValueError("it holds no array")
    _, shape, dtype, by_columns, data = value.state
    code, order = dtype.arguments[0], dtype.state[1]
    if code[:1].decode() not in kinds or len(code) != 2 or order not in (b"<", b">", b"|"):
        raise ValueError(f"an array is of type {order!r} {code!r}, not of numbers ({kinds})")
    kind = np.dtype((order + code).decode())
    array = np.frombuffer(data, kind).reshape(shape, order="F" if by_columns is True else "C")
    if array.shape != shape:
        raise ValueError(f"an array is of shape {shape}")
    return np.ascontiguousarray(array, kind.newbyteorder("="))


def _as_one_hot(content: bytes) -> NDArray[np.integer]:
    array = _as_array(_unpickle(content), "iu")
    if array.ndim != 2 or array.size == 0:
        raise ValueError("it holds no matrix of one-hot labels")
    return array


def _as_matrix(content: bytes) -> sparse.csr_matrix:
    """Make a CSR matrix of numbers."""
    value = _unpickle(content)
    if getattr(value, "function", None) != _MATRIX:
        raise ValueError("it holds no CSR matrix")
    indices, indptr = (_as_array(value.state[name], "i") for name in (b"indices", b"indptr"))
    data = _as_array(value.state[b"data"], "fiu")
    if list(indptr[-1:]) != [len(data)]:
        raise ValueError("the rows of a matrix do not end where its values do")
    matrix = sparse.csr_matrix((data, indices, indptr), shape=value.state[b"_shape"])
    matrix.check_format(full_check=True)
    return matrix


def _as_edges(content: bytes, num_nodes: int) -> NDArray[np.int64]:
    """Make pairs ``[2, edges]`` of a mapping of nodes to lists of neighbours."""
    value = _unpickle(content)
    if type(value) is not _Mapping:
        raise ValueError("it holds no mapping of nodes to neighbours")
    if sum(map(len, value.values())) > len(content):  # one long list may be named many times
        raise ValueError("more neighbours than bytes are too many for a file of its size")
    pairs = [(node, neighbour) for node, near in value.items() for neighbour in near]
    if not all(type(node) is int and 0 <= node < num_nodes for pair in pairs for node in pair):
        raise ValueError(f"a node or a neighbour is no number, or outside 0..{num_nodes - 1}")
    return np.array(pairs, np.int64).reshape(-1, 2).T.copy()
