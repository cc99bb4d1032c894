"""Link predictors: the model, its metrics, and its training."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch_geometric.data import Data

from crossgcn.errors import WorkFailed
from crossgcn.graph import EdgeKind, SparseMatrix, edges_of_kind
from crossgcn.graph.prepared import choose_device
from crossgcn.links.edge_splits import EdgeSplit, deal_folds, message_edges, training_negatives
from crossgcn.links.settings import Decoder, LinkSettings
from crossgcn.models.catalogue import build_model
from crossgcn.models.node_classifier import NodeClassifier, calibrate
from crossgcn.training.config import RunConfig
from crossgcn.training.device import enough_memory, multiplying_in
from crossgcn.training.loop import Step, fit
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
from crossgcn.training.trainer import OnEpochs, Record, Run, RunTrainer, seeded, using_threads


class PairDecoder(nn.Module):
    r"""Score of a pair of nodes, from their embeddings.

    .. math:: s_{ij} = \sum_c w_c\, z_{ic}\, z_{jc}

    Args:
        kind: ``dot`` fixes every :math:`w_c` at 1; ``hadamard`` learns them, starting at 1.
    """

    def __init__(self, kind: Decoder, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels)) if kind == "hadamard" else None

    def forward(self, embeddings: Tensor, pairs: Tensor) -> Tensor:
        """Return the scores ``[pairs]`` of ``pairs [2, pairs]``; the order of the nodes is free."""
        first, second = (_pick_rows(embeddings, ends) for ends in pairs)
        product = first * second
        return (product if self.weight is None else product * self.weight).sum(dim=-1)


class LinkPredictor(nn.Module):
    """A model of the package as encoder, whose last layer returns embeddings, and a decoder."""

    def __init__(
        self, preset: str, in_channels: int, settings: LinkSettings, **encoder_settings: Any
    ) -> None:
        super().__init__()
        channels = settings.embedding_channels
        self.encoder: NodeClassifier = build_model(
            preset, in_channels, channels, **encoder_settings
        )
        self.decoder = PairDecoder(settings.decoder, channels)

    def forward(
        self, x: Tensor | SparseMatrix, edges: Sequence[SparseMatrix], pairs: Tensor
    ) -> Tensor:
        """Return the scores of ``pairs [2, pairs]``.

        ``edges`` is the message graph, once for each of the encoder's propagations.
        """
        scores: Tensor = self.decoder(self.encoder(x, edges), pairs)
        return scores


def _pick_rows(matrix: Tensor, rows: Tensor) -> Tensor:
    """Select rows by a sparse product, whose gradient is summed in a fixed order.

    The gradient of indexing on a GPU is not: equal seeds would give different weights.
    """
    count = rows.numel()
    offsets = torch.arange(count + 1, device=rows.device)
    ones = torch.ones(count, dtype=matrix.dtype, device=rows.device)
    return SparseMatrix(offsets, rows, ones, (count, matrix.size(0))) @ matrix


Scores = NDArray[np.floating]


def metric_names(hits_at: Sequence[int]) -> tuple[str, ...]:
    """Return the names of the metrics of :func:`link_metrics`, in its order."""
    return ("auc", "ap", *(f"hits@{k}" for k in hits_at), "mrr")


def link_metrics(positives: Scores, negatives: Scores, hits_at: Sequence[int]) -> dict[str, float]:
    r"""Return all metrics of scores of edges and negative pairs, each from 0 to 1.

    ``auc`` is the area under the ROC curve; ``ap`` is the average precision, whose level depends
    on the number of negatives; ``hits@k`` is the share of edges with rank at most :math:`k`
    among the negatives, and ``mrr`` the mean reciprocal rank. Ties get their mean over all orders.
    """
    above, level = _count_negatives(positives, negatives)
    labels = np.repeat([1, 0], [len(positives), len(negatives)])
    harmonic = np.cumsum(1 / np.arange(1, len(negatives) + 2))
    harmonic = np.concatenate([[0.0], harmonic])
    reciprocal = (harmonic[above + level + 1] - harmonic[above]) / (level + 1)
    hits = {f"hits@{k}": np.clip((k - above) / (level + 1), 0, 1).mean() for k in hits_at}
    return {
        "auc": area_under_curve(positives, negatives),
        "ap": float(average_precision_score(labels, np.concatenate([positives, negatives]))),
        **{name: float(value) for name, value in hits.items()},
        "mrr": float(reciprocal.mean()),
    }


def area_under_curve(positives: Scores, negatives: Scores) -> float:
    """Return the probability that an edge scores above a negative pair; ties count half."""
    above, level = _count_negatives(positives, negatives)
    return float(1 - (above + level / 2).mean() / len(negatives))


def _count_negatives(
    positives: Scores, negatives: Scores
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for each positive how many negatives score above it, and how many the same."""
    ordered = np.sort(negatives)
    below = np.searchsorted(ordered, positives, side="left")
    not_above = np.searchsorted(ordered, positives, side="right")
    return len(ordered) - not_above, not_above - below


