"""What a model gave, as an envelope for each request, or as why that request failed.

    outputs -> split -> padding cut off, an envelope each; or a code and what is wrong

What can be told by rows fails the request of that row alone: an `ItemError`, a row of
another shape or kind than declared, one that is not finite where it has to be, a result
that is too large to travel. What cannot be told apart, such as an output that is missing
or has another number of rows, fails the batch, which is halved until it is one request's.

What lives here: that, on numpy. What must never live here: a process, torch. Called by:
`executor.runtime`, in a child process; tests. Deterministic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from executor.collate import BF16, DTYPES, Array, Form, Stacked, fits
from executor.core.reports import RESULT_TOO_LARGE
from executor.core.values import Answer
from executor.loading import plain
from executor.model import FREE, ItemError, Tensor
from raftbatch import tensors
from raftbatch.errors import InvalidRequest
from raftbatch.fields import NAME_LENGTH_MAX

BAD_OUTPUT = "bad_output"
NOT_FINITE = "not_finite"

RESULT_BYTES_MAX = 24 << 20
"""Of one request, unless the configuration says otherwise."""

_BF16_EXPONENT = 0x7F80
_FLOATS = ("FP16", "FP32", "FP64", BF16)


class BadOutput(Exception):
    """What a model gave is not what it declares: the batch fails."""


@dataclass(frozen=True, slots=True)
class _Column:
    """One output of a batch.

    Attributes:
        declared: what it is to be.
        values: `[rows, …]`; of BYTES, and where shapes differ, a list of rows.
        is_suspect: whether some row may not be finite that has to be.
    """

    declared: Tensor
    values: Any
    is_suspect: bool = False


def split(
    form: Form,
    stacked: Stacked,
    outputs: Mapping[str, Any],
    result_bytes_max: int = RESULT_BYTES_MAX,
) -> list[Answer]:
    """Return what each request gets, in their order.

    Args:
        form: what the model declares.
        stacked: what it was given.
        outputs: what it gave.
        result_bytes_max: of one request; a larger one fails.

    Raises:
        BadOutput: the outputs are not what the model declares, and nothing tells whose are.
    """
    errors: dict[int, ItemError] = {}
    columns = [_column(each, outputs, stacked, errors) for each in form.outputs]
    answers = []
    for place, span in enumerate(stacked.spans):
        if span is None:
            answers.append(stacked.answers[place])
            continue
        try:
            result = _result(form, columns, span, stacked, errors, result_bytes_max)
        except ItemError as failed:
            code = plain(failed.code)[:NAME_LENGTH_MAX] or "item_failed"
            answers.append(Answer(b"", code, plain(failed.message)))
        else:
            answers.append(Answer(result))
    return answers


def _result(
    form: Form,
    columns: Sequence[_Column],
    span: tuple[int, int],
    stacked: Stacked,
    errors: Mapping[int, ItemError],
    result_bytes_max: int,
) -> bytes:
    """Return the envelope of one request. Raises ItemError where it failed."""
    begin, count = span
    if errors:
        for row in range(begin, begin + count):
            if row in errors:
                raise errors[row]
    found: list[tensors.Tensor] = []
    size = 0
    for each in columns:
        given = _rows(each, begin, count, stacked)
        size += _size(given)
        if size > result_bytes_max:
            raise _too_large(size, result_bytes_max)
        found.append(_close(form, each.declared, given, count))
    try:
        result = tensors.encode(found)
    except InvalidRequest as error:  # more elements than its shape has room for
        raise ItemError(error.message, BAD_OUTPUT) from None
    if len(result) > result_bytes_max:
        raise _too_large(len(result), result_bytes_max)
    return result


def _too_large(size: int, most: int) -> ItemError:
    return ItemError(
        f"the result has {size} bytes or more, and what may travel is {most}", RESULT_TOO_LARGE
    )


def _bad(declared: Tensor, said: str) -> ItemError:
    return ItemError(f"{declared.name!r} {said}", BAD_OUTPUT)


def _column(
    declared: Tensor,
    outputs: Mapping[str, Any],
    stacked: Stacked,
    errors: dict[int, ItemError],
) -> _Column:
    """Return one output, and note which rows have failed."""
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
        try:
            column = _array(declared, column)
        except ItemError as error:
            raise BadOutput(error.message) from None
    is_scalar = isinstance(column, np.ndarray) and column.ndim == 0
    is_rows = isinstance(column, list | tuple | np.ndarray) and not is_scalar
    count = len(column) if is_rows else 0
    if count != rows:
        raise BadOutput(f"{declared.name!r} has {count} rows, and the batch {rows}")
    if isinstance(column, np.ndarray) and declared.datatype != tensors.BYTES:
        _check_shape(declared, column)
        return _Column(declared, column, not _is_finite(declared, column))
    return _Column(declared, column, declared.finite)


def _check_shape(declared: Tensor, column: Array) -> None:
    """Refuse an array all of whose rows have a shape that is not declared."""
    if not fits(declared, column.shape[1:]):
        raise BadOutput(_shape_said(declared, column.shape[1:]))


def _shape_said(declared: Tensor, dims: Sequence[int]) -> str:
    return (
        f"{declared.name!r} has the shape {list(dims)} for each row, and declares "
        f"{list(declared.dims)}"
    )


def _filled(
    declared: Tensor, column: Sequence[Any], errors: dict[int, ItemError]
) -> Array | list[Array | None]:
    """Return a list of rows as an array, zeros where one failed; a list if shapes differ."""
    good: dict[int, Array] = {}
    for row, value in enumerate(column):
        if isinstance(value, ItemError):
            continue
        try:
            array = _array(declared, value)
        except ItemError as error:
            errors.setdefault(row, error)
            continue
        if fits(declared, array.shape):
            good[row] = array
        else:
            errors.setdefault(row, ItemError(_shape_said(declared, array.shape), BAD_OUTPUT))
    shapes = {each.shape for each in good.values()}
    if len(shapes) > 1:
        return [good.get(row) for row in range(len(column))]
    dims = shapes.pop() if shapes else tuple([max(1, dim) for dim in declared.dims])
    found = np.zeros((len(column), *dims), DTYPES[declared.datatype])
    for row, array in good.items():
        found[row] = array
    return found


def _array(declared: Tensor, column: Any) -> Array:
    """Return an output as an array of the declared datatype. Raises ItemError if it is none."""
    wanted = np.dtype(DTYPES[declared.datatype])
    try:
        array = np.asarray(column)
        bits = declared.datatype == BF16 and array.dtype in (np.int16, np.uint16)
        is_cast = declared.datatype != BF16 and np.can_cast(array.dtype, wanted, "same_kind")
        if array.size and not bits and not is_cast:
            raise _bad(declared, f"is {array.dtype}, which is no {declared.datatype}")
        return np.asarray(array, wanted, order="C")
    except (TypeError, ValueError) as error:
        raise _bad(declared, f"is no {declared.datatype}: {error}") from None


def _is_finite(declared: Tensor, values: Array) -> bool:
    """Return whether all is finite that has to be."""
    if not declared.finite or declared.datatype not in _FLOATS:
        return True
    if declared.datatype == BF16:
        return not np.any((values & _BF16_EXPONENT) == _BF16_EXPONENT)
    return bool(np.isfinite(values).all())


def _rows(column: _Column, begin: int, count: int, stacked: Stacked) -> Array | list[bytes]:
    """Return one output of one request: its rows without padding, or its elements of BYTES."""
    declared = column.declared
    part = column.values[begin : begin + count]
    if declared.datatype == tensors.BYTES:
        return [element for row in part for element in _listed(declared, row)]
    if isinstance(part, list):
        if len({each.shape for each in part}) > 1:
            raise _bad(declared, "has rows of different shapes in one request")
        part = np.stack(part)
    part = _cut(declared, part, begin, stacked)
    if column.is_suspect and not _is_finite(declared, part):
        raise ItemError(f"{declared.name!r} is not finite", NOT_FINITE)
    return part


def _size(given: Array | list[bytes]) -> int:
    return sum(map(len, given)) if isinstance(given, list) else given.nbytes


def _close(form: Form, declared: Tensor, given: Array | list[bytes], count: int) -> tensors.Tensor:
    """Return one output of one request as a tensor."""
    if isinstance(given, list):
        width = len(given) // count
        dims = declared.dims if FREE not in declared.dims else (width,)
        data = tensors.join_elements(given)
    else:
        dims, data = given.shape[1:], np.ascontiguousarray(given).tobytes()
    shape = (count, *dims) if form.has_batch_axis else tuple(dims)
    if not fits(declared, dims):
        raise ItemError(_shape_said(declared, dims), BAD_OUTPUT)
    try:
        return tensors.Tensor(declared.name, declared.datatype, shape, data)
    except InvalidRequest as error:
        raise ItemError(error.message, BAD_OUTPUT) from None


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
    if not isinstance(row, str):
        row = row.tolist() if isinstance(row, np.ndarray | np.generic) else row
    values = row if isinstance(row, list | tuple) else (row,)
    found = []
    for value in values:
        if isinstance(value, str):
            try:
                found.append(value.encode())
            except UnicodeEncodeError:
                raise _bad(declared, "holds text that is no UTF-8") from None
        elif isinstance(value, bytes | bytearray | memoryview):
            found.append(bytes(value))
        else:
            raise _bad(declared, f"holds {type(value).__name__}, not text or bytes")
    return found
