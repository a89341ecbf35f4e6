"""Envelopes of the requests of a batch into `[rows, …]` for each input.

    payloads -> opened -> each request, or why it fails
             -> together -> which of them run together: all, unless padding takes too much
             -> stack -> inputs padded to buckets, who is in them, who is not and why

A request whose envelope is not what the model declares, or larger than the signature of its
batch says, fails alone, before anything is made for it and the model sees it.

What lives here: that, on numpy. What must never live here: a process, torch, what the model
gives (`outputs`). Called by: `executor.runtime`, in a child process; tests. Deterministic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from executor.core.values import Answer
from executor.frames import PADDED_BYTES_MAX
from executor.model import FREE, Tensor
from raftbatch import tensors
from raftbatch.errors import InvalidRequest
from raftbatch.signatures import Room, bucket, rooms

INVALID_INPUT = "invalid_input"
BF16 = "BF16"

_EMPTY_BYTES_MAX = 1 << 20  # of a row, were no dimension 0: an honest one is a sequence of nothing

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
class Opened:
    """One request, its envelope opened.

    Attributes:
        rows: of it.
        values: its inputs by name: arrays over the envelope's own bytes, or lists of elements.
    """

    rows: int
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Stacked:
    """A batch, or a part of it, as a model takes it.

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


def opened(
    form: Form,
    payloads: Sequence[bytes],
    rows: Sequence[int],
    failed: Mapping[int, Answer] | None = None,
    signature: str = "",
) -> list[Opened | Answer]:
    """Return the requests of a batch, or, in the place of one that fails, what it is told.

    Nothing is allocated here for what an envelope only speaks of.

    Args:
        form: what the model declares.
        payloads: their envelopes.
        rows: how many each says that it has.
        failed: requests that are left out, by place, and what they are told.
        signature: of the batch: no request is larger. One that is not made of these inputs, as
            the empty one, says nothing.
    """
    of_batch = rooms(signature, tuple([(each.name, each.datatype) for each in form.inputs]))
    found: list[Opened | Answer] = []
    for place, (payload, count) in enumerate(zip(payloads, rows, strict=True)):
        if failed and place in failed:
            found.append(failed[place])
            continue
        try:
            found.append(Opened(count, _open(form, payload, count, of_batch or {})))
        except InvalidRequest as error:
            found.append(Answer(b"", INVALID_INPUT, error.message))
    return found


