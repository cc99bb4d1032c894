"""What tools of scikit-learn and PyTorch get from an estimator and a layer: right or wrong.

Run it in two checkouts to see what a change did::

    python -m research.scripts.measure_traps
"""

from __future__ import annotations

import io
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import sklearn
import torch
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import accuracy_score, get_scorer
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    TunedThresholdClassifierCV,
    cross_val_score,
)
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch_geometric.data import Data

from crossgcn import CrossGCNClassifier, CrossGCNConv
from crossgcn.layers.catalogue import AGGREGATIONS, ORDER_AGGREGATIONS, TRANSFORMS

CASES: dict[str, dict[str, Any]] = {
    **{f"order {order}": {"order": order} for order in (1, 2, 3)},
    **{f"aggr {name}": {"aggr": name} for name in AGGREGATIONS},
    **{f"orders {name}": {"order": 3, "order_weights": name} for name in ORDER_AGGREGATIONS},
    **{f"transform {name}": {"transform": name} for name in TRANSFORMS},
}
EDGES = torch.tensor([[0, 1, 1, 2, 3, 3, 4, 5, 0, 5], [1, 0, 2, 1, 4, 5, 3, 3, 5, 0]])
X, OTHER = torch.randn(2, 7, 5, generator=torch.Generator().manual_seed(0)).unbind()


def measure_scores() -> dict[str, float]:
    """Return scores on two circles of friends, by tools that pass no edges when they predict."""
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    features = rng.normal(size=(200, 4)) + np.outer(2 * y - 1, [0.5, 0, 0, 0])
    edges = rng.integers(100, size=(2, 6000)) * 2 + rng.integers(2, size=6000)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    classifier = CrossGCNClassifier(epochs=60)
    fitted = CrossGCNClassifier(epochs=60).fit(features, y, edges)
    routed: dict[str, Any] = {"edge_index": edges, "node_index": np.arange(200)}
    if "graph" in classifier.get_params():
        whole = Data(x=torch.from_numpy(features), edge_index=torch.from_numpy(edges))
        classifier.set_params(graph=whole)
        routed = {}

    def predicted_by(tool: Any) -> float:
        return float(accuracy_score(y, tool.fit(features, y, **routed).predict(features)))

    search = GridSearchCV(classifier, {"hidden_channels": [8, 32]}, scoring="f1_macro", cv=folds)
    return {
        "cross_val_score, accuracy": cross_val_score(
            classifier, features, y, scoring="accuracy", cv=folds, params=routed
        ).mean(),
        "GridSearchCV, f1_macro": search.fit(features, y, **routed).best_score_,
        "CalibratedClassifierCV": predicted_by(CalibratedClassifierCV(classifier, cv=folds)),
        "TunedThresholdClassifierCV": predicted_by(TunedThresholdClassifierCV(classifier)),
        "scorer that permutation_importance uses": get_scorer("accuracy")(fitted, features, y),
        "accuracy of predict with edges": float(accuracy_score(y, fitted.predict(features, edges))),
    }


def by_onnx(conv: CrossGCNConv) -> tuple[Tensor, Tensor]:
    """Export by tracing and run the file."""
    import onnxruntime

    file, export = io.BytesIO(), torch.onnx.export
    settings: Any = {"dynamo": False, "opset_version": 18, "input_names": ["x", "edges"]}
    export(conv, (X, EDGES), file, **settings)  # type: ignore[arg-type]
    session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    names = {each.name for each in session.get_inputs()}
    given = {"x": OTHER.numpy(), "edges": EDGES.numpy()}
    out = session.run(None, {name: given[name] for name in names})[0]
    return torch.from_numpy(out), conv(OTHER, EDGES)


def by_make_fx(conv: CrossGCNConv) -> tuple[Tensor, Tensor]:
    """Trace to a graph of operators and run it on other features."""
    return make_fx(lambda x: conv(x, EDGES))(X)(OTHER), conv(OTHER, EDGES)


def by_jacobian(conv: CrossGCNConv) -> tuple[Tensor, Tensor]:
    """Vectorise the backward passes."""
    jacobian: Any = torch.autograd.functional.jacobian
    both = [jacobian(lambda x: conv(x, EDGES), X, vectorize=each) for each in (True, False)]
    return both[0], both[1]


def by_double_backward(conv: CrossGCNConv) -> tuple[Tensor, Tensor]:
    """Differentiate twice, and once by differences."""
    conv = conv.double()

    def slope(x: Tensor) -> Tensor:
        return torch.autograd.grad(conv(x, EDGES).square().sum(), x, create_graph=True)[0]

    start = X.double().requires_grad_()
    (found,) = torch.autograd.grad((slope(start) * OTHER).sum(), start)
    ends = [(X.double() + sign * 1e-6 * OTHER).requires_grad_() for sign in (1, -1)]
    return found, (slope(ends[0]) - slope(ends[1])).detach() / 2e-6


def by_sparse_weights(conv: CrossGCNConv) -> tuple[Tensor, Tensor]:
    """Differentiate by edge weights, in a CSR adjacency and as a vector."""
    source, target = EDGES[:, torch.argsort(EDGES[1] * 7 + EDGES[0])]
    offsets = torch.cat([torch.zeros(1), torch.bincount(target, minlength=7).cumsum(0)]).long()
    found: list[Tensor] = []
    mix = torch.linspace(-1, 1, 28).view(7, 4)
    for kind in ("csr", "coo"):
        weight = torch.linspace(0.5, 1.5, len(source)).requires_grad_()
        edges = (torch.sparse_csr_tensor(offsets, source, weight, (7, 7)),)
        out = conv(X, *(edges if kind == "csr" else (torch.stack([source, target]), weight)))
        (slope,) = torch.autograd.grad((out * mix).sum(), weight, allow_unused=True)
        found.append(torch.zeros_like(weight) if slope is None else slope)
    return found[0], found[1]


def count(trial: Callable[[CrossGCNConv], tuple[Tensor, Tensor]]) -> Counter[str]:
    """Count the layers whose numbers are right, wrong, refused by a sentence, or a crash."""
    outcomes: Counter[str] = Counter()
    for settings in CASES.values():
        torch.manual_seed(0)
        conv = CrossGCNConv(5, 4, **settings).eval()
        with torch.no_grad():
            for parameter in conv.parameters():
                parameter.add_(0.3 * torch.randn(parameter.shape))
        try:
            found, wanted = trial(conv)
            same = found.shape == wanted.shape
            same = same and torch.allclose(found, wanted, rtol=1e-3, atol=1e-3)
            outcomes["right" if same else "wrong"] += 1
        except Exception as error:
            outcomes["refused" if isinstance(error, ValueError) else "raised"] += 1
    return outcomes


def main() -> None:
    """Print one line for each trap."""
    warnings.simplefilter("ignore")
    sklearn.set_config(enable_metadata_routing=True)
    for name, score in measure_scores().items():
        print(f"{name:50s} {score:.3f}", flush=True)
    for trial in (by_onnx, by_make_fx, by_jacobian, by_double_backward, by_sparse_weights):
        words = ", ".join(f"{number} {what}" for what, number in count(trial).most_common())
        print(f"{trial.__name__:50s} {words}", flush=True)


if __name__ == "__main__":
    main()
