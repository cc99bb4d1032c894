"""Adam on a GPU, one pass over each weight.

PyTorch's fused one gives every block of threads 65,536 numbers, which leaves most of a
large GPU idle for the weights of a small model.
"""

from __future__ import annotations

from torch import Tensor

from crossgcn.kernels.gpu_language import blocks, jit, on_device_of, tl

__all__ = ["adam"]

_BLOCK = 1024


def adam(
    weight: Tensor,
    gradient: Tensor,
    mean: Tensor,
    square: Tensor,
    step: Tensor,
    learning_rate: float,
    weight_decay: float,
) -> None:
    """One step of Adam, in place.

    Args:
        weight: Contiguous, like all others.
        gradient: As many numbers.
        mean: Running mean of the gradients.
        square: Running mean of their squares.
        step: How many steps there were with this one, a number on the device.
        learning_rate: The step size.
        weight_decay: λ; λ times the weight is added to the gradient.
    """
    with on_device_of(weight):
        _adam[(blocks(weight.numel(), _BLOCK),)](
            weight,
            gradient,
            mean,
            square,
            step,
            learning_rate,
            weight_decay,
            weight.numel(),
            BLOCK=_BLOCK,
            num_warps=4,
        )


@jit
def _adam(
    weight: tl.tensor,
    gradient: tl.tensor,
    mean: tl.tensor,
    square: tl.tensor,
    step: tl.tensor,
    learning_rate: tl.float32,
    weight_decay: tl.float32,
    size: tl.int32,
    BLOCK: tl.constexpr,
) -> None:
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    here = place < size
    # In float64: 1 - 0.999 loses four digits in float32. The constants are ln 0.9, ln 0.999.
    count = tl.load(step).to(tl.float64)
    first = 1.0 - tl.exp(count * -0.10536051565782628)
    second = 1.0 - tl.exp(count * -0.0010005003335835335)
    size_of_step = (learning_rate / first).to(tl.float32)
    correction = (1.0 / tl.sqrt(second)).to(tl.float32)
    w = tl.load(weight + place, mask=here, other=0.0)
    g = tl.load(gradient + place, mask=here, other=0.0) + weight_decay * w
    m = 0.9 * tl.load(mean + place, mask=here, other=0.0) + 0.1 * g
    s = 0.999 * tl.load(square + place, mask=here, other=0.0) + 0.001 * g * g
    tl.store(mean + place, m, mask=here)
    tl.store(square + place, s, mask=here)
    tl.store(weight + place, w - size_of_step * m / (tl.sqrt(s) * correction + 1e-8), mask=here)