def together(
    form: Form, requests: list[Opened | Answer], bytes_max: int = PADDED_BYTES_MAX
) -> list[list[int]]:
    """Return which requests run together, by their places, so that padding stays within bounds.

    Mostly all do. Where one is much larger than others, these are not padded to its size, but
    run for themselves. One that its buckets alone pad beyond the bounds fails.

    Args:
        form: what the model declares.
        requests: of the batch; those that fail here are replaced by what they are told.
        bytes_max: what the padded inputs of those that run together take.
    """
    free = [each for each in form.inputs if each.free_axes and each.datatype != tensors.BYTES]
    places = [place for place, each in enumerate(requests) if isinstance(each, Opened)]
    if not free or not places:
        return [places] if places else []
    sizes = {place: _free_sizes(free, requests[place]) for place in places}
    rows = {place: cast("Opened", requests[place]).rows for place in places}
    whole = list(map(max, zip(*sizes.values(), strict=True)))
    if _padded_bytes(free, whole, sum(rows.values())) <= bytes_max:
        return [places]
    alone = {place: _padded_bytes(free, sizes[place], rows[place]) for place in places}
    for place, size in alone.items():
        own = cast("Opened", requests[place]).values
        if size > max(bytes_max, 2 * sum([own[each.name].nbytes for each in free])):
            said = f"its buckets pad it to {size} bytes, and at most {bytes_max} are run at once"
            requests[place] = Answer(b"", INVALID_INPUT, said)
    groups: list[list[int]] = []
    most: list[int] = []
    count = 0
    for place in sorted(places, key=lambda place: -alone[place] // max(1, rows[place])):
        if isinstance(requests[place], Answer):
            continue
        wider = list(map(max, most, sizes[place])) if most else sizes[place]
        if not groups or _padded_bytes(free, wider, count + rows[place]) > bytes_max:
            groups.append([])
            wider, count = sizes[place], 0
        groups[-1].append(place)
        most, count = wider, count + rows[place]
    return [sorted(each) for each in groups]


def _free_sizes(free: Sequence[Tensor], request: Opened | Answer) -> list[int]:
    """Return the sizes of the free dimensions of a request, padded to their buckets."""
    values = cast("Opened", request).values
    return [
        bucket(values[each.name].shape[axis + 1], each.buckets)
        for each in free
        for axis in each.free_axes
    ]


def _padded_bytes(free: Sequence[Tensor], sizes: Sequence[int], rows: int) -> int:
    """Return what inputs with free dimensions take, padded to these sizes."""
    found = place = 0
    for each in free:
        size = rows * tensors.ITEM_BYTES[each.datatype]
        own = iter(sizes[place : place + len(each.free_axes)])
        size *= prod([next(own) if dim == FREE else dim for dim in each.dims])
        place += len(each.free_axes)
        found += size
    return found


def stack(form: Form, requests: Sequence[Opened | Answer]) -> Stacked:
    """Return requests side by side.

    Args:
        form: what the model declares.
        requests: that run together; one that has failed is in no row.
    """
    taken: list[Mapping[str, Any]] = []
    spans: list[tuple[int, int] | None] = []
    answers: dict[int, Answer] = {}
    begin = 0
    for place, request in enumerate(requests):
        if isinstance(request, Answer):
            answers[place] = request
            spans.append(None)
            continue
        taken.append(request.values)
        spans.append((begin, request.rows))
        begin += request.rows
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


def _open(form: Form, payload: bytes, rows: int, of_batch: Mapping[str, Room]) -> dict[str, Any]:
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
        room = of_batch.get(each.name)
        _check_room(each, tensor, shape[1:], room)
        if each.datatype == tensors.BYTES:
            found[each.name] = _elements(each, tensor, rows, room)
        else:
            data = np.frombuffer(tensor.data, DTYPES[each.datatype])
            found[each.name] = data.reshape(shape)
    return found


def _check_room(
    declared: Tensor, tensor: tensors.Tensor, dims: Sequence[int], room: Room | None
) -> None:
    """Refuse free dimensions that nothing stands for: neither bytes, nor the batch's signature.

    Raises:
        InvalidRequest: there is one; others would be padded to it.
    """
    if not declared.free_axes:
        return
    if 0 in dims:  # no byte of it says that the others are true
        size = prod([max(1, dim) for dim in dims]) * tensors.ITEM_BYTES.get(tensor.datatype, 1)
        if size > _EMPTY_BYTES_MAX:
            raise InvalidRequest(
                f"{declared.name!r} has the shape {list(tensor.shape)}, and no element"
            )
    if room is not None and (
        len(room.dims) != len(dims)
        or any(dims[axis] > room.dims[axis] for axis in declared.free_axes)
    ):
        raise InvalidRequest(
            f"{declared.name!r} has the shape {list(tensor.shape)}, and the signature of its "
            f"batch has room for {list(room.dims)} in each row"
        )


def _elements(declared: Tensor, tensor: tensors.Tensor, rows: int, room: Room | None) -> list[Any]:
    """Return, for each row, its one element, or the list of them."""
    flat: list[Any] = list(tensors.elements(tensor))
    longest = max(map(len, flat), default=0)
    if room is not None and room.length is not None and longest > room.length:
        raise InvalidRequest(
            f"{declared.name!r} has an element of {longest} bytes, and the signature "
            f"of its batch has room for {room.length}"
        )
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
