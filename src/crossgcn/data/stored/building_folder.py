"""A folder that appears complete or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from crossgcn.errors import BadInput, WorkFailed

__all__ = ["building_folder", "check_free_space"]


@contextmanager
def building_folder(out: Path) -> Iterator[tuple[Path, Path]]:
    """Work in a hidden neighbour of ``out`` that takes its place on success.

    The neighbour has a fixed name and is locked while it is worked in. One that nobody
    holds was left behind by a process that was killed: it is cleared and used again.

    Args:
        out: The folder to make; it must be new or empty.

    Yields:
        The folder to fill, and one for files that are needed only meanwhile.

    Raises:
        BadInput: ``out`` is in use, or cannot be made.
        WorkFailed: The disk is full, or something else keeps files from being written.
    """
    if out.name in ("", ".."):
        raise BadInput(f"{out} is no name for a folder; give one that can be made")
    check_target(out)
    shelter = out.with_name(f".{out.name}.building")
    try:
        shelter.mkdir(parents=True, exist_ok=True)
        lock = FileLock(shelter / "lock")
        lock.acquire(blocking=False)
    except Timeout:
        raise BadInput(
            f"{out} is being written by another process, in {shelter}; wait for it, or give "
            "another folder"
        ) from None
    except OSError as error:
        raise BadInput(f"{out}: cannot be made ({error.strerror}); give another folder") from None
    folder, scratch = shelter / "graph", shelter / "scratch"
    try:
        try:
            check_target(out)  # Another process may have finished it meanwhile.
            for left_over in (folder, scratch):
                shutil.rmtree(left_over, ignore_errors=True)
                left_over.mkdir()
            yield folder, scratch
            _sync_folder(folder)
            check_target(out)
            if out.exists():
                out.rmdir()
            folder.replace(out)
            _sync_folder(out.parent)
        except OSError as error:
            raise WorkFailed(
                f"{out} could not be written ({error.strerror or error}); nothing of it is kept: "
                "free some space on that disk, or give a folder elsewhere"
            ) from error
    finally:
        for left_over in (folder, scratch):
            shutil.rmtree(left_over, ignore_errors=True)
        # Before the lock is given up, so that nobody else's folder is removed.
        with suppress(OSError):
            (shelter / "lock").unlink()
            shelter.rmdir()
        lock.release()


def check_target(out: Path) -> None:
    """Refuse a folder that is in use.

    Args:
        out: Where something is to be written.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadInput(f"{out} is there and not empty: give a folder that is new or empty")


def check_free_space(out: Path, needed: int) -> None:
    """Refuse work that cannot be finished, before it is begun.

    Args:
        out: Where to; it need not exist yet.
        needed: Bytes, about.

    Raises:
        WorkFailed: With what is needed and what is free.
    """
    above = next(folder for folder in (out, *out.absolute().parents) if folder.exists())
    free = shutil.disk_usage(above).free
    if needed > free:
        raise WorkFailed(
            f"{out} needs about {needed / 1e9:.2f} GB of disk space, {free / 1e9:.2f} GB are free "
            f"in {above}: free some, or give a folder on another disk"
        )


def _sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
