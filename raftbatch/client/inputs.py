"""From what a caller gives to what a request carries: the envelope, its rows, its signature.

What lives here: that, by a model's declaration. What must never live here: a node. Called
by: `aio`. What is alike in many requests (names and shapes) is worked out once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from raftbatch import tensors
from raftbatch.client.values import to_tensor
from raftbatch.errors import InvalidRequest
from raftbatch.signatures import Spec, parse, signature
from raftbatch.tensors import BYTES, Tensor
from raftbatch.v1 import model_pb2

_FRAMES_MAX = 1024


@dataclass(frozen=True, slots=True)
class Payload:
    """Inputs that are made already, and go as they are.

    Attributes:
        data: an envelope (`raftbatch/tensors.py`), or whatever the model takes.
        rows: of the batch axis.
        signature: what else must be equal for requests to share a batch.
    """

    data: bytes
    rows: int = 1
    signature: str = ""


class Encoded(NamedTuple):
    """What a request carries.

    Attributes:
        payload: the envelope.
        rows: of the batch axis.
        signature: see `raftbatch/signatures.py`.
        is_single: whether the caller left the batch axis out.
    """

    payload: bytes
    rows: int
    signature: str
    is_single: bool


_encoded = partial(tuple.__new__, Encoded)
"""As the class itself, without the checks of a call by names: there are many."""


class _Frame(NamedTuple):
    """What envelopes of the same names, shapes and lengths have in common."""

    before: tuple[bytes, ...]  # what stands before each blob
    rows: int
    signature: str


class Encoder:
    """Makes requests for one model.

    Args:
        model: its settings, as a node tells them.

    Raises:
        InvalidRequest: its declaration cannot be read.
    """

    def __init__(self, model: model_pb2.Model) -> None:
        self.declared = parse(model.config)
        self._is_batched = model.max_batch_size > 0
        self._frames: dict[tuple[tuple[str, str, tuple[int, ...], int], ...], _Frame] = {}
        specs = self.declared.inputs.values()
        self._only = next(iter(specs)).name if len(specs) == 1 else ""
        self._texts = [spec.name for spec in specs if spec.is_text]
        # The commonest request of all, one text: what stands before it, by its length in bytes.
        self._quick: dict[int, tuple[bytes, str]] = {}
        # Requests whose elements differ in length may differ in signature.
        self._is_by_length = any(spec.datatype == BYTES and spec.buckets for spec in specs)

    def encode(self, inputs: Any) -> Encoded:
        """Return what a request with these inputs carries.

        Args:
            inputs: values by name; a value alone, where the model has one input; or a
                `Payload`.

        Raises:
            InvalidRequest: they are not what the model takes; definite, nothing was sent.
        """
        if self._only:
            value = inputs.get(self._only) if type(inputs) is dict and len(inputs) == 1 else inputs
            if type(value) is str:
                return self._text(value)
        return self._any(inputs)

    def _any(self, inputs: Any) -> Encoded:
        if type(inputs) is Payload:
            return Encoded(inputs.data, inputs.rows, inputs.signature, False)
        if not isinstance(inputs, Mapping):
            if not self._only:
                names = ", ".join(self.declared.inputs) or "its [models] table declares none"
                raise InvalidRequest(f"name the inputs: {{name: value}} ({names})")
            inputs = {self._only: inputs}
        found: list[Tensor] = []
        singles = 0
        for name in sorted(inputs) if len(inputs) > 1 else inputs:
            spec = self.declared.inputs.get(name)
            value = inputs[name]
            tensor = to_tensor(name, value, spec.datatype if spec is not None else "")
            if value is tensor and tensor.datatype == BYTES:
                tensors.check_elements(tensor)
            shape = self._shape(tensor.shape, spec)
            if shape != tensor.shape:
                singles += self._is_batched and not self._has_rows(tensor, spec)
                tensor = Tensor(name, tensor.datatype, shape, tensor.data)
            found.append(tensor)
        if singles not in (0, len(found)):
            raise InvalidRequest("some inputs have a batch axis, and some have none")
        return self._enveloped(found, singles > 0)

    def _text(self, text: str) -> Encoded:
        """Return what a request carries whose only input is a text."""
        try:
            data = text.encode()
        except UnicodeEncodeError:
            return self._any({self._only: text})  # which says what is wrong with it
        quick = self._quick.get(len(data))
        if quick is not None:
            return _encoded((quick[0] + data, 1, quick[1], self._is_batched))
        made = self._any({self._only: text})
        if len(self._quick) >= _FRAMES_MAX:
            self._quick.clear()
        self._quick[len(data)] = (made.payload[: len(made.payload) - len(data)], made.signature)
        return made

    def _has_rows(self, tensor: Tensor, spec: Spec | None) -> bool:
        """Whether a tensor that lacks axes has the batch axis all the same: a list of texts."""
        return spec is not None and spec.name in self._texts and len(tensor.shape) == 1

    def _shape(self, shape: tuple[int, ...], spec: Spec | None) -> tuple[int, ...]:
        """Return the shape with the batch axis, and with a text's axes of 1."""
        if spec is None:
            return shape if shape or not self._is_batched else (1,)
        rank = len(spec.dims)
        if not self._is_batched:
            return spec.dims if spec.name in self._texts and not shape else shape
        if len(shape) < 2 and spec.name in self._texts:
            return (*(shape or (1,)), *spec.dims)
        return (1, *shape) if len(shape) == rank else shape

    def _enveloped(self, found: list[Tensor], is_single: bool) -> Encoded:
        key = tuple([(each.name, each.datatype, each.shape, len(each.data)) for each in found])
        frame = self._frames.get(key)
        if frame is None:
            frame = self._framed(found)
            if len(self._frames) >= _FRAMES_MAX:
                self._frames.clear()
            self._frames[key] = frame
        signed = frame.signature
        if self._is_by_length:
            signed = signature(found, self.declared, is_batched=self._is_batched)
        parts: list[bytes | memoryview] = []
        for before, tensor in zip(frame.before, found, strict=True):
            parts.append(before)
            parts.append(tensor.data)
        return Encoded(b"".join(parts), frame.rows, signed, is_single)

    def _framed(self, found: list[Tensor]) -> _Frame:
        signed = signature(found, self.declared, is_batched=self._is_batched)
        rows = 1
        if self._is_batched:
            counts = [tensor.shape[0] for tensor in found]
            rows = counts[0]
            if rows < 1 or any(count != rows for count in counts):
                raise InvalidRequest(f"the inputs have {counts} rows: they must be equal, from 1")
        envelope = tensors.encode(found)
        before, end = [], 0
        for place in tensors.parse(envelope):
            before.append(envelope[end : place.offset])
            end = place.offset + place.length
        return _Frame(tuple(before), rows, signed)


def encode_parameters(parameters: bytes | Mapping[str, Any]) -> bytes:
    """Return parameters as they travel: a mapping as JSON with sorted keys, bytes as they are.

    Raises:
        InvalidRequest: it is not JSON; definite.
    """
    if isinstance(parameters, bytes):
        return parameters
    if not parameters:
        return b""
    try:
        text = json.dumps(dict(parameters), sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"the parameters are no JSON: {error}") from None
    return text.encode("ascii")
