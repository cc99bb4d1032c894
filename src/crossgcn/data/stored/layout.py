"""What a graph folder holds, and the page that says so.

=========================  =====================  ==========================================
file                       kind                   meaning
=========================  =====================  ==========================================
``graph.json``                                    counts, sizes and hashes; written last
``offsets.npy``            int64 [N + 1]          where the neighbours of each node start
``neighbours.npy``         int32 or int64         those that sum into it, rising, each once
``weights.npy``            float32, optional      of each entry of ``neighbours``
``labels.npy``             int64 [N], optional    class of each node, -1 for unlabelled
``roles.npy``              int8 [S, N], optional  a row a split: 0 none, 1 train,
                                                  2 validation, 3 test
``features.npy``           float32 [N, D]         dense features, or instead of it
``feature_offsets.npy``    int64 [N + 1]          ... where rows of a sparse matrix start
``feature_columns.npy``    int32 or int64         ... column of each value, rising in a row
``feature_values.npy``     float32                ... the values
``id_offsets.npy``         int64 [N + 1]          where each node's own name starts, optional
``id_text.npy``            uint8                  ... the names in UTF-8, one after another
``preprocess.json``        optional               names of classes and features, and how a table
                                                  of nodes is encoded
=========================  =====================  ==========================================

An undirected edge between two nodes is an entry of both. Numbers have their low byte first.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crossgcn.data.sealed_json import digest_of_json, is_sealed, read_json_object
from crossgcn.errors import BadInput

__all__ = [
    "FORMAT",
    "PAGE",
    "PREPROCESS",
    "VERSION",
    "fingerprint_of",
    "is_graph_folder",
    "read_page",
]

PAGE, PREPROCESS = "graph.json", "preprocess.json"
FORMAT, VERSION = "crossgcn-graph", 1
REMEDY = "make it again with crossgcn data import"


def is_graph_folder(path: Path | str) -> bool:
    """Whether a path is a folder with a graph in it, or what is left of one."""
    folder = Path(path)
    return folder.is_dir() and any((folder / name).exists() for name in (PAGE, "offsets.npy"))


def fingerprint_of(files: dict[str, Any]) -> str:
    """A hash of everything the folder holds: equal graphs have equal ones."""
    return digest_of_json(files)


def read_page(folder: Path) -> dict[str, Any]:
    """The page of a folder, checked against its seal and the sizes of the files.

    Raises:
        BadInput: It is no graph, was not finished, is of another version, or was changed
            or cut short; naming the file.
    """
    path = folder / PAGE
    if not folder.is_dir():
        raise BadInput(f"{folder} is no folder; give one made by crossgcn data import")
    if not path.exists():
        raise BadInput(
            f"{folder}: there is no {PAGE}, so it is no graph, or one that was never finished; "
            f"{REMEDY}"
        )
    page = read_json_object(path, "give a folder you may read", REMEDY)
    if page.get("format") != FORMAT:
        raise BadInput(f"{path}: is not the page of a graph; {REMEDY}")
    if page.get("version") != VERSION:
        raise BadInput(
            f"{path}: has version {page.get('version')!r} where this crossgcn reads {VERSION}; "
            f"{REMEDY}, or use the crossgcn that wrote it"
        )
    if not is_sealed(page):
        raise BadInput(f"{path}: was changed after it was written; {REMEDY}")
    for name, about in page["files"].items():
        _check_size(folder / name, about["bytes"])
    return page


def _check_size(path: Path, expected: int) -> None:
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise BadInput(f"{path}: is missing; {REMEDY}") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); {REMEDY}") from None
    if size != expected:
        raise BadInput(
            f"{path}: has {size:,} bytes where {PAGE} says {expected:,}, so it was cut short or "
            f"replaced; {REMEDY}"
        )
