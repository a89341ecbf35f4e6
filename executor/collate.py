"""Envelopes of the requests of a batch into `[rows, …]` for each input.

    payloads -> stack -> Stacked: inputs padded to buckets, who is in them, who is not and why

A request whose envelope is not what the model declares fails alone, before the model
sees it. What lives here: that, on numpy. What must never live here: a process, torch, what
the model gives (`outputs`). Called by: `executor.runtime`, in a child process; tests.
Deterministic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from executor.core.values import Answer
from executor.model import FREE, Tensor
from raftbatch import tensors
from raftbatch.errors import InvalidRequest
from raftbatch.signatures import bucket

INVALID_INPUT = "invalid_input"
BF16 = "BF16"

Array = npt.NDArray[Any]

DTYPES: dict[str, str] = {
    "BOOL": "?",
    "UINT8": "<u1",
    "UINT16": "<u2",
    "UINT32": "<u4",
    "UINT64": "<u8",
    "INT8": "<i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "FP16": "<f2",
    "FP32": "<f4",
    "FP64": "<f8",
    BF16: "<u2",  # numpy has none: its bits
}
"""Of each datatype of a fixed size, what numpy calls it."""


@dataclass(frozen=True, slots=True)
class Form:
    """What a model declares.

    Attributes:
        inputs: its inputs.
        outputs: its outputs.
        has_batch_axis: whether requests bring rows; else each is alone, and gets one.
    """

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    has_batch_axis: bool = True


@dataclass(frozen=True, slots=True)
class Stacked:
    """A batch as a model takes it.

    Attributes:
        inputs: by name.
        rows: of the batch.
        spans: of each request: where its rows begin, and how many they are; None: it failed.
        answers: of the requests that failed, by place.
        lengths: by name of an input with free dimensions: of each row, before padding.
        padded: rows, then the size of each free dimension of each input.
    """

    inputs: dict[str, Any]
    rows: int
    spans: list[tuple[int, int] | None]
    answers: dict[int, Answer]
    lengths: dict[str, list[tuple[int, ...]]]
    padded: tuple[int, ...]


def stack(
    form: Form,
    payloads: Sequence[bytes],
    rows: Sequence[int],
    failed: Mapping[int, Answer] | None = None,
) -> Stacked:
    """Return requests side by side.

    Args:
        form: what the model declares.
        payloads: their envelopes.
        rows: how many each says that it has.
        failed: requests that are left out, by place, and what they are told.
    """
    taken: list[dict[str, Any]] = []
    spans: list[tuple[int, int] | None] = []
    answers: dict[int, Answer] = dict(failed or {})
    begin = 0
    for place, (payload, count) in enumerate(zip(payloads, rows, strict=True)):
        if place in answers:
            spans.append(None)
            continue
        try:
            taken.append(_open(form, payload, count))
        except InvalidRequest as error:
            answers[place] = Answer(b"", INVALID_INPUT, error.message)
            spans.append(None)
            continue
        spans.append((begin, count))
        begin += count
    inputs: dict[str, Any] = {}
    lengths: dict[str, list[tuple[int, ...]]] = {}
    padded = [begin]
    counts = [span[1] for span in spans if span is not None]
    for each in form.inputs if taken else ():
        parts = [values[each.name] for values in taken]
        if each.datatype == tensors.BYTES:
            inputs[each.name] = [element for part in parts for element in part]
            continue
        if each.free_axes:
            own = [tuple([part.shape[axis + 1] for axis in each.free_axes]) for part in parts]
            sizes = [bucket(max(column), each.buckets) for column in zip(*own, strict=True)]
            lengths[each.name] = [
                size for size, count in zip(own, counts, strict=True) for _ in range(count)
            ]
            padded += sizes
            inputs[each.name] = _padded(each, parts, sizes)
        else:
            inputs[each.name] = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return Stacked(inputs, begin, spans, answers, lengths, tuple(padded))


def _open(form: Form, payload: bytes, rows: int) -> dict[str, Any]:
    """Return the inputs of one request.

    Raises:
        InvalidRequest: it is not what the model declares.
    """
    given = {each.name: each for each in tensors.decode(payload)}
    unknown = [name for name in given if all(name != each.name for each in form.inputs)]
    if unknown:
        raise InvalidRequest(f"{unknown[0]!r} is none of the model's inputs")
    found: dict[str, Any] = {}
    for each in form.inputs:
        tensor = given.get(each.name)
        if tensor is None:
            raise InvalidRequest(f"the input {each.name!r} is missing")
        if tensor.datatype != each.datatype:
            raise InvalidRequest(
                f"{each.name!r} is {tensor.datatype}, and the model wants {each.datatype}"
            )
        shape = tensor.shape if form.has_batch_axis else (1, *tensor.shape)
        wanted = (rows, *each.dims)
        if shape[:1] != (rows,) or not fits(each, shape[1:]):
            said = list(wanted if form.has_batch_axis else wanted[1:])
            raise InvalidRequest(
                f"{each.name!r} has the shape {list(tensor.shape)}, and the model wants {said}"
            )
        if each.datatype == tensors.BYTES:
            found[each.name] = _elements(each, tensor, rows)
        else:
            data = np.frombuffer(tensor.data, DTYPES[each.datatype])
            found[each.name] = data.reshape(shape)
    return found


def _elements(declared: Tensor, tensor: tensors.Tensor, rows: int) -> list[Any]:
    """Return, for each row, its one element, or the list of them."""
    flat: list[Any] = list(tensors.elements(tensor))
    if declared.text:
        try:
            flat = [each.decode() for each in flat]
        except UnicodeDecodeError:
            raise InvalidRequest(f"{declared.name!r} holds something that is no UTF-8") from None
    if declared.dims in ((), (1,)):
        return flat
    each = len(flat) // rows
    return [flat[begin : begin + each] for begin in range(0, len(flat), each or 1)] or [[]] * rows


def _padded(declared: Tensor, parts: Sequence[Array], sizes: Sequence[int]) -> Array:
    dims = list(declared.dims)
    for axis, size in zip(declared.free_axes, sizes, strict=True):
        dims[axis] = size
    found = np.zeros((sum([len(part) for part in parts]), *dims), parts[0].dtype)
    begin = 0
    for part in parts:
        place = (slice(begin, begin + len(part)), *[slice(size) for size in part.shape[1:]])
        found[place] = part
        begin += len(part)
    return found


def fits(declared: Tensor, dims: Sequence[int]) -> bool:
    """Return whether dimensions, without the batch axis, are those of a tensor."""
    if dims == declared.dims:
        return True
    return len(dims) == len(declared.dims) and all(
        dim in (FREE, size) for dim, size in zip(declared.dims, dims, strict=True)
    )
