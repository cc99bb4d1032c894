"""crossgcn: graph convolutions with explicit k-order cross features.

The names below are the public promise. They are imported on first use, so that
``import crossgcn`` and ``crossgcn --help`` do not wait for torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crossgcn.lazy_names import lazy_names

if TYPE_CHECKING:
    from crossgcn.data.archive import read_graph, save_graph
    from crossgcn.data.datasets import load_dataset
    from crossgcn.data.splits import Split, make_splits
    from crossgcn.data.tables.graph import load_tables
    from crossgcn.data.tables.plan import TableChoices
    from crossgcn.errors import BadInput, CrossGCNError, WorkFailed
    from crossgcn.evaluation.repeats import Experiment, RepeatedRuns
    from crossgcn.evaluation.statistics import paired_difference, summarise
    from crossgcn.explanation.explain import explain
    from crossgcn.graph import PreparedGraph
    from crossgcn.layers import CrossFeatureTransform, CrossGCNConv
    from crossgcn.layers.crossify import crossed_maps, crossify
    from crossgcn.models.calibrate import calibrate
    from crossgcn.models.cross_gcn import CrossGCN
    from crossgcn.models.cross_grand import CrossGrand
    from crossgcn.models.gcn import GCN
    from crossgcn.models.gin import GIN
    from crossgcn.models.mlp import MLP
    from crossgcn.models.presets import PRESETS
    from crossgcn.models.registry import build_model
    from crossgcn.training.checkpoints import load_model, save_model
    from crossgcn.training.classifier import CrossGCNClassifier
    from crossgcn.training.config import RunConfig
    from crossgcn.training.full_batch import train_full_batch
    from crossgcn.training.mini_batch import train_mini_batch

__version__ = "0.1.0"

_HOMES = {
    "data.archive": ("read_graph", "save_graph"),
    "data.datasets": ("load_dataset",),
    "data.splits": ("Split", "make_splits"),
    "data.tables.graph": ("load_tables",),
    "data.tables.plan": ("TableChoices",),
    "errors": ("BadInput", "CrossGCNError", "WorkFailed"),
    "evaluation.repeats": ("Experiment", "RepeatedRuns"),
    "evaluation.statistics": ("paired_difference", "summarise"),
    "explanation.explain": ("explain",),
    "graph": ("PreparedGraph",),
    "layers": ("CrossFeatureTransform", "CrossGCNConv"),
    "layers.crossify": ("crossed_maps", "crossify"),
    "models.calibrate": ("calibrate",),
    "models.cross_gcn": ("CrossGCN",),
    "models.cross_grand": ("CrossGrand",),
    "models.gcn": ("GCN",),
    "models.gin": ("GIN",),
    "models.mlp": ("MLP",),
    "models.presets": ("PRESETS",),
    "models.registry": ("build_model",),
    "training.checkpoints": ("load_model", "save_model"),
    "training.classifier": ("CrossGCNClassifier",),
    "training.config": ("RunConfig",),
    "training.full_batch": ("train_full_batch",),
    "training.mini_batch": ("train_mini_batch",),
}

__all__ = [  # noqa: RUF022
    "BadInput",
    "CrossFeatureTransform",
    "CrossGCN",
    "CrossGCNClassifier",
    "CrossGCNConv",
    "CrossGCNError",
    "CrossGrand",
    "Experiment",
    "GCN",
    "GIN",
    "MLP",
    "PRESETS",
    "PreparedGraph",
    "RepeatedRuns",
    "RunConfig",
    "Split",
    "TableChoices",
    "WorkFailed",
    "build_model",
    "calibrate",
    "crossed_maps",
    "crossify",
    "explain",
    "load_dataset",
    "load_model",
    "load_tables",
    "make_splits",
    "paired_difference",
    "read_graph",
    "save_graph",
    "save_model",
    "summarise",
    "train_full_batch",
    "train_mini_batch",
]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
