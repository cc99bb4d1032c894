"""The LSTM over the orders that the paper suggests, as a user would write it."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class OrderLSTM(nn.Module):
    """Read the products ``[order, ..., channels]`` as a sequence, and map the last state."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(channels, channels)
        # The output of an LSTM stays within (-1, 1) and could not serve as logits.
        self.read_out = nn.Linear(channels, channels, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        _, (last, _) = self.lstm(hidden.flatten(1, -2))
        out: Tensor = self.read_out(last[0]).view_as(hidden[0])
        return out


def order_weights_named(name: str, channels: int) -> str | nn.Module:
    """Return a name, or the module that ``"lstm"`` stands for."""
    return OrderLSTM(channels).to(torch.get_default_dtype()) if name == "lstm" else name
