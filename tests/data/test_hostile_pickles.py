"""Planetoid's files written by an enemy: each is refused, nothing runs, nothing crashes."""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planetoid_files import write_toy

from crossgcn.data import read_planetoid
from crossgcn.errors import BadInput

NAMES = """
os.system posix.system nt.system subprocess.Popen subprocess.getoutput builtins.eval
builtins.exec builtins.getattr builtins.__import__ __builtin__.eval __builtin__.execfile
__builtin__.getattr __builtin__.compile __builtin__.open __builtin__.apply pickle.loads
pickle._loads marshal.loads types.CodeType types.FunctionType importlib.import_module
runpy.run_path code.interact pty.spawn pdb.run timeit.timeit webbrowser.open shutil.rmtree
operator.attrgetter functools.partial ctypes.CDLL numpy.load numpy.fromfile numpy.memmap
numpy.core.multiarray.scalar numpy.core.multiarray.fromfile numpy.testing.runstring
numpy.f2py.compile scipy.sparse.load_npz scipy.io.loadmat torch.load
copy_reg._reconstructor copyreg.__newobj__ collections.OrderedDict
numpy._core.multiarray._reconstruct numpy.ndarray.tofile builtins.list
crossgcn.data.datasets.planetoid.Path
""".split()  # noqa: SIM905

MATRIX = b"cscipy.sparse.csr\ncsr_matrix\n"
ARRAY = b"cnumpy.core.multiarray\n_reconstruct\n"
NDARRAY, DTYPE = b"cnumpy\nndarray\n", b"cnumpy\ndtype\n"
MAPPING, LIST = b"ccollections\ndefaultdict\n", b"c__builtin__\nlist\n"

PROGRAMS = {
    "an array over raw bytes, of objects": NDARRAY + b"(K\x01\x85U\x01OU\x08AAAAAAAAtR.",
    "the class of arrays built": NDARRAY + b"}U\x05shapeK\x01sb.",
    "the class of matrices built": MATRIX + b"}U\x08__init__N" + b"sb.",
    "a function built": ARRAY + b"N}U\x0c__defaults__K\x01s\x86b.",
    "the list type built": LIST + b"}U\x01aK\x01sb.",
    "INST": b"(ios\nsystem\n.",
    "OBJ": b"(" + LIST + b"o.",
    "STACK_GLOBAL": b"U\x02osU\x06system\x93.",
    "EXT1": b"\x82\x01.",
    "EXT4": b"\x84\x01\x00\x00\x00.",
    "PERSID": b"Pos.system\n.",
    "BINPERSID": b"U\x02osQ.",
    "NEXT_BUFFER": b"\x97.",
    "FROZENSET": b"(\x91.",
    "GLOBAL without a line's end": b"cos\nsystem",
    "memo of 2**32 - 1": b"]r\xff\xff\xff\xff.",
    "memo never written": b"h\x07.",
    "string longer than the file": b"T\xff\xff\xff\x7f.",
    "string of negative length": b"T\xff\xff\xff\xff.",
    "LONG4 of 2 GB": b"\x8b\xff\xff\xff\x7f.",
    "LONG of 50,000 digits": b"L" + b"9" * 50_000 + b"L\n.",
    "FLOAT": b"F1e999\n.",
    "UNICODE": b"Vos\n.",
    "nothing on the stack": b".",
    "two values on the stack": b"K\x01K\x02.",
    "a mark as value": b"(.",
    "marks only": b"(" * 100_000 + b"t.",
    "tuples 30,000 deep": b")" + b"\x85" * 30_000 + b".",
    "a key 30,000 tuples deep": b"}" + b")" + b"\x85" * 30_000 + b"K\x01s.",
    "lists 30,000 deep": b"]" * 30_000 + b"a" * 29_999 + b".",
    "a list in itself": b"]q\x01h\x01a.",
    "a mapping as a key": b"}}K\x01s.",
    "an append to a number": b"K\x01K\x01a.",
    "items of a list": b"]K\x01K\x02s.",
    "a key without a value": b"}(K\x01u.",
    "a call of a number": b"K\x01)R.",
    "a call with a list": LIST + b"]R.",
    "a call of a call": MAPPING + LIST + b"\x85R)R.",
    "protocol 5": b"\x80\x05K\x01.",
    "no end": b"K\x01" * 1000,
}


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    write_toy(tmp_path)
    return tmp_path


def refuse(folder: Path, part: str, content: bytes) -> str:
    (folder / f"ind.toy.{part}").write_bytes(content)
    with pytest.raises(BadInput, match=rf"ind\.toy\.{part}: ") as caught:
        read_planetoid(folder, "toy")
    assert len(str(caught.value)) < 1000
    return str(caught.value)


