"""A model is loaded, warmed up and run; whatever it does wrong is a value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from executor.core.values import Failure, Outcome
from executor.frames import Batch, Load
from executor.loading import CannotLoad, said
from executor.runtime import Runtime
from raftbatch import tensors
from raftbatch.realworld import RealClock, RealFiles

MODEL = """
from executor.model import ItemError, Tensor

class Double:
    inputs = [Tensor("x", "FP32", (2,))]
    outputs = [Tensor("y", "FP32", (2,))]

    def load(self, context):
        self.context, self.warm = context, 0

    def warmup(self):
        self.warm += 1
        if self.context.options.get("cold"):
            raise RuntimeError("it is cold")

    def predict(self, batch):
        assert self.warm
        factor = batch.parameters[0].get("factor", 2)
        if factor == "memory":
            raise MemoryError("no more")
        if factor in ("cpu", "driver", "assert"):
            said = {
                "cpu": "DefaultCPUAllocator: no",
                "driver": "CUDA error: out of memory",
                "assert": "CUDA error: an assert",
            }
            raise RuntimeError(said[factor])
        if factor == "array":
            raise type("_ArrayMemoryError", (MemoryError,), {})("no more")
        if factor == "device":
            raise type("OutOfMemoryError", (RuntimeError,), {})("no more")
        if factor == "exit":
            raise SystemExit(3)
        if factor == "nothing":
            return None
        if factor == "mute":
            def no_text(self):
                raise RuntimeError
            raise type("Mute", (BaseException,), {"__str__": no_text})
        return {"y": batch.inputs["x"] * factor}
"""


def load(folder: Path, text: str = MODEL, **more: Any) -> Runtime:
    """Return a model that is loaded."""
    file = folder / "double.py"
    file.write_text(text, encoding="utf-8")
    fields: dict[str, Any] = {
        "name": "double",
        "version": "1",
        "file": str(file),
        "module": "",
        "class_name": "Double",
        "inputs": (),
        "outputs": (),
        "has_batch_axis": True,
        "instance": 0,
        "threads": 1,
        "device": "",
        "options": {},
    }
    return Runtime(RealFiles(), RealClock(), Load(**(fields | more)))


def batch(*payloads: bytes, parameters: bytes = b"") -> Batch:
    """Return a batch of requests of one row."""
    count = len(payloads)
    return Batch(1, payloads, (1,) * count, (parameters,) * count)


def x(*values: float) -> bytes:
    """Return an envelope of one row."""
    data = np.array([values], "<f4")
    return tensors.encode([tensors.Tensor("x", "FP32", data.shape, data.tobytes())])


def y(result: bytes) -> list[float]:
    """Return the numbers of an envelope of one output."""
    [tensor] = tensors.decode(result)
    return np.frombuffer(tensor.data, "<f4").tolist()  # type: ignore[no-any-return]


def test_batch_is_run(tmp_path: Path) -> None:
    runtime = load(tmp_path)
    found = runtime.run(batch(x(1, 2), b"bad", x(3, 4)))
    assert isinstance(found, Outcome)
    assert [each.code for each in found.answers] == ["", "invalid_input", ""]
    assert [y(found.answers[n].result) for n in (0, 2)] == [[2, 4], [6, 8]]
    assert found.padded == (2,)
    assert len(found.fingerprint) == 16
    found = runtime.run(batch(x(1, 2), parameters=b'{"factor": 5}'))
    assert isinstance(found, Outcome)
    assert y(found.answers[0].result) == [5, 10]
    found = runtime.run(batch(x(1, 2), parameters=b"["))
    assert isinstance(found, Outcome), "the model is not asked, where nobody is left"
    assert [each.code for each in found.answers] == ["invalid_parameters"]


@pytest.mark.parametrize(
    ("factor", "failure"),
    [
        ("memory", Failure("out_of_memory", "MemoryError: no more", is_lasting=True)),
        ("array", Failure("out_of_memory", "_ArrayMemoryError: no more", is_lasting=True)),
        ("cpu", Failure("out_of_memory", "RuntimeError: DefaultCPUAllocator: no", True)),
        ("device", Failure("out_of_memory", "OutOfMemoryError: no more")),
        ("driver", Failure("out_of_memory", "RuntimeError: CUDA error: out of memory")),
        ("assert", Failure("model_failed", "RuntimeError: CUDA error: an assert", True)),
        ("exit", Failure("model_failed", "SystemExit: 3")),
        ("mute", Failure("model_failed", "Mute: a Mute that has no text")),
        ("nothing", Failure("bad_output", "predict gave NoneType, not outputs by name")),
    ],
)
def test_batch_fails_as_a_whole(tmp_path: Path, factor: str, failure: Failure) -> None:
    parameters = b'{"factor": "%s"}' % factor.encode()
    assert load(tmp_path).run(batch(x(1, 2), parameters=parameters)) == failure


def test_what_ran_out_of_memory_holds_nothing_any_more(tmp_path: Path) -> None:
    """What its code held would else be there while the device is asked for its memory back."""
    text = """