class LinkBatches:
    """The inputs of all steps of one training, and the message graph for scoring.

    An edge that carries a message reveals itself, so the message graph of a step must not contain
    the edges that the step predicts. The training edges are divided into folds, once; the folds
    take turns at being predicted from all edges of the others. Negative pairs are drawn anew
    in each step (see :func:`~crossgcn.links.edge_splits.training_negatives`). The seed alone
    decides both, so models with the same seed see the same inputs.

    Attributes:
        all_edges: The message graph of all training edges, from which held-out pairs are scored;
            once for each of the encoder's propagations.
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

    def of_epoch(self, epoch: int) -> tuple[tuple[SparseMatrix, ...], Tensor, Tensor]:
        """Return message graph, pairs ``[2, pairs]`` and their labels, for an epoch from 1 on.

        Half of the pairs are edges, with label 1; then follow the negative pairs, with label 0.
        """
        turn = (epoch - 1) % len(self._folds)
        positives = self._folds[turn]
        generator = np.random.default_rng([self._seed, epoch, 1])
        negatives = self._negatives.draw(positives.size(1), generator)
        pairs, labels = _join(positives, negatives)
        return self._messages[turn], pairs.to(self._device), labels.to(self._device)


def _join(positives: Tensor, negatives: Tensor) -> tuple[Tensor, Tensor]:
    """Return all pairs, positive ones first, and their labels."""
    pairs = torch.cat([positives, negatives], dim=1)
    return pairs, (torch.arange(pairs.size(1)) < positives.size(1)).float()


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
        edges, pairs, labels = self.batches.of_epoch(int(self.count))
        self.model.train()
        with multiplying_in(self.config.precision, self.device):
            loss = binary_cross_entropy_with_logits(self.model(self.x, edges, pairs), labels)
            penalty = order_weight_penalty(self.model, self.config.weight_decay)
            minimised = loss if penalty is None else loss + penalty
            gradients = torch.autograd.grad(minimised, self.optimizer.weights, allow_unused=True)
        self.optimizer.step(gradients)
        self.losses = loss.detach().view(1)

    @torch.no_grad()
    def score_pairs(self, pairs: Tensor) -> Tensor:
        """Score pairs with the messages of all training edges; return the scores on the CPU."""
        self.model.eval()
        with multiplying_in(self.config.precision, self.device):
            scores: Tensor = self.model(self.x, self.batches.all_edges, pairs)
        return scores.float().cpu()


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
) -> tuple[Record, list[dict[str, float]]]:
    """Minimise the cross-entropy of edges and negative pairs; keep the best validation epoch.

    The selected epoch is the first with the strictly best area under the ROC curve on the
    validation pairs. Validation and test pairs are scored with all training edges, and no other
    edge, as message graph.

    Args:
        predictor: Trained in place, where it is; holds the selected weights afterwards.
        x: Features of all nodes, on the same device.
        seed: Decides the dropped entries.

    Returns:
        ``best_epoch``, ``validation_auc`` and ``test``, every metric of the test pairs; and
        ``epoch``, ``train_loss`` (with dropout) and ``validation_auc`` of each epoch.
    """
    step = LinkStep(predictor, x, batches, config, seed)
    held_out, labels = _join(split.validation, split.validation_negatives)
    held_out, count = held_out.to(step.device), split.validation.size(1)

    def validate() -> tuple[Tensor, Tensor]:
        scores = step.score_pairs(held_out)
        loss = binary_cross_entropy_with_logits(scores.double(), labels.double())
        auc = area_under_curve(scores[:count].numpy(), scores[count:].numpy())
        means = torch.tensor([loss, auc], dtype=torch.float64, device=step.device)
        return means[:1], means[1:]

    (result,) = fit(step, validation=validate, on_epochs=on_epochs)
    if isinstance(result, Diverged):
        raise WorkFailed(
            f"{result.reason}; try a lower --learning-rate, a lower --order, or smaller feature "
            "values"
        )
    test = step.score_pairs(_join(split.test, split.test_negatives)[0].to(step.device)).numpy()
    num_test = split.test.size(1)
    found = {
        "best_epoch": result.best_epoch,
        "validation_auc": result.validation_score,
        "test": link_metrics(test[:num_test], test[num_test:], hits_at),
    }
    history = [
        {"epoch": m.epoch, "train_loss": m.train_loss, "validation_auc": m.validation_score}
        for m in result.history
    ]
    return found, history


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

    def identity(self, run: Run) -> Record:  # noqa: D102
        config = {k: v for k, v in run.config.identity().items() if k not in _OF_NODES}
        split = {
            name: {"pairs": pairs.size(1), "sha256": digest(pairs)}
            for name, pairs in vars(self.splits[run.split]).items()
        }
        return {
            "config": config,
            "links": self.settings.describe(),
            "dataset": self.description,
            "split": {"index": run.split, **split},
            "seed": run.config.run_seed(run.split, run.repeat),
            "threads": self.threads,
            "device": self.device.type,
        }

    def train(
        self, runs: Sequence[Run], on_epochs: OnEpochs | None = None
    ) -> list[Record | WorkFailed]:
        """Train runs one after the other."""
        return [self._train(run, on_epochs) for run in runs]

    def _train(self, run: Run, on_epochs: OnEpochs | None) -> Record | WorkFailed:
        config, record, started = run.config, self.identity(run), time.perf_counter()
        split, seed, settings = self.splits[run.split], record["seed"], self.settings
        with seeded(seed):
            predictor = LinkPredictor(
                config.model, self.x.size(1), settings, **config.model_settings()
            )
        parameters = sum(weight.numel() for weight in predictor.parameters())
        sizes = (
            f"{config.model} with {parameters:,} weights on {self.x.size(0):,} nodes and "
            f"{self.graph.edge_index.size(1):,} directed edges"
        )
        try:
            with using_threads(self.threads), enough_memory(sizes, self.device):
                record["environment"] = describe_environment(self.device)
                batches = LinkBatches(
                    self.graph,
                    split,
                    predictor.encoder.propagations,
                    folds=settings.folds,
                    seed=seed,
                    device=self.device,
                )
                found, history = train_links(
                    predictor.to(self.device),
                    self.x.to(self.device),
                    batches,
                    split,
                    config,
                    seed=seed,
                    hits_at=settings.ranks,
                    on_epochs=on_epochs,
                )
        except WorkFailed as error:
            return WorkFailed(f"{config.model}, split {run.split}: {error}")
        record |= {
            "status": "done",
            "parameters": parameters,
            **found,
            "seconds": time.perf_counter() - started,
        }
        if run.folder is not None:
            clear_run(run.folder)
            write_table(run.folder / EPOCHS, list(history[0]), history)
            write_record(run.folder, record)
        return record