def test_no_name_is_looked_up(toy: Path) -> None:
    assert len(NAMES) >= 40
    marker = toy / "executed"
    for name in NAMES:
        module, _, function = name.rpartition(".")
        call = f"c{module}\n{function}\n(S'touch {marker}'\ntR.".encode()
        assert f"asks for {name}" in refuse(toy, "graph", call)
    assert not marker.exists()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_refused(toy: Path, name: str) -> None:
    for part in ("graph", "allx", "ty"):
        assert f"ind.toy.{part}" in refuse(toy, part, b"\x80\x02" + PROGRAMS[name])
        write_toy(toy)


@given(
    part=st.sampled_from(["graph", "tx", "ally"]), cut=st.floats(0, 1), change=st.integers(0, 255)
)
def test_a_pickle_that_is_cut_short_or_changed_is_bad_input(
    tmp_path_factory: pytest.TempPathFactory, part: str, cut: float, change: int
) -> None:
    folder = tmp_path_factory.mktemp("toy")
    write_toy(folder)
    whole = (folder / f"ind.toy.{part}").read_bytes()
    place = int(cut * (len(whole) - 1))
    refuse(folder, part, whole[:place])
    changed = bytearray(whole)
    changed[place] ^= change
    (folder / f"ind.toy.{part}").write_bytes(changed)
    with suppress(BadInput):
        read_planetoid(folder, "toy")


def value(content: Any) -> bytes:
    """Return instructions that push a value; bytes in a list are instructions themselves."""
    if isinstance(content, list):
        return b"".join(content)
    if content is None:
        return b"N"
    if isinstance(content, bool):
        return b"\x88" if content else b"\x89"
    if isinstance(content, int):
        if -(2**31) <= content < 2**31:
            return b"J" + struct.pack("<i", content)
        size = content.to_bytes(9, "little", signed=True)
        return b"\x8a" + bytes([len(size)]) + size
    if isinstance(content, bytes):
        return b"T" + struct.pack("<i", len(content)) + content
    if isinstance(content, tuple):
        return b"(" + b"".join(map(value, content)) + b"t"
    assert isinstance(content, dict)
    return b"}(" + b"".join(value(k) + value(v) for k, v in content.items()) + b"u"


def dtype(code: Any = b"i4", order: Any = b"<") -> list[bytes]:
    state = (3, order, None, None, None, -1, -1, 0)
    return [DTYPE, value((code, 0, 1)), b"R", value(state), b"b"]


def array(shape: Any, content: Any, kind: Any = None, by_columns: Any = False) -> list[bytes]:
    state = (1, shape, dtype() if kind is None else kind, by_columns, content)
    return [ARRAY, NDARRAY, value((0,)), value(b"b"), b"\x87R", value(state), b"b"]


def matrix(**change: Any) -> bytes:
    """The matrix tx of the toy: 2 rows, 2 columns, 3 values."""
    numbers = struct.pack("<3f", 6, 6, 4)
    state: dict[str, Any] = {
        "_shape": (2, 2),
        "indptr": array((3,), struct.pack("<3i", 0, 2, 3)),
        "indices": array((3,), struct.pack("<3i", 0, 1, 0)),
        "data": array((3,), numbers, dtype(b"f4")),
    } | change
    named = {name.encode(): each for name, each in state.items() if each != "missing"}
    return b"".join([b"\x80\x02", MATRIX, b")\x81", value(named), b"b."])


