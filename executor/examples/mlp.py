"""A tiny perceptron on torch, its weights drawn from a seed: the shape of a real model.

[models.mlp]
max_batch_size = 64
inputs = [{ name = "x", datatype = "FP32", dims = [16] }]
outputs = [{ name = "y", datatype = "FP32", dims = [4] }]
[models.mlp.executor]
module = "executor.examples.mlp"
class = "MLP"
"""

from __future__ import annotations

from typing import Any

from executor.model import TORCH, Batch, Context, Tensor


class MLP:
    """See the module's docstring."""

    backend = TORCH
    inputs = (Tensor("x", "FP32", (16,)),)
    outputs = (Tensor("y", "FP32", (4,)),)

    def load(self, context: Context) -> None:
        """Make the layers, where the batch will be."""
        import torch
        from torch import nn

        torch.manual_seed(int(context.options.get("seed", 1)))
        self._device = context.device
        self._layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
        self._layers.eval().to(context.device)

    def warmup(self) -> None:
        """Run once: the first run is slow."""
        import torch

        self._layers(torch.zeros(1, 16, device=self._device))

    def predict(self, batch: Batch) -> dict[str, Any]:
        """Return four numbers for sixteen."""
        return {"y": self._layers(batch.inputs["x"])}
