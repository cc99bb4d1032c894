"""Whether crosses come back when the training set is another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from crossgcn.errors import BadInput

__all__ = ["cross_stability"]


def cross_stability(
    crosses: pd.DataFrame, others: Sequence[pd.DataFrame], *, top: int = 20
) -> pd.Series[float]:
    """In what share of models a cross is among the strongest of its class, with the same sign.

    Args:
        crosses: What :func:`~crossgcn.explanation.strongest_crosses` says of one model.
        others: What it says of the models to look in, one per split, the first itself if it
            is to count.
        top: How many of each class's strongest crosses to look among.

    Returns:
        A fraction for each row of ``crosses``.
    """
    if not others:
        raise BadInput("stability needs the crosses of at least one other model; none were given")
    seen = [_signs(frame, top) for frame in others]
    wanted = zip(crosses["class"], crosses["features"], np.sign(crosses["strength"]), strict=True)
    shares = [
        sum(signs.get((label, features)) == sign for signs in seen) / len(seen)
        for label, features, sign in wanted
    ]
    return pd.Series(shares, index=crosses.index, name="stability", dtype=float)


def _signs(frame: pd.DataFrame, top: int) -> dict[tuple[object, tuple[int, ...]], float]:
    strongest = frame.groupby("class", sort=False).head(top)
    return {
        (label, features): float(sign)
        for label, features, sign in zip(
            strongest["class"],
            strongest["features"],
            np.sign(strongest["strength"]),
            strict=True,
        )
    }
