"""Models in torch: in this process, and in a child of their own. On the processor alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from executor.children import RealChildren
from executor.core.values import Outcome
from executor.frames import Batch, Ran, Up
from raftbatch import tensors
from tests.e2e.demo_needs import needs_torch
from tests.unit.test_executor_child import LOAD, run
from tests.unit.test_executor_runtime import batch, load, x, y

pytestmark = needs_torch


def test_torch_model_runs_under_inference_mode(tmp_path: Path) -> None:
    import torch  # large: whoever only collects the tests does without

    runtime = load(tmp_path, file="", module="executor.examples.mlp", class_name="MLP", name="mlp")
    assert runtime.backend.device == ("cuda:0" if torch.cuda.is_available() else "cpu")
    payload = x(*[n / 16 for n in range(16)])
    found = runtime.run(batch(payload, payload))
    assert isinstance(found, Outcome)
    first, second = found.answers
    assert first == second
    assert len(y(first.result)) == 4


def test_torch_model_has_its_own_threads_in_a_child() -> None:
    async def main() -> None:
        load = replace(LOAD, module="executor.examples.mlp", class_name="MLP", threads=3)
        child = await RealChildren().start(load)
        up = await child.receive()
        assert isinstance(up, Up), up
        assert "3 threads" in up.detail
        envelope = tensors.encode([tensors.Tensor("x", "FP32", (2, 16), bytes(128))])
        child.send(Batch(1, (envelope,), (2,), (b"",)))
        found = await child.receive()
        assert isinstance(found, Ran)
        [tensor] = tensors.decode(found.outcome.answers[0].result)
        assert (tensor.name, tensor.shape) == ("y", (2, 4))
        child.kill()
        await child.dead()

    run(main())
