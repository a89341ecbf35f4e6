"""Between what people hold (texts, numbers, numpy arrays) and tensors.

What lives here: that, one value at a time. numpy is used where it is installed: without it
numbers are nested lists. What must never live here: a model's declaration (`inputs`).
Called by: `inputs`, `results`, the command line.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import Any

from raftbatch.errors import InvalidRequest
from raftbatch.tensors import BYTES, ITEM_BYTES, RANK_MAX, Tensor, elements, join_elements

ELEMENTS_MAX = 1 << 28
"""Of nested lists, which may contain one list many times: no request carries more."""

_CODES: dict[str, str] = {
    "BOOL": "?",
    "UINT8": "B",
    "UINT16": "H",
    "UINT32": "I",
    "UINT64": "Q",
    "INT8": "b",
    "INT16": "h",
    "INT32": "i",
    "INT64": "q",
    "FP16": "e",
    "FP32": "f",
    "FP64": "d",
}
_OF_NUMPY: dict[str, str] = {
    "bool": "BOOL",
    "float16": "FP16",
    "float32": "FP32",
    "float64": "FP64",
    **{f"uint{bits}": f"UINT{bits}" for bits in (8, 16, 32, 64)},
    **{f"int{bits}": f"INT{bits}" for bits in (8, 16, 32, 64)},
}
_TO_NUMPY = {datatype: name for name, datatype in _OF_NUMPY.items()}


@cache
def numpy_module() -> Any:
    """Return numpy; None where it is not installed."""
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def to_tensor(name: str, value: Any, datatype: str = "") -> Tensor:
    """Return a tensor of a value, in the value's own shape.

    Args:
        name: of the input.
        value: a text or bytes, numbers, a (nested) sequence of either, a numpy array, or a
            `Tensor`, which stays as it is. Sequences are `RANK_MAX` deep at most.
        datatype: that is wanted; empty: the value's own.

    Raises:
        InvalidRequest: it is none of these, or does not fit the datatype; definite.
    """
    if isinstance(value, Tensor):
        return value if value.name == name else _renamed(value, name)
    if isinstance(value, str | bytes):
        if datatype in ("", BYTES):
            return Tensor(name, BYTES, (), join_elements([_bytes(value)]))
        raise InvalidRequest(
            f"{name!r} is text: the model takes {datatype}, as a list or an array of numbers; on "
            f"the command line --input '{name}=[...]'"
        )
    numpy = numpy_module()
    if numpy is not None and isinstance(value, numpy.ndarray | numpy.generic):
        return _of_array(numpy, name, numpy.asarray(value), datatype)
    shape = _shape(name, value)
    leaves = _leaves(name, value, shape)
    if datatype == BYTES or (not datatype and leaves and isinstance(leaves[0], str | bytes)):
        return Tensor(name, BYTES, shape, join_elements(_texts(name, leaves)))
    if numpy is not None:
        try:
            array = numpy.asarray(value)
        except Exception as error:  # noqa: BLE001 - what is in it may have a class of its own
            raise InvalidRequest(f"{name!r} is no array of numbers: {error}") from None
        return _of_array(numpy, name, array, datatype)
    return Tensor(name, *_of_list(name, shape, leaves, datatype))


def from_tensor(
    tensor: Tensor, *, is_single: bool, read: Callable[[bytes], Any] = bytes.decode
) -> Any:
    """Return what a person holds: a numpy array, or nested lists; texts for BYTES.

    Args:
        tensor: an output.
        is_single: whether the batch axis is left out, which has one row then.
        read: what becomes of each element of BYTES.

    Raises:
        InvalidRequest: BYTES that are no text, where they are read as such.
    """
    shape = tensor.shape
    is_single = is_single and bool(shape) and shape[0] == 1
    if is_single:
        shape = shape[1:]
    if tensor.datatype == BYTES:
        try:
            found = [read(each) for each in elements(tensor)]
        except UnicodeDecodeError as error:
            raise InvalidRequest(
                f"{tensor.name!r} holds bytes that are no text ({error}): take `tensors`"
            ) from None
        while len(shape) > (0 if is_single else 1) and shape[-1] == 1:
            shape = shape[:-1]  # a text for each row, as they went in
        return _nested(found, shape)
    numpy = numpy_module()
    if numpy is None:
        return _nested(_numbers(tensor), shape)
    if tensor.datatype == "BF16":
        halves = numpy.frombuffer(tensor.data, dtype="<u2").astype("<u4")
        return (halves << 16).view("<f4").reshape(shape)
    dtype = numpy.dtype(_TO_NUMPY[tensor.datatype]).newbyteorder("<")
    return numpy.frombuffer(tensor.data, dtype=dtype).reshape(shape)


def _renamed(tensor: Tensor, name: str) -> Tensor:
    return Tensor(name, tensor.datatype, tensor.shape, tensor.data)


def _bytes(value: str | bytes) -> bytes:
    if isinstance(value, bytes):
        return value
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise InvalidRequest("half a character (a surrogate) is in a text") from None


def _texts(name: str, leaves: Sequence[Any]) -> list[bytes]:
    for leaf in leaves:
        if not isinstance(leaf, str | bytes):
            raise InvalidRequest(f"{name!r} takes texts or bytes, not {type(leaf).__name__}")
    return [_bytes(leaf) for leaf in leaves]


def _shape(name: str, value: Any) -> tuple[int, ...]:
    """Return the shape of nested sequences, by their first elements.

    Raises:
        InvalidRequest: they are too deep, as one is that contains itself; or what is in them is
            neither text nor number.
    """
    shape: list[int] = []
    while isinstance(value, list | tuple):
        if len(shape) == RANK_MAX:
            raise InvalidRequest(f"{name!r} is nested deeper than {RANK_MAX} lists")
        shape.append(len(value))
        if not value:
            break
        value = value[0]
    is_plain = isinstance(value, str | bytes | int | float | list | tuple)
    if not is_plain and (numpy_module() is None or not hasattr(value, "__array__")):
        raise InvalidRequest(f"{name!r} is a {type(value).__name__}: no text, and no number")
    return tuple(shape)


def _leaves(name: str, value: Any, shape: tuple[int, ...]) -> list[Any]:
    """Return what is in nested sequences, in order.

    Raises:
        InvalidRequest: they have not this shape, or more elements than anything may carry.
    """
    if prod(shape) > ELEMENTS_MAX:
        raise InvalidRequest(f"{name!r} has more than {ELEMENTS_MAX} elements")
    level = _flat(name, value, shape)
    if level and hasattr(level[0], "__array__"):  # beside arrays there may be lists like them
        lists = [each for each in level if isinstance(each, list | tuple)]
        own = tuple(getattr(level[0], "shape", ()))
        inner = [leaf for each in lists for leaf in _flat(name, each, own)]
    else:
        inner = level
    if any(isinstance(each, list | tuple) for each in inner):
        raise InvalidRequest(f"{name!r} is a ragged list")
    return level


def _flat(name: str, value: Any, shape: tuple[int, ...]) -> list[Any]:
    """Return what is in so many levels of sequences, each of its length. Raises as `_leaves`."""
    level = [value]
    for length in shape:
        if any(_length(each) != length for each in level):
            raise InvalidRequest(f"{name!r} is a ragged list")
        level = [leaf for each in level for leaf in each]
    return level


def _length(value: Any) -> int:
    """Return how many elements a list or an array has; -1: it is neither."""
    if isinstance(value, list | tuple):
        return len(value)
    shape = getattr(value, "shape", ()) if hasattr(value, "__array__") else ()
    return int(shape[0]) if shape else -1


def _of_array(numpy: Any, name: str, array: Any, datatype: str) -> Tensor:
    if array.dtype.kind in "USO":
        if datatype not in ("", BYTES):
            raise InvalidRequest(f"{name!r} is of {array.dtype}: the model takes {datatype}")
        texts = _texts(name, array.ravel().tolist())
        return Tensor(name, BYTES, array.shape, join_elements(texts))
    own = _OF_NUMPY.get(array.dtype.name)
    if own is None or datatype == BYTES:
        wanted = f"the model takes {datatype}" if datatype else "no datatype is like it"
        raise InvalidRequest(f"{name!r} is of {array.dtype}: {wanted}")
    datatype = datatype or own
    if own != datatype:
        array = _converted(numpy, name, array, datatype)
    array = numpy.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
    return Tensor(name, datatype, array.shape, array.tobytes())


def _converted(numpy: Any, name: str, array: Any, datatype: str) -> Any:
    """Return the same numbers in another datatype: rounded if need be, but never wrapped."""
    if datatype == "BF16":
        if array.dtype.kind not in "iuf":
            raise InvalidRequest(f"{name!r} is of {array.dtype}: the model takes {datatype}")
        bits = array.astype("<f4").view("<u4")
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        return numpy.where(numpy.isnan(array), 0x7FC0, rounded).astype("<u2")
    target = numpy.dtype(_TO_NUMPY[datatype])
    kinds = array.dtype.kind + target.kind
    if target.kind in "iu" and array.dtype.kind in "iu" and array.size:
        limits = numpy.iinfo(target)
        if int(array.min()) < limits.min or int(array.max()) > limits.max:
            raise InvalidRequest(f"{name!r} holds numbers beyond {datatype}")
    elif kinds not in ("ff", "if", "uf", "bf") and array.size:
        raise InvalidRequest(f"{name!r} is of {array.dtype}: the model takes {datatype}")
    return array.astype(target)


def _of_list(
    name: str, shape: tuple[int, ...], leaves: list[Any], datatype: str
) -> tuple[str, tuple[int, ...], bytes]:
    if not datatype:
        kinds = [type(leaf) for leaf in leaves]
        datatype = "FP64" if float in kinds else "INT64" if int in kinds else "BOOL"
    code = _CODES.get(datatype)
    if code is None:
        raise InvalidRequest(f"{name!r} is of {datatype}, which takes numpy")
    try:
        return datatype, shape, struct.pack(f"<{len(leaves)}{code}", *leaves)
    except (struct.error, TypeError, OverflowError) as error:
        raise InvalidRequest(f"{name!r} is not of {datatype}: {error}") from None


def _numbers(tensor: Tensor) -> list[Any]:
    if tensor.datatype == "BF16":
        halves = struct.unpack(f"<{len(tensor.data) // 2}H", tensor.data)
        return [struct.unpack("<f", struct.pack("<I", half << 16))[0] for half in halves]
    count = len(tensor.data) // ITEM_BYTES[tensor.datatype]
    return list(struct.unpack(f"<{count}{_CODES[tensor.datatype]}", tensor.data))


def _nested(flat: list[Any], shape: tuple[int, ...]) -> Any:
    if not shape:
        return flat[0] if flat else None
    if len(shape) == 1:
        return flat
    step = prod(shape[1:])
    return [_nested(flat[n * step : (n + 1) * step], shape[1:]) for n in range(shape[0])]
