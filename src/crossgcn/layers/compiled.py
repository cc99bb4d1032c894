"""When a layer may call a compiled kernel."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["may_use_kernels"]


def may_use_kernels(*tensors: Tensor) -> bool:
    """Whether these tensors are plain data that a kernel can read.

    Not while ``torch.compile`` traces a model or ``torch.func`` transforms it: both want
    to see PyTorch's own operations.
    """
    return not (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or any(type(tensor) not in (Tensor, torch.nn.Parameter) for tensor in tensors)
    )
