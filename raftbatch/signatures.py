"""What a model declares of its inputs, and the signature that it makes of a request's.

The signature is the part of the batch key that says which requests may share a batch
by their shapes: tensors in the order of their names, `name:DATATYPE[d1,d2]` joined by
`;`, without the batch axis. A free dimension (-1) enters as its bucket, so that
sequences of 57 and of 61 meet; BYTES with buckets enter by their longest element,
`name:BYTES[1]/128`. A length beyond the largest bucket enters as the next multiple of
that.

What lives here: the declaration, as `Model.config` holds it, and the signature. What
must never live here: numpy, or a look at values. Called by: the SDK, both V2 doors,
the executor, which pads to the same buckets. Coordinators never look into either.

    >>> declared = parse(b'{"inputs": [{"name": "ids", "datatype": "INT64", "dims": [-1],'
    ...                  b' "buckets": [64, 128]}]}')
    >>> ids = Tensor("ids", "INT64", (1, 61), bytes(8 * 61))
    >>> signature([ids], declared, is_batched=True)
    'ids:INT64[64]'
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from raftbatch.errors import InvalidRequest
from raftbatch.tensors import BYTES, ITEM_BYTES, NAME_LENGTH_MAX, Tensor, elements

FREE = -1
"""A dimension that may be of any length."""

SIGNATURE_LENGTH_MAX = 4096
"""What a batch key has room for."""


_SHAPE = re.compile(r"\[((?:[0-9]{1,19}(?:,[0-9]{1,19})*)?)\](?:/([0-9]{1,19}))?(?:;|\Z)")


class Room(NamedTuple):
    """What a signature has room for, of one input.

    Attributes:
        dims: at most, without the batch axis.
        length: of an element of BYTES, at most; None: it says nothing of that.
    """

    dims: tuple[int, ...]
    length: int | None


@dataclass(frozen=True, slots=True)
class Spec:
    """One input or output, as a model declares it.

    Attributes:
        name: as the model calls it.
        datatype: one of the envelope's.
        dims: dimensions without the batch axis; -1: free.
        buckets: lengths that free dimensions are padded to, ascending; of BYTES, the
            lengths of elements by which requests meet. Empty: no bucket.
    """

    name: str
    datatype: str
    dims: tuple[int, ...]
    buckets: tuple[int, ...] = ()

    @property
    def is_text(self) -> bool:
        """Whether it is one element of BYTES for each row."""
        return self.datatype == BYTES and all(dim == 1 for dim in self.dims)


@dataclass(frozen=True, slots=True)
class Declared:
    """What a model declares.

    Attributes:
        inputs: by name; empty: nothing is declared, and anything goes.
        outputs: by name.
    """

    inputs: Mapping[str, Spec]
    outputs: Mapping[str, Spec]


def parse(config: bytes) -> Declared:
    """Return what is declared in a model's settings. Total, but for the error.

    Args:
        config: `Model.config`: JSON, or nothing. What else is in it is left alone.

    Raises:
        InvalidRequest: it cannot be read; definite.
    """
    if not config:
        return Declared({}, {})
    try:
        found = json.loads(config)
        if not isinstance(found, dict):
            raise TypeError("it is no object")
        return Declared(_specs(found.get("inputs", [])), _specs(found.get("outputs", [])))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InvalidRequest(f"the model's declaration cannot be read: {error}") from None


def _specs(entries: object) -> dict[str, Spec]:
    if not isinstance(entries, list):
        raise TypeError("inputs and outputs are lists")
    specs: dict[str, Spec] = {}
    for entry in entries:
        name, datatype = entry["name"], entry["datatype"]
        dims, buckets = entry.get("dims", []), entry.get("buckets", [])
        if type(name) is not str or not 0 < len(name) <= NAME_LENGTH_MAX or name in specs:
            raise ValueError(f"the name {name!r} is none, or there twice")
        if datatype != BYTES and datatype not in ITEM_BYTES:
            raise ValueError(f"{name!r} has a datatype that is not known")
        if any(type(dim) is not int or dim < FREE or dim == 0 for dim in dims):
            raise ValueError(f"{name!r} has dims that are neither from 1 nor -1")
        if any(type(length) is not int or length < 1 for length in buckets):
            raise ValueError(f"{name!r} has buckets that are not from 1")
        if list(buckets) != sorted(set(buckets)):
            raise ValueError(f"{name!r} has buckets that do not ascend")
        specs[name] = Spec(name, datatype, tuple(dims), tuple(buckets))
    return specs


def bucket(length: int, buckets: Sequence[int]) -> int:
    """Return what a length is padded to. Total. Deterministic.

    Args:
        length: from 0.
        buckets: ascending; empty: the length itself.
    """
    if not buckets:
        return length
    for each in buckets:
        if length <= each:
            return each
    largest = buckets[-1]
    return -(-length // largest) * largest


def signature(tensors: Sequence[Tensor], declared: Declared, *, is_batched: bool) -> str:
    """Return the signature of a request's inputs. Deterministic.

    Args:
        tensors: with the batch axis, where the model has one.
        declared: by the model.
        is_batched: whether the model has a batch axis.

    Raises:
        InvalidRequest: they are not what the model declares, or too many; definite.
    """
    specs = declared.inputs
    if specs:
        given = {tensor.name for tensor in tensors}
        for name in sorted(specs.keys() - given):
            strange = ", ".join(map(repr, sorted(given - specs.keys())))
            also = f", and the model has none that is called {strange}" if strange else ""
            raise InvalidRequest(f"the input {name!r} is missing{also}")
    parts = []
    for tensor in sorted(tensors, key=lambda tensor: tensor.name):
        spec = specs.get(tensor.name)
        if specs and spec is None:
            raise InvalidRequest(f"the model has no input {tensor.name!r}: {', '.join(specs)}")
        parts.append(part(tensor, spec, is_batched=is_batched))
    found = ";".join(parts)
    if len(found) > SIGNATURE_LENGTH_MAX:
        raise InvalidRequest(
            f"the names and shapes of the inputs take {len(found)} characters: at most "
            f"{SIGNATURE_LENGTH_MAX}"
        )
    return found


def part(tensor: Tensor, spec: Spec | None, *, is_batched: bool) -> str:
    """Return one tensor's part of the signature.

    Raises:
        InvalidRequest: it is not as it is declared; definite.
    """
    if is_batched and not tensor.shape:
        raise InvalidRequest(f"{tensor.name!r} has no batch axis")
    dims = tensor.shape[1:] if is_batched else tensor.shape
    if spec is None:
        return f"{tensor.name}:{tensor.datatype}[{','.join(map(str, dims))}]"
    if tensor.datatype != spec.datatype:
        raise InvalidRequest(
            f"{tensor.name!r} is of {tensor.datatype}: the model takes {spec.datatype}"
        )
    if len(dims) != len(spec.dims) or any(
        wanted not in (FREE, dim) for dim, wanted in zip(dims, spec.dims, strict=True)
    ):
        raise InvalidRequest(
            f"{tensor.name!r} has dimensions {list(dims)}"
            f"{' behind the batch axis' if is_batched else ''}: the model takes {list(spec.dims)}"
        )
    is_text = tensor.datatype == BYTES
    padded = [
        dim if wanted != FREE or is_text else bucket(dim, spec.buckets)
        for dim, wanted in zip(dims, spec.dims, strict=True)
    ]
    text = f"{tensor.name}:{tensor.datatype}[{','.join(map(str, padded))}]"
    if is_text and spec.buckets:
        longest = max(map(len, elements(tensor)), default=0)
        text += f"/{bucket(longest, spec.buckets)}"
    return text


@lru_cache(256)
def rooms(found: str, inputs: tuple[tuple[str, str], ...]) -> Mapping[str, Room] | None:
    """Return what a signature has room for, by input. Total. Deterministic.

    Whoever made it rounded up, and perhaps by other buckets than whoever reads it knows: so
    an honest request is as large as that, or smaller.

    Args:
        found: the signature.
        inputs: name and datatype of each input.

    Returns:
        None: it is no signature of these inputs, and says nothing of their shapes.
    """
    of_inputs: dict[str, Room] = {}
    place = 0
    for name, datatype in sorted(inputs):
        head = f"{name}:{datatype}"
        shape = _SHAPE.match(found, place + len(head)) if found.startswith(head, place) else None
        if shape is None:
            return None
        dims = tuple(map(int, shape[1].split(","))) if shape[1] else ()
        of_inputs[name] = Room(dims, int(shape[2]) if shape[2] else None)
        place = shape.end()
    return of_inputs if place == len(found) else None
