"""Train a link predictor, select an epoch, and only then score the test pairs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits
from torch_geometric.data import Data

from crossgcn.errors import WorkFailed
from crossgcn.graph import EdgeKind, SparseMatrix, edges_of_kind
from crossgcn.graph.prepared import choose_device
from crossgcn.links.edge_splits import EdgeSplit, deal_folds, message_edges, training_negatives
from crossgcn.links.predictor import (
    LinkPredictor,
    Scores,
    area_under_curve,
    link_metrics,
)
from crossgcn.links.settings import LinkSettings
from crossgcn.models.node_classifier import calibrate
from crossgcn.training.config import RunConfig
from crossgcn.training.device import enough_memory, multiplying_in
from crossgcn.training.loop import fit
from crossgcn.training.objective import order_weight_penalty
from crossgcn.training.records import (
    EPOCHS,
    clear_run,
    describe_dataset,
    describe_environment,
    digest,
    write_record,
    write_table,
)
from crossgcn.training.selection import Diverged
from crossgcn.training.steps.step import Step
from crossgcn.training.trainer import Record, Run, RunTrainer, seeded, using_threads


@dataclass(frozen=True)
class LinkBatch:
    """The input of one step.

    Attributes:
        edges: The message graph, once for each of the encoder's propagations.
        pairs: Positive pairs, then as many negative pairs, ``[2, pairs]``.
        labels: 1 for positive and 0 for negative pairs, ``[pairs]``.
    """

    edges: tuple[SparseMatrix, ...]
    pairs: Tensor
    labels: Tensor


class LinkBatches:
    """The inputs of all steps of one training, and the message graph for scoring.

    An edge that carries a message reveals itself, so the message graph of a step must not contain
    the edges that the step predicts. The training edges are divided into folds, once; the folds
    take turns at being predicted from all edges of the others. Negative pairs are drawn anew
    in each step (see :func:`~crossgcn.links.edge_splits.training_negatives`). The seed alone
    decides both, so models with the same seed see the same inputs.

    Attributes:
        all_edges: The message graph of all training edges, from which held-out pairs are scored.
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

    def of_epoch(self, epoch: int) -> LinkBatch:
        """Return the input of an epoch, counted from 1."""
        turn = (epoch - 1) % len(self._folds)
        positives = self._folds[turn]
        generator = np.random.default_rng([self._seed, epoch, 1])
        negatives = self._negatives.draw(positives.size(1), generator)
        labels = torch.arange(2 * positives.size(1)) < positives.size(1)
        return LinkBatch(
            self._messages[turn],
            torch.cat([positives, negatives], dim=1).to(self._device),
            labels.float().to(self._device),
        )


class LinkStep(Step):
    """A predictor in training; an epoch is one step of the optimiser.

    An encoder with ``scaling="unit"`` is calibrated on the message graph of all training edges.
    """

    model: LinkPredictor

    def __init__(
        self,
        predictor: LinkPredictor,
        x: Tensor | SparseMatrix,
        batches: LinkBatches,
        config: RunConfig,
        seed: int,
    ) -> None:
        if not predictor.encoder.is_calibrated:
            calibrate(predictor.encoder, x, batches.all_edges)
        super().__init__(predictor, config, [seed])
        self.x, self.batches = x, batches
        self.accuracies = torch.full((1,), torch.nan, device=self.device)  # not recorded

    def run(self) -> None:
        """Do one step: forward, backward and Adam."""
        self.count += 1
        batch = self.batches.of_epoch(int(self.count))
        self.model.train()
        with multiplying_in(self.config.precision, self.device):
            scores = self.model(self.x, batch.edges, batch.pairs)
            loss = binary_cross_entropy_with_logits(scores, batch.labels)
            penalty = order_weight_penalty(self.model, self.config.weight_decay)
            minimised = loss if penalty is None else loss + penalty
            gradients = torch.autograd.grad(minimised, self.optimizer.weights, allow_unused=True)
        self.optimizer.step(gradients)
        self.losses = loss.detach().view(1)

    def scorer(self, positives: Tensor, negatives: Tensor) -> LinkScorer:
        """Return a scorer of held-out pairs, given the messages of all training edges."""
        return LinkScorer(self, positives, negatives)


class LinkScorer:
    """Scores held-out pairs with the weights as they are at each call."""

    def __init__(self, step: LinkStep, positives: Tensor, negatives: Tensor) -> None:
        self.step = step
        self.pairs = torch.cat([positives, negatives], dim=1).to(step.device)
        self.labels = (torch.arange(self.pairs.size(1)) < positives.size(1)).double()

    def __call__(self) -> tuple[Tensor, Tensor]:
        """Return the mean cross-entropy and the area under the ROC curve, ``[1]`` each."""
        scores = self.score_pairs()
        loss = binary_cross_entropy_with_logits(scores.double(), self.labels)
        auc = area_under_curve(*self._divide(scores))
        means = torch.tensor([loss, auc], dtype=torch.float64, device=self.step.device)
        return means[:1], means[1:]

    def evaluate(self) -> list[dict[str, float]]:
        """Return the area under the ROC curve."""
        return [{"roc_auc": float(self()[1])}]

    def metrics(self, hits_at: Sequence[int]) -> dict[str, float]:
        """Return all metrics of :func:`~crossgcn.links.predictor.link_metrics`."""
        return link_metrics(*self._divide(self.score_pairs()), hits_at)

    @torch.no_grad()
    def score_pairs(self) -> Tensor:
        """Return the score of each pair, on the CPU."""
        step = self.step
        step.model.eval()
        with multiplying_in(step.config.precision, step.device):
            scores: Tensor = step.model(step.x, step.batches.all_edges, self.pairs)
        return scores.float().cpu()

    def _divide(self, scores: Tensor) -> tuple[Scores, Scores]:
        is_positive = self.labels.bool()
        return scores[is_positive].numpy(), scores[~is_positive].numpy()