FLOATS = struct.pack("<3f", 6, 6, 4)
MATRICES: dict[str, dict[str, Any]] = {
    "no shape": {"_shape": "missing"},
    "no data": {"data": "missing"},
    "no indptr": {"indptr": "missing"},
    "shape of booleans": {"_shape": (True, True)},
    "shape of 2**63": {"_shape": (2, 2**63)},
    "shape of 2**31": {"_shape": (2, 2**31 - 1 + 1)},
    "negative shape": {"_shape": (2, -2)},
    "no columns": {"_shape": (2, 0)},
    "shape of one": {"_shape": (2,)},
    "shape of texts": {"_shape": (b"2", b"2")},
    "shape is a number": {"_shape": 2},
    "fewer columns": {"_shape": (2, 1)},
    "more rows": {"_shape": (3, 2)},
    "objects": {"data": array((1,), b"AAAAAAAA", dtype(b"O8"))},
    "texts": {"data": array((3,), FLOATS, dtype(b"S4"))},
    "pointers": {"data": array((3,), FLOATS, dtype(b"V4"))},
    "dates": {"data": array((1,), b"AAAAAAAA", dtype(b"M8"))},
    "complex": {"data": array((1,), b"AAAAAAAA", dtype(b"c8"))},
    "structured": {"data": array((3,), FLOATS, dtype(b"i4,i4"))},
    "quadruple": {"data": array((1,), b"A" * 16, dtype(b"f16"))},
    "one-byte float": {"data": array((3,), b"AAA", dtype(b"f1"))},
    "no code": {"data": array((3,), FLOATS, dtype(None))},
    "unknown order": {"data": array((3,), FLOATS, dtype(b"f4", b"="))},
    "order is a number": {"data": array((3,), FLOATS, dtype(b"f4", 1))},
    "type is a text": {"data": array((3,), FLOATS, b"f4")},
    "data too short": {"data": array((3,), FLOATS[:-1], dtype(b"f4"))},
    "data too long": {"data": array((3,), FLOATS + b"A", dtype(b"f4"))},
    "data of another length": {"data": array((2,), FLOATS[:8], dtype(b"f4"))},
    "data of 2**62": {"data": array((2**62,), FLOATS, dtype(b"f4"))},
    "data of 2**32 by 2**32": {"data": array((2**32, 2**32), b"", dtype(b"f4"))},
    "data of -3": {"data": array((-3,), FLOATS, dtype(b"f4"))},
    "data of True": {"data": array((True,), FLOATS[:4], dtype(b"f4"))},
    "data without axes": {"data": array((), FLOATS[:4], dtype(b"f4"))},
    "data with 40 axes": {"data": array((1,) * 40, FLOATS[:4], dtype(b"f4"))},
    "data is a list": {"data": array((3,), [b"]"], dtype(b"f4"))},
    "data is a number": {"data": 5},
    "data is a matrix": {"data": [matrix()[2:-1]]},
    "indices beyond": {"indices": array((3,), struct.pack("<3i", 0, 2, 0))},
    "indices below": {"indices": array((3,), struct.pack("<3i", 0, -1, 0))},
    "indices of floats": {"indices": array((3,), FLOATS, dtype(b"f4"))},
    "indptr falls": {"indptr": array((3,), struct.pack("<3i", 0, 4, 3))},
    "indptr starts later": {"indptr": array((3,), struct.pack("<3i", 1, 2, 3))},
    "indptr beyond": {"indptr": array((3,), struct.pack("<3i", 0, 2, 2**30))},
    "indptr below": {"indptr": array((3,), struct.pack("<3i", 0, 2, -1))},
    "indptr in two dimensions": {"indptr": array((3, 1), struct.pack("<3i", 0, 2, 3))},
    "indptr empty": {"indptr": array((0,), b"")},
    "nothing set": {"data": [ARRAY, NDARRAY, value((0,)), value(b"b"), b"\x87R"]},
}


@pytest.mark.parametrize("name", MATRICES)
def test_a_crafted_matrix_is_refused(toy: Path, name: str) -> None:
    assert "ind.toy.tx" in refuse(toy, "tx", matrix(**MATRICES[name]))


def test_the_crafted_matrices_are_of_a_sound_one(toy: Path) -> None:
    assert len(MATRICES) >= 40
    before = read_planetoid(toy, "toy").x.to_dense()
    (toy / "ind.toy.tx").write_bytes(matrix())
    assert read_planetoid(toy, "toy").x.to_dense().equal(before)
    big = {"data": array((3,), struct.pack(">3f", 6, 6, 4), dtype(b"f4", b">"))}
    (toy / "ind.toy.tx").write_bytes(matrix(**big))
    assert read_planetoid(toy, "toy").x.to_dense().equal(before)


def test_a_long_list_named_often_is_not_multiplied(toy: Path) -> None:
    numbers = b"".join(b"K" + bytes([n % 7]) for n in range(20_000))
    keys = b"".join(b"J" + struct.pack("<i", n) + b"h\x01" for n in range(1, 20_000))
    content = b"\x80\x02}(K\x00](" + numbers + b"eq\x01" + keys + b"u."
    assert "too many for a file of its size" in refuse(toy, "graph", content)


def test_a_far_node_in_the_index_allocates_nothing(toy: Path) -> None:
    for far in (10**12, 2**63, 10**30):
        (toy / "ind.toy.test.index").write_text(f"4\n{far}\n")
        with pytest.raises(BadInput, match=r"ind\.toy\.test\.index"):
            read_planetoid(toy, "toy")
    (toy / "ind.toy.test.index").unlink()
    os.mkfifo(toy / "ind.toy.test.index")
    with pytest.raises(BadInput, match=r"ind\.toy\.test\.index: cannot be read \(not a regular"):
        read_planetoid(toy, "toy")
