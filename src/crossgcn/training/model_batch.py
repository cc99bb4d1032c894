"""Several models of one architecture as one model, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn

from crossgcn.kernels import has_numba
from crossgcn.layers import CrossFeatureTransform, CrossGCNConv, MLPConv
from crossgcn.models.node_classifier import NodeClassifier

State = dict[str, Tensor]


def can_be_stacked(model: nn.Module) -> bool:
    """Whether every layer of a model can hold the weights of several.

    Most of ours can: they see a weight through dimensions counted from the last. What other
    people's layers do is not known.
    """
    return isinstance(model, NodeClassifier) and all(
        type(layer) in (CrossGCNConv, MLPConv, CrossFeatureTransform)
        and all(getattr(module, "stackable", True) for module in layer.modules())
        for layer in model.layers
    )


def can_be_compiled(model: NodeClassifier) -> bool:
    """Whether a stacked model is one that the CPU's compiled kernels train as a whole.

    It must be a single one, of cross-feature layers whose orders are summed, with no code of
    others in its passes, no frozen weight, and no other objective than its loss.
    """
    return (
        has_numba()
        and model.num_models == 1
        and model.penalty_reason is None
        and type(model).forward is NodeClassifier.forward
        and type(model).apply_layer is NodeClassifier.apply_layer
        and model.residual == "none"
        and model.input_dropout is model.dropout
        and not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
        and all(p.requires_grad and p.dtype == torch.float32 for p in model.parameters())
        and all(
            type(layer) in (CrossGCNConv, CrossFeatureTransform)
            and getattr(layer, "aggr", "add") == "add"
            and getattr(layer, "aggregation", None) is None
            and _sums_unscaled_orders(layer)
            for layer in model.layers
        )
    )


def _sums_unscaled_orders(layer: nn.Module) -> bool:
    transform = layer if isinstance(layer, CrossFeatureTransform) else layer.transform
    return (
        type(transform) is CrossFeatureTransform
        and transform.aggregator is None
        and transform.projection_scale is None
    )


def stack_models(models: Sequence[NodeClassifier], *, round_outputs_to: int = 1) -> NodeClassifier:
    """One model whose weights have a first dimension more, along which the models lie.

    It takes stacked inputs (:func:`~crossgcn.graph.stack_inputs`) and returns
    ``[models, nodes, classes]``. No weight of one model meets a weight of another.

    Args:
        models: All of one architecture; they are left as they are.
        round_outputs_to: Give the last layer outputs that are no scores, of weight zero, up
            to a multiple of this many. A GPU reads rows of such lengths in whole words.
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
    """Widen the last layer; no gradient ever reaches the weights it gains."""
    last = stacked.layers[-1]
    if not isinstance(last, CrossGCNConv | CrossFeatureTransform):
        return
    transform = last if isinstance(last, CrossFeatureTransform) else last.transform
    width = last.out_channels
    missing = -width % multiple
    if missing == 0 or stacked.residual != "none" or not _is_all_there_is(last, transform):
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


def _is_all_there_is(layer: nn.Module, transform: nn.Module) -> bool:
    """Whether nothing but a transform's own weights, and a bias, is as wide as the output."""
    aggregation = getattr(layer, "aggregation", None)
    return (
        isinstance(transform, CrossFeatureTransform)
        and transform.aggregator is None
        and (aggregation is None or not any(True for _ in aggregation.parameters()))
    )


def unstack_state(state: State, position: int, shapes: Mapping[str, torch.Size]) -> State:
    """The state of one of the models, from that of the stacked one.

    Args:
        state: Of the stacked model.
        position: Which model.
        shapes: What each tensor of a single model is like.
    """
    return {
        name: _crop(value[position], shapes[name]).clone(memory_format=torch.contiguous_format)
        for name, value in state.items()
    }


def _crop(tensor: Tensor, shape: torch.Size) -> Tensor:
    for dim, length in enumerate(shape):
        tensor = tensor.narrow(dim, 0, length)
    return tensor


def state_shapes(model: nn.Module) -> dict[str, torch.Size]:
    """The shape of every tensor of a model's state."""
    return {name: value.shape for name, value in model.state_dict().items()}


def _tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from ((name, value.detach()) for name, value in model.named_parameters())
    yield from model.named_buffers()


def _stack(tensors: Sequence[Tensor]) -> Tensor:
    """``torch.stack``, with all projections of one input feature side by side in memory.

    A sparse row gathers them as they lie, without a transposed copy in each step.
    """
    if tensors[0].dim() < 2:
        return torch.stack(list(tensors))
    return torch.stack([tensor.movedim(-1, 0) for tensor in tensors]).movedim(1, -1)
