"""Damage to files: what disks, cables, editors and enemies do to bytes, folders and values."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

NUMBERS = (0, 1, 127, 255, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1)
WORDS = (
    *(b"null", b"true", b"NaN", b"-1", b"1e999", b"99999999999999999999", b"[]", b"{}", b'""'),
    *(b"\x00", b"\xff\xfe", b"\x1b[31m", b'"', b",", b"\n", b"\r", b";", b"../../x", b"=1+1"),
)


def damage_bytes(content: bytes, random: Random) -> bytes:
    """Return a content that differs from the one given, unless that is empty."""
    while True:
        start, end = sorted(random.randrange(len(content) + 1) for _ in range(2))
        end = min(end, start + random.choice((1, 4, 16, 4096)))
        part = content[start:end]
        kind = random.randrange(12)
        if kind <= 3 and content:  # single bits are the most common damage
            at = random.randrange(len(content))
            changed = bytearray(content)
            changed[at] ^= 1 << random.randrange(8)
            new = bytes(changed)
        elif kind == 4:
            new = content[:start]
        elif kind == 5:
            new = content[:start] + content[end:]
        elif kind == 6:
            new = content[:end] + part + content[end:]
        elif kind == 7:
            new = content[:start] + random.randbytes(len(part)) + content[end:]
        elif kind == 8:
            new = content[:start] + bytes(len(part)) + content[end:]
        elif kind == 9:
            number = struct.pack("<Q", random.choice(NUMBERS))[: random.choice((1, 2, 4, 8))]
            new = content[:start] + number + content[start + len(number) :]
        elif kind == 10:
            word = random.choice(WORDS)
            new = content[:start] + word + content[start + random.choice((0, len(word))) :]
        else:
            lines = content.splitlines(keepends=True)
            random.shuffle(lines)
            new = b"".join(lines[: random.choice((len(lines), len(lines) // 2))])
        if new != content or not content:
            return new


def damage_folder(folder: Path, random: Random) -> str:
    """Damage one of the files below a folder; return which."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path, other = random.choice(files), random.choice(files)
    kind = random.randrange(100)
    if kind < 85:
        path.write_bytes(damage_bytes(path.read_bytes(), random))
    elif kind < 90 and other.read_bytes() != path.read_bytes():
        shutil.copyfile(other, path)
    else:
        path.unlink()
        if kind < 92:
            path.mkdir()
        elif kind < 94:
            os.mkfifo(path)
        elif kind < 96:
            path.symlink_to(random.choice((path.name, "/dev/zero", "/dev/null", "nowhere", "/")))
        elif kind < 97:
            path.touch()
    return str(path.relative_to(folder))


def edit_json(value: Any, random: Random) -> Any:
    """Return a JSON value with another value somewhere inside."""
    if isinstance(value, dict) and value and random.random() < 0.9:
        key = random.choice(sorted(value))
        kind = random.randrange(10)
        if kind == 0:
            return {name: each for name, each in value.items() if name != key}
        if kind == 1:
            return {**value, f"{key}'": value[key]}
        return {**value, key: edit_json(value[key], random)}
    if isinstance(value, list) and value and random.random() < 0.8:
        at = random.randrange(len(value))
        kind = random.randrange(4)
        new = [] if kind == 0 else [value[at]] * 2 if kind == 1 else [edit_json(value[at], random)]
        return [*value[:at], *new, *value[at + 1 :]]
    deep: Any = []
    for _ in range(500):
        deep = [deep]
    others: tuple[Any, ...] = (
        *(None, True, False, 0, 1, -1, 2, 1e30, -1e-30, float("nan"), float("inf"), 2**63, 10**30),
        *("", "x", "\x1b[31m", "\ud800", "../../x", "/etc/passwd", [], [[]], {}, {"x": 1}, deep),
    )
    return random.choice(others)


def edit_array(array: np.ndarray[Any, Any], random: Random) -> np.ndarray[Any, Any]:
    """Return an array with another value, type or shape."""
    kind = random.randrange(9)
    if kind < 4 and array.size:
        array = array.copy()
        limits = np.iinfo(array.dtype) if array.dtype.kind in "iu" else None
        if limits is not None:
            values: tuple[Any, ...] = (limits.min, limits.max, -1 % (limits.max + 1), 0, array.size)
        else:
            values = (np.nan, np.inf, -np.inf, 1e38, -1.0, 0)
        with np.errstate(over="ignore"):
            value = np.array(random.choice(values)).astype(array.dtype)
        array.reshape(-1)[random.randrange(array.size)] = value
        return array
    if kind == 4:
        types = ("<f8", "<f2", "<i8", "<u8", "|i1", "|b1", "<c8", "|S4", "<U2", "<M8[s]", ">i4")
        with np.errstate(all="ignore"):
            return np.zeros(array.shape, random.choice(types))
    if kind == 5:
        return array[: random.randrange(len(array) + 1)] if array.ndim else array[None]
    if kind == 6:
        return array[..., None]
    if kind == 7:
        return array.reshape(-1)
    return np.concatenate([array, array]) if array.ndim else np.full((), -1).astype(array.dtype)
