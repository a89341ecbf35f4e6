"""Gives back the text that it gets: a model without anything to install.

[models.echo]
max_batch_size = 32
inputs = [{ name = "text", datatype = "BYTES", dims = [1] }]
outputs = [{ name = "text", datatype = "BYTES", dims = [1] }]
[models.echo.executor]
module = "executor.examples.echo"
class = "Echo"
"""

from __future__ import annotations

from typing import Any

from executor.model import Batch, Context, Tensor


class Echo:
    """See the module's docstring."""

    inputs = (Tensor("text", "BYTES", (1,)),)
    outputs = (Tensor("text", "BYTES", (1,)),)

    def load(self, context: Context) -> None:
        """Nothing is loaded."""

    def predict(self, batch: Batch) -> dict[str, Any]:
        """Return the text as it came."""
        return {"text": batch.inputs["text"]}
