"""A model batch: several models of one architecture stacked into one model, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn

from crossgcn.kernels import has_numba
from crossgcn.layers import CrossFeatureTransform, CrossGCNConv
from crossgcn.models.cross_gcn import GCN, MLP, CrossGCN
from crossgcn.models.node_classifier import NodeClassifier

State = dict[str, Tensor]


def can_be_stacked(model: nn.Module) -> bool:
    """Whether every layer of a model can hold the weights of several models.

    Most layers of this package can, because they count the dimensions of a weight from the last.
    """
    return (
        isinstance(model, NodeClassifier)
        and model.target_scale is None
        and all(
            type(layer) in (CrossGCNConv, CrossFeatureTransform)
            and all(getattr(module, "stackable", True) for module in layer.modules())
            for layer in model.layers
        )
    )


def can_be_compiled(model: NodeClassifier) -> bool:
    """Whether the CPU's compiled kernels can train a stacked model.

    It must be a single model of this package (a subclass may compute something else) whose layers
    sum crosses, without hooks or frozen weights.
    """
    return (
        has_numba()
        and model.num_models == 1
        and model.target_scale is None
        and type(model) in (NodeClassifier, CrossGCN, GCN, MLP)
        and not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
        and all(p.requires_grad and p.dtype == torch.float32 for p in model.parameters())
        and all(
            type(layer) in (CrossGCNConv, CrossFeatureTransform)
            and getattr(layer, "sums_neighbours", True)
            and _sums_orders(layer)
            for layer in model.layers
        )
    )


def _sums_orders(layer: nn.Module) -> bool:
    transform = layer if isinstance(layer, CrossFeatureTransform) else layer.transform
    return type(transform) is CrossFeatureTransform and transform.aggregator is None


def stack_models(models: Sequence[NodeClassifier], *, round_outputs_to: int = 1) -> NodeClassifier:
    """Stack models into one, along a new first dimension of every weight.

    The stacked model takes stacked inputs (:func:`~crossgcn.graph.stack_inputs`) and returns
    ``[models, nodes, classes]``. The models do not influence each other.

    Args:
        models: They are not changed.
        round_outputs_to: Pad the outputs of the last layer with zero weights to a multiple of
            this number. A GPU reads rows of such lengths in whole words.
    """
    stacked = deepcopy(models[0])
    others = [dict(_tensors(model)) for model in models]
    for name, _ in list(_tensors(stacked)):
        path, _, attribute = name.rpartition(".")
        module = stacked.get_submodule(path)
        together = _stack([tensors[name] for tensors in others])
        own = module._parameters.get(attribute)
        if own is not None:
            setattr(module, attribute, nn.Parameter(together, requires_grad=own.requires_grad))
        else:
            setattr(module, attribute, together)
    stacked.num_models = len(models)
    _round_outputs(stacked, round_outputs_to)
    return stacked


def _round_outputs(stacked: NodeClassifier, multiple: int) -> None:
    """Widen the last layer; the gradient of the new weights is always zero."""
    last = stacked.layers[-1]
    if not isinstance(last, CrossGCNConv | CrossFeatureTransform):
        return
    transform = last if isinstance(last, CrossFeatureTransform) else last.transform
    width = last.out_channels
    missing = -width % multiple
    if missing == 0 or not isinstance(transform, CrossFeatureTransform):
        return
    weight = transform.weight.detach().movedim(-1, 1)
    transform.weight = nn.Parameter(
        nn.functional.pad(weight, (0, missing)).movedim(1, -1), transform.weight.requires_grad
    )
    if last.bias is not None:
        wider = nn.functional.pad(last.bias.detach(), (0, missing))
        last.bias = nn.Parameter(wider, last.bias.requires_grad)
    last.out_channels = transform.out_channels = width + missing
    stacked.num_scores = width


def unstack_state(state: State, position: int, shapes: Mapping[str, torch.Size]) -> State:
    """Return the state of one model, whose tensors have ``shapes``, from the stacked one's."""
    return {
        name: value[position][tuple(map(slice, shapes[name]))].clone(
            memory_format=torch.contiguous_format
        )
        for name, value in state.items()
    }


def state_shapes(model: nn.Module) -> dict[str, torch.Size]:
    """Return the shape of every tensor in a model's state."""
    return {name: value.shape for name, value in model.state_dict().items()}


def _tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from ((name, value.detach()) for name, value in model.named_parameters())
    yield from model.named_buffers()


def _stack(tensors: Sequence[Tensor]) -> Tensor:
    """Stack with all projections of one input feature side by side in memory.

    A product with sparse features reads them in this order, without a transposed copy.
    """
    if tensors[0].dim() < 2:
        return torch.stack(list(tensors))
    return torch.stack([tensor.movedim(-1, 0) for tensor in tensors]).movedim(1, -1)
