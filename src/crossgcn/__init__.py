"""crossgcn: graph convolutions with explicit k-order cross features.

The names in ``__all__`` are the public interface. They are imported on first use, so that
``import crossgcn`` and ``crossgcn --help`` do not wait for torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crossgcn.lazy_names import lazy_names

if TYPE_CHECKING:
    from crossgcn.data.datasets.load import load_dataset
    from crossgcn.data.datasets.real import load_real
    from crossgcn.data.graph_file import read_graph, save_graph
    from crossgcn.data.splits import Split, make_splits
    from crossgcn.data.tables.graph import load_tables
    from crossgcn.data.tables.plan import TableChoices
    from crossgcn.errors import BadInput, CrossGCNError, WorkFailed
    from crossgcn.estimator.estimators import CrossGCNClassifier, CrossGCNRegressor
    from crossgcn.estimator.labels import TransductiveKFold
    from crossgcn.experiments.experiment import Experiment, RepeatedRuns
    from crossgcn.experiments.statistics import paired_difference, summarise
    from crossgcn.explanation.api import explain
    from crossgcn.graph import PreparedGraph
    from crossgcn.layers import CrossFeatureTransform, CrossGCNConv
    from crossgcn.layers.crossify import crossed_maps, crossify
    from crossgcn.models.catalogue import PRESETS, build_model
    from crossgcn.models.cross_gcn import GCN, GIN, MLP, CrossGCN
    from crossgcn.models.cross_hops import CrossHops
    from crossgcn.training.checkpoints import load_model, save_model
    from crossgcn.training.config import RunConfig
    from crossgcn.training.full_batch import train_full_batch
    from crossgcn.workflows.compare import compare
    from crossgcn.workflows.table_model import TableModel, from_tables

__version__ = "0.1.0"

_HOMES = {
    "data.datasets.load": ("load_dataset",),
    "data.datasets.real": ("load_real",),
    "data.graph_file": ("read_graph", "save_graph"),
    "data.splits": ("Split", "make_splits"),
    "data.tables.graph": ("load_tables",),
    "data.tables.plan": ("TableChoices",),
    "errors": ("BadInput", "CrossGCNError", "WorkFailed"),
    "estimator.estimators": ("CrossGCNClassifier", "CrossGCNRegressor"),
    "estimator.labels": ("TransductiveKFold",),
    "experiments.experiment": ("Experiment", "RepeatedRuns"),
    "experiments.statistics": ("paired_difference", "summarise"),
    "explanation.api": ("explain",),
    "graph": ("PreparedGraph",),
    "layers": ("CrossFeatureTransform", "CrossGCNConv"),
    "layers.crossify": ("crossed_maps", "crossify"),
    "models.cross_gcn": ("GCN", "GIN", "MLP", "CrossGCN"),
    "models.cross_hops": ("CrossHops",),
    "models.catalogue": ("PRESETS", "build_model"),
    "training.checkpoints": ("load_model", "save_model"),
    "training.config": ("RunConfig",),
    "training.full_batch": ("train_full_batch",),
    "workflows.compare": ("compare",),
    "workflows.table_model": ("TableModel", "from_tables"),
}

__all__ = [  # noqa: RUF022
    "BadInput",
    "CrossFeatureTransform",
    "CrossGCN",
    "CrossGCNClassifier",
    "CrossGCNConv",
    "CrossGCNError",
    "CrossGCNRegressor",
    "CrossHops",
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
    "TableModel",
    "TransductiveKFold",
    "WorkFailed",
    "build_model",
    "compare",
    "crossed_maps",
    "crossify",
    "explain",
    "from_tables",
    "load_dataset",
    "load_model",
    "load_real",
    "load_tables",
    "make_splits",
    "paired_difference",
    "read_graph",
    "save_graph",
    "save_model",
    "summarise",
    "train_full_batch",
]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
