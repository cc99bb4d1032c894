"""Search the settings of an estimator with Optuna; the test nodes are read once, at the end.

python examples/search_settings.py [--trials 6]  # needs "pip install optuna"
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import optuna
from scipy.sparse import csr_array

from crossgcn import CrossGCNClassifier, load_dataset, make_splits


def main() -> None:
    """Maximise the validation accuracy."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=6)
    options = parser.parse_args()
    data = load_dataset("citeseer")
    (split,) = make_splits(data, "random", num_splits=1, train=20, seed=0)
    x = csr_array(data.x.to_dense().numpy())
    y = data.y.numpy()
    graph: dict[str, Any] = {"edge_index": data.edge_index}

    # Rows with the label -1 belong to the graph, and are not trained on.
    known = np.full_like(y, -1)
    known[split.train] = y[split.train]

    def fit(settings: dict[str, Any]) -> CrossGCNClassifier:
        model = CrossGCNClassifier(random_state=0, epochs=40, **settings)
        return model.fit(x, known, **graph)

    def accuracy(model: CrossGCNClassifier, nodes: Any) -> float:
        return float((model.predict(x)[nodes] == y[nodes]).mean())

    def objective(trial: optuna.Trial) -> float:
        settings = {
            "order": trial.suggest_int("order", 1, 3),
            "hidden_channels": trial.suggest_categorical("hidden_channels", [16, 32, 64]),
            "dropout": trial.suggest_float("dropout", 0.0, 0.8),
            "weight_decay": trial.suggest_float("weight_decay", 1e-5, 1e-2, log=True),
        }
        return accuracy(fit(settings), split.validation.numpy())

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(objective, n_trials=options.trials)
    print(f"best of {options.trials} trials: {study.best_params}")
    print(f"validation accuracy {study.best_value:.3f}")
    print(f"test accuracy {accuracy(fit(study.best_params), split.test.numpy()):.3f}")


if __name__ == "__main__":
    main()
