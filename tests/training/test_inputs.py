from __future__ import annotations

import hashlib
import json
import pickle
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from crossgcn.data.splits import make_splits
from crossgcn.errors import BadInput
from crossgcn.models.deep_walk import DeepWalkSettings, embed_nodes
from crossgcn.training import inputs as inputs_module
from crossgcn.training.checkpoints import load_model
from crossgcn.training.config import RunConfig
from crossgcn.training.inputs import Inputs
from crossgcn.training.pool import train_many
from crossgcn.training.trainer import Run, Trainer

QUICK = DeepWalkSettings(walks_per_node=4, walk_length=8, window=3, dimensions=6)


@pytest.fixture
def learned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The seeds of the embeddings that are learned, as they are."""
    seeds: list[int] = []

    def embed(edge_index: torch.Tensor, num_nodes: int, seed: int, settings: Any) -> torch.Tensor:
        seeds.append(seed)
        return embed_nodes(edge_index, num_nodes, seed, settings)

    inputs_module._embedding.cache_clear()
    monkeypatch.setattr(inputs_module, "embed_nodes", embed)
    return seeds


def sha256(vectors: torch.Tensor) -> str:
    return hashlib.sha256(vectors.numpy().tobytes()).hexdigest()


def trainer_of(data: Data) -> Trainer:
    splits = make_splits(data, "random", num_splits=3, train=5)
    trainer = Trainer(data, splits, save_models=True)
    trainer.inputs = Inputs(data, QUICK)
    return trainer


def runs_in(folder: Path | None, **settings: Any) -> list[Run]:
    tiny = {"dataset": "small", "model": "deep-walk", "epochs": 4, "hidden_channels": 4}
    config = RunConfig.create(**{**tiny, **settings})
    return [
        Run(config, split, folder=folder / f"{config.model}-{split}" if folder else None)
        for split in range(3)
    ]


def test_one_embedding_serves_all_splits_repeats_and_experiments(
    small_graph: Data, learned: list[int]
) -> None:
    train_many(trainer_of(small_graph), [*runs_in(None), *runs_in(None, hidden_channels=5)])
    train_many(trainer_of(small_graph), runs_in(None, repeats=2))
    assert learned == [0]
    train_many(trainer_of(small_graph), runs_in(None, seed=1))
    assert learned == [0, 1]
    small_graph.edge_index = small_graph.edge_index[:, :-20]
    train_many(trainer_of(small_graph), runs_in(None))
    assert learned == [0, 1, 0]


def test_nothing_is_learned_for_models_of_features_or_runs_that_are_finished(
    small_graph: Data, tmp_path: Path, learned: list[int]
) -> None:
    train_many(trainer_of(small_graph), runs_in(tmp_path, model="gcn"))
    assert learned == []
    before = train_many(trainer_of(small_graph), runs_in(tmp_path))
    inputs_module._embedding.cache_clear()
    learned.clear()
    again = train_many(trainer_of(small_graph), runs_in(tmp_path))
    assert again == json.loads(json.dumps(before))
    assert learned == []


def test_processes_are_given_the_embedding_and_none_learns_its_own(
    small_graph: Data, learned: list[int]
) -> None:
    """Other processes get the trainer as a pickle."""
    trainer, runs = trainer_of(small_graph), runs_in(None)
    trainer.prepare(runs)
    inputs_module._embedding.cache_clear()
    (record,) = pickle.loads(pickle.dumps(trainer)).train(runs[:1])
    vectors = embed_nodes(small_graph.edge_index, 90, 0, QUICK)
    assert record["embedding_sha256"] == sha256(vectors)
    assert learned == [0]


def test_a_record_says_what_its_inputs_were(small_graph: Data, tmp_path: Path) -> None:
    record = train_many(trainer_of(small_graph), runs_in(tmp_path, seed=7))[0]
    vectors = embed_nodes(small_graph.edge_index, 90, 7, QUICK)
    assert record["embedding_sha256"] == sha256(vectors)
    assert record["embedding"] == {
        "method": "deep-walk",
        "gensim": version("gensim"),
        "seed": 7,
        "walks_per_node": 4,
        "walk_length": 8,
        "window": 3,
        "dimensions": 6,
        "epochs": QUICK.epochs,
        "negative": QUICK.negative,
    }


def test_a_run_on_other_embeddings_is_another_run(small_graph: Data, tmp_path: Path) -> None:
    train_many(trainer_of(small_graph), runs_in(tmp_path))
    other = trainer_of(small_graph)
    other.inputs = Inputs(small_graph, DeepWalkSettings(walks_per_node=5, dimensions=6))
    with pytest.raises(BadInput, match=r"another walks_per_node \(4, not 5\)"):
        train_many(other, runs_in(tmp_path))


def test_a_saved_model_predicts_from_embeddings(small_graph: Data, tmp_path: Path) -> None:
    trainer = trainer_of(small_graph)
    record = train_many(trainer, runs_in(tmp_path))[0]
    vectors = embed_nodes(small_graph.edge_index, 90, 0, QUICK)
    predicted = load_model(tmp_path / "deep-walk-0")(vectors).argmax(1)
    test = trainer.splits[0].test
    right = int((predicted == small_graph.y)[test].sum())
    assert record["test_accuracy"] == right / len(test)


def test_a_graph_without_edges_has_nothing_to_walk_along() -> None:
    data = Data(x=torch.eye(4), edge_index=torch.empty(2, 0, dtype=torch.long))
    with pytest.raises(BadInput, match="has none"):
        Inputs(data).of(RunConfig(model="deep-walk"))
