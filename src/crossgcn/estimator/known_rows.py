"""Training labels that a fitted estimator shows to neighbours, where it knows rows again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from crossgcn.graph.hops import NeighbourLabels
from crossgcn.models.cross_hops import CrossHops


@dataclass(frozen=True, eq=False)
class KnownRows:
    """The rows of a fit, by number and content, and the labels that their neighbours see.

    A row is known again if it has the node and the features of a row of the fit. Rows that come
    without node numbers are known if all of them are the rows of the fit, in the same order.

    Attributes:
        nodes: The node that each row is, ``[rows]``.
        digests: A hash of the features of each row, ``[rows]``.
        labels: The labels of the training rows.
    """

    nodes: NDArray[np.int64]
    digests: NDArray[np.uint64]
    labels: NeighbourLabels

    @classmethod
    def of_fit(cls, X: Any, node_index: Any, labels: NeighbourLabels) -> Self:
        """Keep the rows of a fit."""
        nodes = np.arange(X.shape[0]) if node_index is None else np.asarray(node_index)
        prior = labels.values[labels.known].double().mean(dim=0)
        return cls(nodes.astype(np.int64), digest_rows(X), labels._replace(prior=prior))

    @classmethod
    def none_of(cls, model: CrossHops) -> Self:
        """Know no row, for a model without its training labels.

        In place of the mean label, the mean over nodes of their neighbours' labels is shown.
        """
        plan = model.plan
        first = plan.num_columns - plan.label_hops * (plan.num_labels + 1) * (1 + plan.directed)
        labels = NeighbourLabels(
            torch.empty(0, plan.num_labels),
            torch.empty(0, dtype=torch.bool),
            model.center[first : first + plan.num_labels].double(),
        )
        return cls(np.empty(0, np.int64), np.empty(0, np.uint64), labels)

    def show(self, X: Any, node_index: Any) -> NeighbourLabels:
        """Return the labels of the rows that are known again."""
        digests = digest_rows(X)
        if node_index is None:
            same = np.array_equal(digests, self.digests)
            places = np.arange(len(digests)) if same else np.full(len(digests), -1)
        else:
            places = pd.Index(self.nodes).get_indexer(pd.Index(np.asarray(node_index)))
            found = np.flatnonzero(places >= 0)
            places[found[self.digests[places[found]] != digests[found]]] = -1
        values = torch.zeros(len(places), self.labels.values.size(1))
        known = torch.zeros(len(places), dtype=torch.bool)
        is_known = torch.from_numpy(places >= 0)
        own = torch.from_numpy(places[places >= 0]).long()
        values[is_known], known[is_known] = self.labels.values[own], self.labels.known[own]
        return NeighbourLabels(values, known, self.labels.prior)

    def to_json(self) -> dict[str, Any]:
        """Return the content for ``preprocess.json``."""
        assert self.labels.prior is not None
        return {
            "nodes": self.nodes.tolist(),
            "digests": self.digests.tolist(),
            "labels": self.labels.values.tolist(),
            "known": self.labels.known.tolist(),
            "prior": self.labels.prior.tolist(),
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """Read what :meth:`to_json` returned."""
        prior = torch.tensor(content["prior"], dtype=torch.float64)
        labels = NeighbourLabels(
            torch.tensor(content["labels"], dtype=torch.float32).view(-1, prior.numel()),
            torch.tensor(content["known"], dtype=torch.bool),
            prior,
        )
        nodes = np.array(content["nodes"], np.int64)
        digests = np.array(content["digests"], np.uint64)
        if not len(nodes) == len(digests) == len(labels.values) == len(labels.known):
            raise ValueError("its parts differ in length")
        return cls(nodes, digests, labels)


def digest_rows(X: Any) -> NDArray[np.uint64]:
    """Return a hash of each row, the same for dense and sparse features."""
    rows = sp.csr_array(X, dtype=np.float32, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    columns = rows.indices.astype(np.int64)
    digests = [
        hashlib.blake2b(columns[a:b].tobytes() + rows.data[a:b].tobytes(), digest_size=8).digest()
        for a, b in zip(rows.indptr, rows.indptr[1:], strict=False)
    ]
    return np.frombuffer(b"".join(digests), np.dtype("<u8"))