import weakref
from executor.model import Tensor

class Hog:
    inputs = outputs = [Tensor("x", "FP32", (2,))]

    def load(self, context):
        self.held = []

    def predict(self, batch):
        class Large:
            pass
        large = Large()
        self.held.append(weakref.ref(large))
        raise MemoryError
"""
    runtime = load(tmp_path, text, class_name="Hog")
    freed: list[bool] = []
    runtime.backend.recover = lambda: freed.append(  # type: ignore[method-assign]
        runtime._model.held[0]() is None
    )
    assert isinstance(runtime.run(batch(x(1, 2))), Failure)
    assert freed == [True]


def test_error_is_said_in_text_that_can_travel() -> None:
    assert said(ValueError("half a character: \ud800\0\nmore")) == "ValueError: half a character: ?"
    assert said(ValueError()) == "ValueError"


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        (MODEL, {"options": {"cold": True}}, "warm-up of double failed: RuntimeError: it is cold"),
        ("import torch_that_is_not_there", {}, "No module named 'torch_that_is_not_there'"),
        (MODEL, {"class_name": "Triple"}, "has no class 'Triple', only Double"),
        ("raise SystemExit", {}, "does not import: SystemExit"),
        (MODEL.replace("FP32", "FP31"), {}, "datatype 'FP31' is unknown"),
        (MODEL, {"inputs": ({"name": "z", "datatype": "FP32", "dims": [2]},)}, "other inputs"),
        (MODEL, {"inputs": ({"name": "x", "kind": 1},)}, "unexpected keyword argument 'kind'"),
        (MODEL.replace("    inputs", "    backend = 'onnx'\n    inputs"), {}, "'onnx' is unknown"),
        (MODEL, {"file": "gone.py"}, "there is no gone.py"),
        (MODEL, {"file": "", "module": "gone.away"}, "No module named 'gone'"),
    ],
)
def test_what_cannot_be_loaded_is_said(
    tmp_path: Path, text: str, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(CannotLoad) as caught:
        load(tmp_path, text, **more)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_model_may_be_a_package(tmp_path: Path) -> None:
    package = tmp_path / "models"
    package.mkdir()
    (package / "inner.py").write_text(MODEL, encoding="utf-8")
    (package / "__init__.py").write_text("from .inner import Double\n", encoding="utf-8")
    found = load(tmp_path, file=str(package)).run(batch(x(1, 2)))
    assert isinstance(found, Outcome)


def test_missing_torch_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(CannotLoad, match="needs torch, which is not installed: pip install"):
        load(tmp_path, file="", module="executor.examples.mlp", class_name="MLP", name="mlp")
    with pytest.raises(CannotLoad, match=r"double.py needs torch, which is not installed"):
        load(tmp_path, "import torch")


FREE = """
import numpy as np
from executor.model import Tensor

class Double:
    inputs = [Tensor("x", "FP32", (-1,))]
    outputs = [Tensor("y", "FP32", (2,))]

    def load(self, context):
        pass

    def predict(self, batch):
        width = batch.inputs["x"].shape[1]
        own = [each["own"] for each in batch.parameters]
        assert own == sorted(own)
        return {"y": np.array([[width, each] for each in own], "<f4")}
"""


def test_batch_that_padding_would_make_too_large_runs_in_parts(tmp_path: Path) -> None:
    runtime = load(tmp_path, FREE, padded_bytes_max=400)
    payloads = x(*[1.0] * 3), b"bad", x(*[1.0] * 90), x(*[1.0] * 4)
    parameters = tuple([b'{"own": %d}' % own for own in range(4)])
    found = runtime.run(Batch(1, payloads, (1,) * 4, parameters, "x:FP32[90]"))
    assert isinstance(found, Outcome)
    assert [each.code for each in found.answers] == ["", "invalid_input", "", ""]
    assert [y(found.answers[n].result) for n in (0, 2, 3)] == [[4, 0], [90, 2], [4, 3]]
    assert found.padded == (2, 90)
    found = runtime.run(Batch(1, payloads, (1,) * 4, parameters, "x:FP32[3]"))
    assert isinstance(found, Outcome)
    assert [each.code for each in found.answers] == ["", *["invalid_input"] * 3]


def test_shape_that_no_byte_stands_for_costs_neither_the_batch_nor_the_process(
    tmp_path: Path,
) -> None:
    runtime = load(tmp_path, FREE.replace("(-1,)", "(-1, -1)").replace("shape[1]", "shape[2]"))
    good = tensors.encode([tensors.Tensor("x", "FP32", (1, 5, 5), bytes(100))])
    bad = tensors.encode([tensors.Tensor("x", "FP32", (1, 0, 1 << 40), b"")])
    found = runtime.run(Batch(1, (good, bad), (1, 1), (b'{"own": 7}',) * 2, "x:FP32[5,5]"))
    assert isinstance(found, Outcome)
    assert [each.code for each in found.answers] == ["", "invalid_input"]
    assert y(found.answers[0].result) == [5, 7]
