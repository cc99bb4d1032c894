"""Describe a graph folder in a few lines."""

from __future__ import annotations

from typing import Any

import numpy as np

from crossgcn.data.graph import is_labelled
from crossgcn.data.stored.open import StoredGraph

QUANTILES = (0.0, 0.5, 0.9, 0.99, 1.0)


def summarise_folder(graph: StoredGraph) -> dict[str, Any]:
    """Return counts, file sizes and quantiles of the degrees, without reading the edges."""
    degrees = np.diff(graph.offsets.numpy())
    at = np.quantile(degrees, QUANTILES, method="inverted_cdf").tolist()
    roles = None
    if graph.roles is not None:
        counts = np.bincount(graph.roles[0].numpy(), minlength=4).tolist()
        roles = dict(zip(("none", "train", "validation", "test"), counts, strict=True))
    return {
        "folder": str(graph.folder),
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "self_loops": graph.num_self_loops,
        "directed": graph.directed,
        "weighted": graph.weights is not None,
        "features": graph.num_features,
        "sparse_features": graph.has_sparse_features,
        "classes": graph.num_classes,
        "number": graph.num_classes is not None and graph.labels.is_floating_point(),
        "labelled": None if graph.num_classes is None else int(is_labelled(graph.labels).sum()),
        "roles": roles,
        "num_splits": 0 if graph.roles is None else len(graph.roles),
        "degree_quantiles": {
            f"{share:g}": int(value) for share, value in zip(QUANTILES, at, strict=True)
        },
        "bytes": {name: about.bytes for name, about in graph.files.items()},
        "fingerprint": graph.fingerprint,
    }


def folder_lines(summary: dict[str, Any]) -> list[str]:
    """Return the summary of :func:`summarise_folder`, perhaps with ``next``, for the terminal."""
    kind = ("directed" if summary["directed"] else "undirected") + (
        ", weighted" if summary["weighted"] else ""
    )
    low, middle, most, nearly, high = summary["degree_quantiles"].values()
    total = sum(summary["bytes"].values())
    lines = [
        f"{summary['folder']}: {summary['nodes']:,} nodes, {summary['edges']:,} edges ({kind}), "
        f"{total / 1e6:,.1f} MB",
        f"  neighbours per node: {low:,} to {high:,}, median {middle:,}, 90 % have at most "
        f"{most:,}, 99 % at most {nearly:,}",
    ]
    if summary["features"]:
        form = "sparse" if summary["sparse_features"] else "dense"
        lines.append(f"  features: {summary['features']:,}, {form}")
    if summary["classes"]:
        target = "a number" if summary["number"] else f"{summary['classes']:,} classes"
        lines.append(f"  target: {target}; {summary['labelled']:,} nodes labelled")
    if summary["roles"]:
        train, validation, test = list(summary["roles"].values())[1:]
        splits = f" (the first of {summary['num_splits']})" if summary["num_splits"] > 1 else ""
        lines.append(f"  split{splits}: {train:,} train, {validation:,} validate, {test:,} test")
    if "next" in summary:
        lines.append(f"Next: {summary['next']}")
    return lines
