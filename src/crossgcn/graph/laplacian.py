"""How unlike the two ends of every edge are, as one sparse product."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from crossgcn.graph.sparse_matrix import SparseMatrix

__all__ = ["mean_laplacian"]


def mean_laplacian(adjacency: SparseMatrix) -> SparseMatrix:
    r"""The graph's Laplacian over its number of edges, :math:`(\mathbf{D}-\mathbf{A})/|E|`.

    Its quadratic form is a mean over the edges:

    .. math:: \mathrm{tr}(\mathbf{P}^{\top}\mathbf{L}\mathbf{P})
        = \frac{1}{|E|}\sum_{\{i,j\}\in E}\|\mathbf{p}_i-\mathbf{p}_j\|^2

    An edge counts once, whatever its weight and in whichever direction it is
    stored; self-loops do not count. Without edges all entries are zero.

    Args:
        adjacency: Any matrix with an entry for every edge, such as
            :func:`~crossgcn.graph.normalised_adjacency`.
    """
    rows, columns = adjacency.to_scipy().nonzero()
    between = rows != columns
    pattern = sp.coo_array(
        (np.ones(int(between.sum())), (rows[between], columns[between])), shape=adjacency.shape
    ).tocsr()
    connected = pattern.maximum(pattern.T)
    num_edges = max(connected.nnz // 2, 1)
    laplacian = sp.diags_array(connected.sum(axis=1)) - connected
    return SparseMatrix.from_scipy(laplacian / num_edges)
