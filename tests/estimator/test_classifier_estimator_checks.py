from __future__ import annotations

from collections.abc import Callable

from architectures import one_thread  # noqa: F401
from sklearn.utils.estimator_checks import parametrize_with_checks

from crossgcn.estimator.classifier import CrossGCNClassifier


@parametrize_with_checks([CrossGCNClassifier()])  # type: ignore[untyped-decorator]
def test_scikit_learn_takes_it_for_one_of_its_own(
    estimator: CrossGCNClassifier, check: Callable[[CrossGCNClassifier], None]
) -> None:
    check(estimator)
    assert vars(estimator) == vars(CrossGCNClassifier()), "the check left its traces"
