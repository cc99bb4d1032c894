"""Let a model measure the data it is to be trained on, before it is."""

from __future__ import annotations

from contextlib import ExitStack

import torch
from torch import Tensor, nn

from crossgcn.errors import BadInput
from crossgcn.graph import SparseMatrix
from crossgcn.layers import CrossFeatureTransform
from crossgcn.models.stack import Edges

__all__ = ["calibrate"]


@torch.no_grad()
def calibrate(model: nn.Module, x: Tensor | SparseMatrix, edges: Edges) -> None:
    """Scale each layer with ``scaling="unit"`` so that its orders start at the same size.

    One pass without dropout: a layer is scaled by what the scaled layers before it give. The
    scales are constants from here on, part of the model's state, and depend on the weights
    and these inputs alone.

    Args:
        model: One of ours or any other that holds such layers and takes ``x`` and ``edges``, not
            yet trained; layers without scaling are left as they are.
        x: Node features, as the model takes them.
        edges: Edges, likewise; ``PreparedGraph.view`` gives both.

    Raises:
        BadInput: If the model is several models at once.
    """
    models = getattr(model, "num_models", None)
    if models is not None:
        raise BadInput(
            f"this model holds the weights of {models} models; calibrate each of them "
            "before they are stacked"
        )
    was_training = model.training
    with ExitStack() as measuring:
        for module in model.modules():
            if isinstance(module, CrossFeatureTransform):
                measuring.enter_context(module.calibrating())
        model.eval()(x, edges)
    model.train(was_training)
