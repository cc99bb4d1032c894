"""Seal files with hashes when they are written, and verify them when they are read.

A seal shows damage: flipped bits, files cut short, files of two runs in one folder. It does not
show who wrote a file, because whoever changes a file can compute its hash again.

JSON objects carry their own SHA-256. Folders list the SHA-256 of their files. Large files also have
a CRC-32 per block, which is several times as fast: each block is verified when it is first read.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossgcn.data.files import read_bytes, read_json_object
from crossgcn.errors import BadInput

BLOCK = 1 << 18
"""Bytes with one CRC-32."""


def add_checksum(content: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON object with its own SHA-256 added as ``sha256``."""
    return content | {"sha256": digest_of_json(content)}


def checksum_matches(content: dict[str, Any]) -> bool:
    """Return whether an object from :func:`add_checksum` is unchanged."""
    rest = {key: value for key, value in content.items() if key != "sha256"}
    return content.get("sha256") == digest_of_json(rest)


def digest_of_json(content: dict[str, Any]) -> str:
    """Return the SHA-256 of an object, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def digest_of_file(path: Path) -> str | None:
    """Return the SHA-256 of a file, or ``None`` if it cannot be read."""
    try:
        return hashlib.sha256(read_bytes(path)).hexdigest()
    except OSError:
        return None


def digests_of_files(folder: Path, names: Iterable[str]) -> dict[str, str | None]:
    """Return the SHA-256 of some files of a folder, by name."""
    return {name: digest_of_file(folder / name) for name in names}


def changed_files(folder: Path, digests: Mapping[str, str | None]) -> list[Path]:
    """Return the files that differ from :func:`digests_of_files`, or are missing."""
    return [
        folder / name
        for name, digest in digests.items()
        if digest is None or digest_of_file(folder / name) != digest
    ]


def read_sealed_json(path: Path, if_missing: str, if_damaged: str) -> dict[str, Any]:
    """Read an object from :func:`add_checksum`; the last two are remedies for errors."""
    content = read_json_object(path, if_missing, if_damaged)
    if not checksum_matches(content):
        raise not_as_written(path, if_damaged)
    return content


def not_as_written(path: Path, remedy: str) -> BadInput:
    """Return the error for a file that differs from its hash."""
    return BadInput(
        f"{path}: is not what was written there (its SHA-256 is another one): it was changed or "
        f"cut short; {remedy}"
    )


class BlockChecksums:
    """Compute the CRC-32 of each block of a stream of bytes."""

    def __init__(self) -> None:
        self._blocks: list[int] = []
        self._room = 0

    def update(self, content: Any) -> None:
        """Add the next bytes."""
        left = memoryview(content).cast("B")
        while len(left):
            if self._room == 0:
                self._blocks.append(0)
                self._room = BLOCK
            part, left = left[: self._room], left[self._room :]
            self._blocks[-1] = zlib.crc32(part, self._blocks[-1])
            self._room -= len(part)

    def finish(self, first: Any = None) -> str:
        """Return the checksums in hexadecimal; ``first`` replaces the content of one block."""
        if first is not None:
            self._blocks[0] = zlib.crc32(first)
        return "".join(f"{checksum:08x}" for checksum in self._blocks)


class SealedFile:
    """A file mapped into memory, whose blocks are verified when they are first used.

    Args:
        size: Its bytes.
        sha256: Of the whole file.
        blocks: From :meth:`BlockChecksums.finish`.
        remedy: What to do about a changed file.
    """

    def __init__(self, path: Path, size: int, sha256: str, blocks: str, remedy: str) -> None:
        self.path, self._sha256, self._remedy = path, sha256, remedy
        self._blocks = np.frombuffer(bytes.fromhex(blocks), ">u4")
        self.num_blocks = -(-size // BLOCK)
        if len(self._blocks) != self.num_blocks:
            raise BadInput(f"{path}: has {len(self._blocks)} checksums of its blocks; {remedy}")
        mapped: Any = b""
        try:
            found = path.stat().st_size
            if found == size > 0:  # Opening a pipe, whose size is 0, would block.
                with path.open("rb") as file:
                    mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        except FileNotFoundError:
            raise BadInput(f"{path}: is missing; {remedy}") from None
        except (OSError, ValueError) as error:
            raise BadInput(f"{path}: cannot be opened ({error}); {remedy}") from None
        if found != size:
            raise BadInput(
                f"{path}: has {found:,} bytes where {size:,} were written, so it was cut "
                f"short or replaced; {remedy}"
            )
        self.content = memoryview(mapped)
        self._is_checked = np.zeros(self.num_blocks, bool)
        self._num_left = self.num_blocks

    def verify(self) -> None:
        """Verify the SHA-256 of the whole file."""
        self.check()
        if hashlib.sha256(self.content).hexdigest() != self._sha256:
            raise self._changed("")

    def check(self) -> None:
        """Verify every block that was not verified yet."""
        self._check_blocks(np.ones(self.num_blocks, bool))

    def check_ranges(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        """Verify the blocks that hold these ranges of bytes; empty ranges count as none."""
        if self._num_left == 0:
            return
        filled = ends > starts
        first, last = starts[filled] // BLOCK, (ends[filled] - 1) // BLOCK
        if len(first) and first.min() >= 0 and last.max() < self.num_blocks:
            # One more range starts at its first block, and one fewer is open after its last.
            open_ranges = np.bincount(first, minlength=self.num_blocks + 1)
            open_ranges -= np.bincount(last + 1, minlength=self.num_blocks + 1)
            self._check_blocks(open_ranges.cumsum()[:-1] > 0)

    def _check_blocks(self, used: NDArray[np.bool_]) -> None:
        for block in np.flatnonzero(used & ~self._is_checked).tolist():
            content = self.content[block * BLOCK : (block + 1) * BLOCK]
            if zlib.crc32(content) != self._blocks[block]:
                raise self._changed(f", at byte {block * BLOCK:,} or up to {BLOCK:,} after it")
            self._is_checked[block] = True
        self._num_left = self.num_blocks - int(np.count_nonzero(self._is_checked))

    def _changed(self, where: str) -> BadInput:
        return BadInput(
            f"{self.path}: was changed after it was written (its checksum is another one{where}); "
            f"{self._remedy}"
        )
