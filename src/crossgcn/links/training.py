"""Train a link predictor, select an epoch, and only then score the test pairs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits
from torch_geometric.data import Data

from crossgcn.data.files import replacing
from crossgcn.errors import WorkFailed
from crossgcn.graph import EdgeKind, SparseMatrix, edges_of_kind
from crossgcn.graph.prepared import choose_device
from crossgcn.layers import FeatureDropout
from crossgcn.links.edge_splits import EdgeSplit, deal_folds, message_edges, training_negatives
from crossgcn.links.predictor import (
    LinkPredictor,
    Scores,
    area_under_curve,
    link_metrics,
)
from crossgcn.links.settings import LinkSettings
from crossgcn.models.node_classifier import calibrate
from crossgcn.training.adam import Adam
from crossgcn.training.config import RunConfig
from crossgcn.training.device import enough_memory, multiplying_in
from crossgcn.training.objective import order_weight_penalty
from crossgcn.training.records import (
    EPOCHS,
    clear_run,
    describe_dataset,
    describe_environment,
    digest,
    write_record,
)
from crossgcn.training.trainer import Record, Run


@dataclass(frozen=True)
class LinkStep:
    """What one step of training is given.

    Attributes:
        edges: The message graph, once for each of the encoder's propagations.
        pairs: To be told apart, ``[2, pairs]``: edges first, then as many that are none.
        labels: 1 for edges and 0 for the others, ``[pairs]``.
    """

    edges: tuple[SparseMatrix, ...]
    pairs: Tensor
    labels: Tensor


class LinkSteps:
    """The steps of one training on one split, and the message graph for scoring afterwards.

    An edge that carries a message gives itself away, so none may do so in a step that is to predict
    it. The training edges are dealt out to folds, once; the folds take turns at being
    predicted, and all edges of the others are the message graph of that step. Negatives are
    drawn anew in each step (see :func:`~crossgcn.links.edge_splits.training_negatives`). Both are
    decided by the seed alone, so models with the same seed are given the same.

    Args:
        data: The graph.
        split: Of its edges.
        propagations: The encoder's.
        folds: How many.
        seed: Deals out the folds and draws the negatives.
        device: Where the predictor is.

    Attributes:
        all_edges: The message graph of all training edges, by which held-out pairs are scored.
    """

    def __init__(
        self,
        data: Data,
        split: EdgeSplit,
        propagations: Sequence[EdgeKind],
        *,
        folds: int,
        seed: int,
        device: torch.device | str = "cpu",
    ) -> None:
        self._seed, self._device = seed, torch.device(device)
        self._negatives = training_negatives(split, data.num_nodes)
        self._folds = deal_folds(split.train, folds, np.random.default_rng([seed, 0, 1]))

        def prepare(pairs: Sequence[Tensor]) -> tuple[SparseMatrix, ...]:
            edge_index, edge_weight = message_edges(data, torch.cat(list(pairs), dim=1))
            matrices = {
                kind: edges_of_kind(kind, edge_index, data.num_nodes, edge_weight).to(self._device)
                for kind in set(propagations)
            }
            return tuple(matrices[kind] for kind in propagations)

        self._messages = [
            prepare([other for other in self._folds if other is not fold]) for fold in self._folds
        ]
        self.all_edges = prepare(self._folds)

    def step(self, epoch: int) -> LinkStep:
        """What an epoch, counted from 1, is given."""
        turn = (epoch - 1) % len(self._folds)
        positives = self._folds[turn]
        generator = np.random.default_rng([self._seed, epoch, 1])
        negatives = self._negatives.draw(positives.size(1), generator)
        labels = torch.arange(2 * positives.size(1)) < positives.size(1)
        return LinkStep(
            self._messages[turn],
            torch.cat([positives, negatives], dim=1).to(self._device),
            labels.float().to(self._device),
        )


@dataclass(frozen=True)
class LinkEpoch:
    """What is known after one epoch; the loss is that of its own step, with dropout."""

    epoch: int
    train_loss: float
    validation_auc: float


@dataclass(frozen=True)
class TrainedLinks:
    """The outcome of a training.

    Attributes:
        state: Weights of the selected epoch; the predictor holds them too.
        best_epoch: The selected epoch, counted from 1.
        validation_auc: At that epoch.
        test: Every metric of :func:`~crossgcn.links.predictor.link_metrics` on the test
            pairs with those weights, computed once.
        history: Of all epochs.
    """

    state: dict[str, Tensor]
    best_epoch: int
    validation_auc: float
    test: dict[str, float]
    history: tuple[LinkEpoch, ...]


def train_links(
    predictor: LinkPredictor,
    x: Tensor | SparseMatrix,
    steps: LinkSteps,
    split: EdgeSplit,
    *,
    seed: int,
    hits_at: Sequence[int],
    epochs: int = 200,
    learning_rate: float = 0.01,
    weight_decay: float = 0.0,
    precision: str = "fp32",
    on_epoch: Callable[[LinkEpoch], None] | None = None,
) -> TrainedLinks:
    """Minimise the cross-entropy of edges against drawn pairs; keep the best validation epoch.

    The selected epoch is the first with the strictly best area under the curve on the
    validation pairs. Those and the test pairs are scored with all training edges as
    message graph, and with no other edge; an encoder with ``scaling="unit"`` is calibrated on
    that graph beforehand.

    Args:
        predictor: Trained in place, where it is; holds the selected weights afterwards.
        x: Features of all nodes, on the same device.
        steps: What each step is given.
        split: The pairs that select and test.
        seed: Decides what is dropped.
        hits_at: The ranks of Hits@K.
        epochs: Steps of the optimiser.
        learning_rate: Adam's.
        weight_decay: λ, on every matrix and on learned order weights, as for classifiers.
        precision: ``fp32``; on a GPU also ``tf32`` and ``bf16``.
        on_epoch: Called with what is known after each epoch; may raise to stop.

    Raises:
        WorkFailed: At the first loss or score that is not finite.
    """
    device = next(predictor.parameters()).device
    count = torch.zeros((), dtype=torch.long, device=device)
    seeds = torch.tensor([seed], device=device)
    for module in predictor.modules():
        if isinstance(module, FeatureDropout):
            module.follow(seeds, count)
    if not predictor.encoder.is_calibrated:
        calibrate(predictor.encoder, x, steps.all_edges)
    trained = [weight for weight in predictor.parameters() if weight.requires_grad]
    optimizer = Adam(
        (weight for weight in trained if weight.dim() >= 2),
        (weight for weight in trained if weight.dim() < 2),
        learning_rate=learning_rate,
        weight_decay=weight_decay,
    )
    history: list[LinkEpoch] = []
    best: LinkEpoch | None = None
    best_state: dict[str, Tensor] = {}
    for epoch in range(1, epochs + 1):
        count += 1
        step = steps.step(epoch)
        predictor.train()
        with multiplying_in(precision, device):
            scores = predictor(x, step.edges, step.pairs)
            loss = binary_cross_entropy_with_logits(scores, step.labels)
            penalty = order_weight_penalty(predictor, weight_decay)
            minimised = loss if penalty is None else loss + penalty
            gradients = torch.autograd.grad(minimised, optimizer.weights, allow_unused=True)
        optimizer.step(gradients)
        train_loss = float(loss.detach())
        held_out = _score(
            predictor, x, steps.all_edges, (split.validation, split.validation_negatives), precision
        )
        if not (math.isfinite(train_loss) and all(map(_are_finite, held_out))):
            raise WorkFailed(
                f"training diverged: a loss or score is not finite in epoch {epoch}; try a lower "
                "--learning-rate, a lower --order, or smaller feature values"
            )
        history.append(LinkEpoch(epoch, train_loss, area_under_curve(*held_out)))
        if best is None or history[-1].validation_auc > best.validation_auc:
            best = history[-1]
            best_state = {
                name: value.detach().clone() for name, value in predictor.state_dict().items()
            }
        if on_epoch is not None:
            on_epoch(history[-1])
    assert best is not None
    predictor.load_state_dict(best_state)
    test = _score(predictor, x, steps.all_edges, (split.test, split.test_negatives), precision)
    return TrainedLinks(
        best_state,
        best.epoch,
        best.validation_auc,
        link_metrics(*test, hits_at),
        tuple(history),
    )


@torch.no_grad()
def _score(
    predictor: LinkPredictor,
    x: Tensor | SparseMatrix,
    edges: Sequence[SparseMatrix],
    pairs: tuple[Tensor, Tensor],
    precision: str,
) -> tuple[Scores, Scores]:
    """Scores of edges and of pairs that are none."""
    device = next(predictor.parameters()).device
    predictor.eval()
    with multiplying_in(precision, device):
        scores = predictor(x, edges, torch.cat(pairs, dim=1).to(device))
    positives, negatives = scores.float().cpu().split([part.size(1) for part in pairs])
    return positives.numpy(), negatives.numpy()


def _are_finite(scores: Scores) -> bool:
    return bool(torch.from_numpy(scores).isfinite().all())


_OF_NODES = ("splits", "train", "test_curve")
"""Settings of a configuration that are about splits of nodes."""


class LinkTrainer:
    """What all runs of one comparison share: the graph, splits of its edges, the settings.

    It has what :func:`~crossgcn.training.pool.train_many` asks of a workload.

    Args:
        data: The graph.
        splits: The splits that runs refer to by position.
        settings: Of the predictors.
        threads: Threads of each run.
        device: Where predictors are trained.
    """

    save_models = False

    def __init__(
        self,
        data: Data,
        splits: Sequence[EdgeSplit],
        settings: LinkSettings,
        *,
        threads: int = 1,
        device: str | torch.device = "cpu",
    ) -> None:
        self.splits, self.settings = splits, settings
        self.threads = threads
        self.device = choose_device(device)
        self.description = describe_dataset(data)
        sparse = data.x.layout == torch.sparse_csr
        self.x: Tensor | SparseMatrix = SparseMatrix.from_torch(data.x) if sparse else data.x
        # Without the features, which torch would copy to other processes with warnings.
        self.graph = Data(
            edge_index=data.edge_index, edge_weight=data.get("edge_weight"), num_nodes=len(data.y)
        )

    def identity(self, run: Run) -> Record:
        """What makes a run that run; a record with the same entries is its result."""
        config = {k: v for k, v in run.config.identity().items() if k not in _OF_NODES}
        return {
            "config": config,
            "links": self.settings.describe(),
            "dataset": self.description,
            "split": {"index": run.split} | _describe_split(self.splits[run.split]),
            "seed": run.config.run_seed(run.split, run.repeat),
            "threads": self.threads,
            "device": self.device.type,
        }

    def prepare(self, runs: Iterable[Run]) -> None:
        """Nothing is shared by several runs: each split has message graphs of its own."""

    def stacks(self, runs: Mapping[int, Run]) -> list[list[int]]:
        """Every run goes alone."""
        return [[position] for position in runs]

    def train_together(
        self, runs: Sequence[Run], on_epochs: Callable[[int], None] | None = None
    ) -> list[Record | WorkFailed]:
        """Do runs one after the other, and write each down.

        Args:
            runs: Any.
            on_epochs: Called with 1 after each epoch.

        Returns:
            Each run's record; where it diverged, why.
        """
        return [self._train(run, on_epochs) for run in runs]

    def build(self, config: RunConfig) -> LinkPredictor:
        """An untrained predictor, its weights drawn by torch's generator."""
        return LinkPredictor(config.model, self.x.size(1), self.settings, **config.model_settings())

    def _train(self, run: Run, on_epochs: Callable[[int], None] | None) -> Record | WorkFailed:
        record = self.identity(run)
        threads = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        try:
            record["environment"] = describe_environment(self.device)
            started = time.perf_counter()
            result, parameters = self._fit(run, record["seed"], on_epochs)
        except WorkFailed as error:
            return WorkFailed(f"{run.config.model}, split {run.split}: {error}")
        finally:
            torch.set_num_threads(threads)
        record |= {
            "status": "done",
            "parameters": parameters,
            "best_epoch": result.best_epoch,
            "validation_auc": result.validation_auc,
            "test": result.test,
            "seconds": time.perf_counter() - started,
        }
        if run.folder is not None:
            clear_run(run.folder)
            columns = [field.name for field in fields(LinkEpoch)]
            epochs = pd.DataFrame([asdict(epoch) for epoch in result.history], columns=columns)
            with replacing(run.folder / EPOCHS) as file:
                file.write(epochs.to_csv(index=False, lineterminator="\n").encode())
            write_record(run.folder, record)
        return record

    def _fit(
        self, run: Run, seed: int, on_epochs: Callable[[int], None] | None
    ) -> tuple[TrainedLinks, int]:
        config, split = run.config, self.splits[run.split]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            predictor = self.build(config)
        parameters = sum(weight.numel() for weight in predictor.parameters())
        sizes = (
            f"{config.model} with {parameters:,} weights on {self.x.size(0):,} nodes and "
            f"{self.graph.edge_index.size(1):,} directed edges"
        )
        with enough_memory(sizes, self.device):
            predictor.to(self.device)
            steps = LinkSteps(
                self.graph,
                split,
                predictor.encoder.propagations,
                folds=self.settings.folds,
                seed=seed,
                device=self.device,
            )
            result = train_links(
                predictor,
                self.x.to(self.device),
                steps,
                split,
                seed=seed,
                hits_at=self.settings.ranks,
                epochs=config.epochs,
                learning_rate=config.learning_rate,
                weight_decay=config.weight_decay,
                precision=config.precision,
                on_epoch=None if on_epochs is None else lambda epoch: on_epochs(1),
            )
        return result, parameters


def _describe_split(split: EdgeSplit) -> dict[str, Any]:
    """How many pairs of each kind, and which."""
    return {
        field.name: {
            "pairs": getattr(split, field.name).size(1),
            "sha256": digest(getattr(split, field.name)),
        }
        for field in fields(split)
    }
