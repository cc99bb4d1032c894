"""What is said of a graph folder whose content contradicts itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from crossgcn.data.features import csr_tensor
from crossgcn.errors import BadInput

__all__ = ["changed_file", "check_feature_rows", "checked_csr"]


def changed_file(folder: Path, name: str, what: str) -> BadInput:
    """An error to raise.

    Args:
        folder: The graph folder.
        name: Of the array in which it was noticed.
        what: What it says that cannot be.
    """
    return BadInput(
        f"{folder / f'{name}.npy'}: {what}, so a file was changed after it was written: look with "
        f"crossgcn data show {folder} --verify, and make the folder again with crossgcn data import"
    )


def check_feature_rows(
    folder: Path, starts: NDArray[np.integer], ends: NDArray[np.integer], num_values: int
) -> None:
    """Refuse rows of sparse features that lead out of the values there are."""
    wrong = (starts < 0) | (ends < starts) | (ends > num_values)
    if wrong.any():
        at = int(wrong.argmax())
        what = f"a row is from {int(starts[at])} to {int(ends[at])} of {num_values:,} values"
        raise changed_file(folder, "feature_offsets", what)


def checked_csr(
    folder: Path,
    indptr: NDArray[np.integer],
    columns: NDArray[np.integer],
    values: NDArray[np.float32],
    shape: tuple[int, int],
) -> Tensor:
    """See :func:`~crossgcn.data.features.csr_tensor`; columns that make no matrix are refused."""
    try:
        return csr_tensor(indptr, columns, values, shape)
    except RuntimeError as error:
        if "not satisfied" not in str(error):  # torch's word for what is wrong with the columns
            raise
        what = f"rows of {shape[1]:,} features name others, or some twice or out of order"
        raise changed_file(folder, "feature_columns", what) from None
