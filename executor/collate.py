"""Envelopes of the requests of a batch into `[rows, …]` for each input, and back again.

    payloads -> stack -> Stacked: inputs padded to buckets, who is in them, who is not and why
    outputs  -> split -> an envelope for each request, padding cut off, or why it failed

A request whose envelope is not what the model declares fails alone, before the model
sees it. What the model gives that cannot be told apart by rows fails the batch.

What lives here: that, on numpy. What must never live here: a process, torch. Called by:
`executor.runtime`, in a child process; tests. Deterministic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from executor.core.values import Answer
from executor.loading import plain
from executor.model import FREE, ItemError, Tensor
from raftbatch import tensors
from raftbatch.errors import InvalidRequest
from raftbatch.fields import NAME_LENGTH_MAX
from raftbatch.signatures import bucket

INVALID_INPUT = "invalid_input"
BAD_OUTPUT = "bad_output"
NOT_FINITE = "not_finite"
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


class BadOutput(Exception):
    """What a model gave is not what it declares: the batch fails."""


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


def split(form: Form, stacked: Stacked, outputs: Mapping[str, Any]) -> list[Answer]:
    """Return what each request gets, in their order.

    Raises:
        BadOutput: the outputs are not what the model declares.
    """
    errors: dict[int, ItemError] = {}
    columns = [_column(each, outputs, stacked, errors) for each in form.outputs]
    answers = []
    for place, span in enumerate(stacked.spans):
        if span is None:
            answers.append(stacked.answers[place])
            continue
        begin, count = span
        failed = _first_failed(errors, begin, count) if errors else None
        if failed is not None:
            code = plain(failed.code)[:NAME_LENGTH_MAX] or "item_failed"
            answers.append(Answer(b"", code, plain(failed.message)))
            continue
        found = [
            _close(form, each, column, begin, count, stacked)
            for each, column in zip(form.outputs, columns, strict=True)
        ]
        answers.append(Answer(tensors.encode(found)))
    return answers


def _first_failed(errors: Mapping[int, ItemError], begin: int, count: int) -> ItemError | None:
    return next((errors[row] for row in range(begin, begin + count) if row in errors), None)


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
        if shape[:1] != (rows,) or not _fits(each, shape[1:]):
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


def _column(
    declared: Tensor,
    outputs: Mapping[str, Any],
    stacked: Stacked,
    errors: dict[int, ItemError],
) -> Any:
    """Return one output, `[rows, …]`, and note which rows have failed."""
    if declared.name not in outputs:
        raise BadOutput(f"the output {declared.name!r} is missing")
    column = outputs[declared.name]
    rows = stacked.rows
    if isinstance(column, list | tuple):
        for row, value in enumerate(column):
            if isinstance(value, ItemError):
                errors.setdefault(row, value)
        if declared.datatype != tensors.BYTES and len(column) == rows:
            column = _filled(declared, column, errors)
    elif declared.datatype != tensors.BYTES:
        column = _array(declared, column)
    is_scalar = isinstance(column, np.ndarray) and column.ndim == 0
    is_rows = isinstance(column, list | tuple | np.ndarray) and not is_scalar
    count = len(column) if is_rows else 0
    if count != rows:
        raise BadOutput(f"{declared.name!r} has {count} rows, and the batch {rows}")
    if declared.finite and declared.datatype in ("FP16", "FP32", "FP64"):
        axes = tuple(range(1, np.ndim(column)))
        for row in np.flatnonzero(~np.isfinite(column).all(axis=axes)).tolist():
            errors.setdefault(row, ItemError(f"{declared.name!r} is not finite", NOT_FINITE))
    return column


def _filled(declared: Tensor, column: Sequence[Any], errors: dict[int, ItemError]) -> Array:
    """Return a list of rows as an array, with zeros where a row has failed, or is misshapen."""
    good: dict[int, Array] = {}
    for row, value in enumerate(column):
        if isinstance(value, ItemError):
            continue
        array = _array(declared, value)
        if _fits(declared, array.shape):
            good[row] = array
        else:
            said = (
                f"{declared.name!r} has the shape {list(array.shape)} for each row, and declares "
                f"{list(declared.dims)}"
            )
            errors.setdefault(row, ItemError(said, BAD_OUTPUT))
    shapes = {each.shape for each in good.values()}
    if len(shapes) > 1:
        raise BadOutput(f"{declared.name!r} has rows of different shapes")
    dims = shapes.pop() if shapes else tuple([max(1, dim) for dim in declared.dims])
    found = np.zeros((len(column), *dims), DTYPES[declared.datatype])
    for row, array in good.items():
        found[row] = array
    return found


def _fits(declared: Tensor, dims: Sequence[int]) -> bool:
    if dims == declared.dims:
        return True
    return len(dims) == len(declared.dims) and all(
        dim in (FREE, size) for dim, size in zip(declared.dims, dims, strict=True)
    )


def _array(declared: Tensor, column: Any) -> Array:
    """Return an output as an array of the datatype that is declared."""
    wanted = np.dtype(DTYPES[declared.datatype])
    try:
        array = np.asarray(column)
        bits = declared.datatype == BF16 and array.dtype in (np.int16, np.uint16)
        fits = declared.datatype != BF16 and np.can_cast(array.dtype, wanted, "same_kind")
        if array.size and not bits and not fits:
            raise BadOutput(f"{declared.name!r} is {array.dtype}, which is no {declared.datatype}")
        return np.asarray(array, wanted, order="C")
    except (TypeError, ValueError) as error:
        raise BadOutput(f"{declared.name!r} is no {declared.datatype}: {error}") from None


def _close(
    form: Form, declared: Tensor, column: Any, begin: int, count: int, stacked: Stacked
) -> tensors.Tensor:
    """Return one output of one request, without padding."""
    part = column[begin : begin + count]
    if declared.datatype == tensors.BYTES:
        elements = [element for row in part for element in _listed(declared, row)]
        width = len(elements) // count
        dims = declared.dims if FREE not in declared.dims else (width,)
        data = tensors.join_elements(elements)
    else:
        part = _cut(declared, part, begin, stacked)
        dims, data = part.shape[1:], np.ascontiguousarray(part).tobytes()
    shape = (count, *dims) if form.has_batch_axis else tuple(dims)
    if not _fits(declared, dims):
        raise BadOutput(
            f"{declared.name!r} has the shape {list(dims)} for each row, and declares "
            f"{list(declared.dims)}"
        )
    try:
        return tensors.Tensor(declared.name, declared.datatype, shape, data)
    except InvalidRequest as error:
        raise BadOutput(error.message) from None


def _cut(declared: Tensor, part: Array, begin: int, stacked: Stacked) -> Array:
    """Cut off what was padding in the input that this output follows."""
    own = stacked.lengths.get(declared.like)
    if own is None:
        return part
    place = [slice(None)] * part.ndim
    for axis, size in zip(declared.free_axes, own[begin], strict=False):
        if axis + 1 < part.ndim:
            place[axis + 1] = slice(size)
    return part[tuple(place)]


def _listed(declared: Tensor, row: Any) -> list[bytes]:
    """Return a row of a BYTES output as its elements."""
    if type(row) is str:  # the commonest of all
        return [row.encode()]
    row = row.tolist() if isinstance(row, np.ndarray | np.generic) else row
    values = row if isinstance(row, list | tuple) else [row]
    found = []
    for value in values:
        if isinstance(value, str):
            found.append(value.encode())
        elif isinstance(value, bytes | bytearray | memoryview):
            found.append(bytes(value))
        else:
            raise BadOutput(f"{declared.name!r} holds {type(value).__name__}, not text or bytes")
    return found