@dataclass(frozen=True)
class LinkEpoch:
    """Metrics of one epoch; the loss is that of its own step, with dropout."""

    epoch: int
    train_loss: float
    validation_auc: float


@dataclass(frozen=True)
class TrainedLinks:
    """A trained predictor: the weights of the selected epoch and their metrics.

    Attributes:
        test: Every metric of :func:`~crossgcn.links.predictor.link_metrics` on the test pairs.
    """

    state: dict[str, Tensor]
    best_epoch: int
    validation_auc: float
    test: dict[str, float]
    history: tuple[LinkEpoch, ...]


def train_links(
    predictor: LinkPredictor,
    x: Tensor | SparseMatrix,
    batches: LinkBatches,
    split: EdgeSplit,
    config: RunConfig,
    *,
    seed: int,
    hits_at: Sequence[int],
    on_epochs: Callable[[int], None] | None = None,
) -> TrainedLinks:
    """Minimise the cross-entropy of edges and negative pairs; keep the best validation epoch.

    The selected epoch is the first with the strictly best area under the ROC curve on the
    validation pairs. Validation and test pairs are scored with all training edges, and no other
    edge, as message graph.

    Args:
        predictor: Trained in place, where it is; holds the selected weights afterwards.
        x: Features of all nodes, on the same device.
        batches: The inputs of each step.
        split: The pairs that select and test.
        seed: Decides the dropped entries.
        hits_at: The ranks of Hits@K.
        on_epochs: As for :func:`~crossgcn.training.loop.fit`.
    """
    step = LinkStep(predictor, x, batches, config, seed)
    validation = step.scorer(split.validation, split.validation_negatives)
    (result,) = fit(step, validation=validation, on_epochs=on_epochs)
    if isinstance(result, Diverged):
        raise WorkFailed(
            f"{result.reason}; try a lower --learning-rate, a lower --order, or smaller feature "
            "values"
        )
    return TrainedLinks(
        result.state,
        result.best_epoch,
        result.validation_accuracy,  # the score that selects, here the area under the curve
        step.scorer(split.test, split.test_negatives).metrics(hits_at),
        tuple(LinkEpoch(m.epoch, m.train_loss, m.validation_accuracy) for m in result.history),
    )


_OF_NODES = ("splits", "train", "test_curve")
"""Settings of a configuration that are about splits of nodes."""


class LinkTrainer(RunTrainer):
    """Trains the runs of one comparison, which share the graph, edge splits and settings."""

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
        """Return what makes a run this run; a record with equal entries is its result."""
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

    def train(
        self, runs: Sequence[Run], on_epochs: Callable[[int], None] | None = None
    ) -> list[Record | WorkFailed]:
        """Train runs one after the other."""
        return [self._train(run, on_epochs) for run in runs]

    def build(self, config: RunConfig) -> LinkPredictor:
        """Return an untrained predictor; torch's generator draws its weights."""
        return LinkPredictor(config.model, self.x.size(1), self.settings, **config.model_settings())

    def _train(self, run: Run, on_epochs: Callable[[int], None] | None) -> Record | WorkFailed:
        config, record, started = run.config, self.identity(run), time.perf_counter()
        with seeded(record["seed"]):
            predictor = self.build(config)
        parameters = sum(weight.numel() for weight in predictor.parameters())
        sizes = (
            f"{config.model} with {parameters:,} weights on {self.x.size(0):,} nodes and "
            f"{self.graph.edge_index.size(1):,} directed edges"
        )
        try:
            with using_threads(self.threads), enough_memory(sizes, self.device):
                record["environment"] = describe_environment(self.device)
                result = self._fit(run, predictor.to(self.device), record["seed"], on_epochs)
        except WorkFailed as error:
            return WorkFailed(f"{config.model}, split {run.split}: {error}")
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
            names = [field.name for field in fields(LinkEpoch)]
            write_table(run.folder / EPOCHS, names, [asdict(epoch) for epoch in result.history])
            write_record(run.folder, record)
        return record

    def _fit(
        self,
        run: Run,
        predictor: LinkPredictor,
        seed: int,
        on_epochs: Callable[[int], None] | None,
    ) -> TrainedLinks:
        split, settings = self.splits[run.split], self.settings
        batches = LinkBatches(
            self.graph,
            split,
            predictor.encoder.propagations,
            folds=settings.folds,
            seed=seed,
            device=self.device,
        )
        return train_links(
            predictor,
            self.x.to(self.device),
            batches,
            split,
            run.config,
            seed=seed,
            hits_at=settings.ranks,
            on_epochs=on_epochs,
        )


def _describe_split(split: EdgeSplit) -> dict[str, Any]:
    """How many pairs of each kind, and which."""
    return {
        field.name: {
            "pairs": getattr(split, field.name).size(1),
            "sha256": digest(getattr(split, field.name)),
        }
        for field in fields(split)
    }
