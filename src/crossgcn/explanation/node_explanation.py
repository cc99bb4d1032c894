"""What one class score of one node is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crossgcn.data.feature_space import FeatureSpace
from crossgcn.errors import BadInput
from crossgcn.explanation.layer_reading import Floats
from crossgcn.explanation.names import name_cross, object_column
from crossgcn.explanation.paths import Paths
from crossgcn.explanation.reading import Reading
from crossgcn.explanation.row_terms import MAX_ROWS, Expansion, RowTerms, expand_rows
from crossgcn.explanation.term_codes import TermCodes

if TYPE_CHECKING:
    from torch_geometric.explain import Explanation

__all__ = ["LEFT_OUT", "NodeExplanation", "completeness"]

LEFT_OUT: Final = "crosses of hidden units"


@dataclass(frozen=True)
class NodeExplanation:
    """A class score as a sum: bias, features, named crosses, and what has no name.

    ``bias + frame.contribution.sum() + left_out`` is ``logits[target]``.

    Attributes:
        node: The node explained.
        target: The class whose score it is.
        logits: The scores of all classes.
        reading: The model on its graph.
        paths: How the score hangs on the first layer.
        expansion: The first layer, which is multiplied out as far as it is asked for.
        space: Names of the features.
    """

    node: int
    target: int
    logits: Floats
    reading: Reading
    paths: Paths
    expansion: Expansion
    space: FeatureSpace

    @property
    def bias(self) -> float:
        """What the layers' biases add to the score."""
        return self.paths.bias

    @property
    def left_out(self) -> float:
        """What crosses of hidden units add; 0 where only the first layer crosses."""
        return self.paths.left_out

    @property
    def completeness(self) -> float:
        """How much of the score has a name; see :func:`completeness`."""
        return completeness(float(self.logits[self.target]), self.left_out)

    @cached_property
    def terms(self) -> RowTerms:
        """Every node's every term, by number; a product that folds may come more than once."""
        return self.expansion.list_terms()

    @cached_property
    def frame(self) -> pd.DataFrame:
        """Every term, the largest first.

        Columns: ``source``, the node whose features are multiplied (with
        ``aggregate_first``, whose neighbourhood's); ``hops`` from the node explained;
        ``order``, ``features`` and ``cross``, its name; ``value`` of the product; ``weight``
        with which it counts; ``contribution``, the product of both. It is made when first asked
        for; ``by_cross`` and ``by_node`` need much less where there are many nodes.
        """
        return self._tabulate(self.paths, self.terms, self.expansion.codes)

    def frame_of(self, sources: Sequence[int]) -> pd.DataFrame:
        """The rows of ``frame`` that come from some nodes, without making the others.

        Args:
            sources: Which nodes.
        """
        chosen = np.flatnonzero(np.isin(self.paths.nodes, np.asarray(sources, np.int64)))
        paths = replace(
            self.paths,
            nodes=self.paths.nodes[chosen],
            hops=self.paths.hops[chosen],
            coefficients=self.paths.coefficients[chosen],
        )
        expansion = expand_rows(self.reading, paths.nodes, paths.coefficients)
        return self._tabulate(paths, expansion.list_terms(), expansion.codes)

    def _tabulate(self, paths: Paths, terms: RowTerms, numbering: TermCodes) -> pd.DataFrame:
        codes, inverse = np.unique(terms.code, return_inverse=True)
        features, names = self._names(numbering, codes)
        frame = pd.DataFrame(
            {
                "source": paths.nodes[terms.row],
                "hops": paths.hops[terms.row],
                "order": np.array([len(each) for each in features], np.int64)[inverse],
                "term": inverse,
                "value": terms.value,
                "contribution": terms.contribution,
            }
        )
        keys = ["source", "hops", "order", "term"]
        frame = frame.groupby(keys, sort=True, as_index=False).agg(
            value=("value", "first"), contribution=("contribution", "sum")
        )
        frame["weight"] = frame["contribution"] / frame["value"]
        position = frame.pop("term").to_numpy()
        frame["features"] = object_column(features)[position]
        frame["cross"] = object_column(names)[position]
        columns = ["source", "hops", "order", "features", "cross", "value", "weight"]
        return _largest_first(frame[[*columns, "contribution"]])

    @cached_property
    def by_cross(self) -> pd.DataFrame:
        """Each feature and cross once, its contributions added up over the nodes they come from."""
        codes, sums = self.expansion.sum_by_code()
        if codes.size > MAX_ROWS:
            raise BadInput(
                f"the score is made of {codes.size:,} different terms, too many for one table (at "
                f"most {MAX_ROWS:,}); ask for the largest with NodeExplainer.top_crosses"
            )
        features, names = self._names(self.expansion.codes, codes)
        return _largest_first(
            pd.DataFrame(
                {
                    "order": np.array([len(each) for each in features], np.int64),
                    "features": object_column(features),
                    "cross": object_column(names),
                    "contribution": sums,
                }
            )
        )

    @cached_property
    def by_feature(self) -> pd.DataFrame:
        """Each feature once; a cross counts in equal parts for the features it multiplies."""
        rows = [
            (feature, contribution / len(members))
            for features, contribution in zip(
                self.by_cross["features"], self.by_cross["contribution"], strict=True
            )
            for members in (set(features),)
            for feature in members
        ]
        frame = pd.DataFrame(rows, columns=["feature", "contribution"])
        frame = frame.groupby("feature", as_index=False).agg(contribution=("contribution", "sum"))
        frame.insert(
            1, "name", object_column([self.space.names[each] for each in frame["feature"]])
        )
        return _largest_first(frame)

    @cached_property
    def by_node(self) -> pd.DataFrame:
        """Each node that contributes once, with all its terms added up."""
        sums = self.expansion.sum_by_row()
        return _largest_first(
            pd.DataFrame(
                {"source": self.paths.nodes, "hops": self.paths.hops, "contribution": sums}
            )
        )

    def to_pyg(self) -> Explanation:
        """As PyG's ``Explanation``: a mask of features of nodes, and one of edges.

        See :func:`crossgcn.explanation.pyg.explanation_of`.
        """
        from crossgcn.explanation.pyg import explanation_of

        return explanation_of(self)

    def _names(
        self, numbering: TermCodes, codes: NDArray[np.int64]
    ) -> tuple[list[tuple[int, ...]], list[str]]:
        features = numbering.decode(codes)
        return features, [name_cross(self.space, each) for each in features]


def completeness(logit: float, left_out: float) -> float:
    """The share of a score that has a name: 1 where nothing is left out.

    Both parts are taken as wholes, ``|named| / (|named| + |left out|)``. Adding up the
    sizes of single terms instead would flatter: thousands of them cancel each other.

    Args:
        logit: The score.
        left_out: The part of it that crosses of hidden units make up.
    """
    named = abs(logit - left_out)
    return 1.0 if left_out == 0 else named / (named + abs(left_out))


def _largest_first(frame: pd.DataFrame) -> pd.DataFrame:
    order = np.argsort(-frame["contribution"].abs().to_numpy(), kind="stable")
    return frame.iloc[order].reset_index(drop=True)
