"""Explain models exactly: every score is a sum of named terms.

Most users need only :func:`crossgcn.explain`.
"""

from crossgcn.explanation.difference import Difference
from crossgcn.explanation.node import NodeExplanation
from crossgcn.explanation.polynomial import NotASum
from crossgcn.explanation.products import Products
from crossgcn.explanation.terms import Explanation, Term

__all__ = ["Difference", "Explanation", "NodeExplanation", "NotASum", "Products", "Term"]
