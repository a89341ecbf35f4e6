"""What a model is, to whoever writes one.

    from executor.model import Tensor

    class Shout:
        inputs = [Tensor("text", "BYTES", (1,))]
        outputs = [Tensor("loud", "BYTES", (1,))]

        def load(self, context):
            self.mark = context.options.get("mark", "!")

        def predict(self, batch):
            return {"loud": [text.upper() + self.mark for text in batch.inputs["text"]]}

An instance of it lives in a process of its own, and is asked for one batch at a time:
`load` once, then `warmup`, if it has one, then `predict` again and again. What it raises
fails the batch, which is tried elsewhere, and halved in the end; an `ItemError` in the
place of a row's output fails the request of that row alone.

What lives here: the words that a model and an executor have in common. What must never
live here: numpy or torch, since a model is looked at without them. Called by: models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Protocol

from raftbatch.errors import InvalidRequest
from raftbatch.tensors import BYTES, ITEM_BYTES, NAME_LENGTH_MAX, RANK_MAX

FREE = -1
"""A dimension that each request has its own of."""

ROW_BYTES_MAX = 1 << 30
"""Of one input or output, by its dims alone: no request and no result carries more."""

BUCKET_MAX = 1 << 30

NUMPY, TORCH = "numpy", "torch"
"""Backends: what `batch.inputs` holds."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output of a model.

    Attributes:
        name: of the tensor.
        datatype: as in the Open Inference Protocol: FP32, INT64, BYTES …
        dims: dimensions, without the batch axis; none: a row is a single number, so that a plain
            list of them will do; -1 is free: requests whose free dimensions are in the same
            bucket share a batch, and are padded to it.
        buckets: sizes to which free dimensions are padded, rising; beyond the last, to its
            next multiple; none: to the largest of the batch. Clients make the batch key by
            them, so a configuration names the same ones.
        text: of BYTES: whether the elements are text; else they stay bytes.
        like: of an output with a free dimension: the input whose padding it follows, which
            is cut off again.
        finite: of an output: whether a row that holds no number, or infinity, fails its
            request.
    """

    name: str
    datatype: str
    dims: tuple[int, ...] = ()
    buckets: tuple[int, ...] = ()
    text: bool = True
    like: str = ""
    finite: bool = False

    def __post_init__(self) -> None:
        """Refuse what makes no sense.

        Raises:
            InvalidRequest: the message names the tensor.
        """
        name = self.name
        if type(name) is not str or not 0 < len(name) <= NAME_LENGTH_MAX or not name.isprintable():
            raise InvalidRequest(
                f"a name is {ascii(name)[:80]}: it is text of 1 to {NAME_LENGTH_MAX} characters"
            )
        if type(self.datatype) is not str or self.datatype not in (*ITEM_BYTES, BYTES):
            known = ", ".join((*ITEM_BYTES, BYTES))
            raise InvalidRequest(
                f"{name}: datatype {self.datatype!r} is unknown: it is one of {known}"
            )
        for key in ("dims", "buckets"):
            values = getattr(self, key)
            if not isinstance(values, list | tuple) or any(
                type(each) is not int for each in values
            ):
                raise InvalidRequest(f"{name}: {key} are no list of whole numbers")
            object.__setattr__(self, key, tuple(values))
        if any(dim < 1 and dim != FREE for dim in self.dims):
            raise InvalidRequest(f"{name}: dims {list(self.dims)} are not positive, or -1")
        row_bytes = prod([abs(dim) for dim in self.dims]) * ITEM_BYTES.get(self.datatype, 4)
        if len(self.dims) >= RANK_MAX or row_bytes > ROW_BYTES_MAX:
            raise InvalidRequest(
                f"{name}: dims {list(self.dims)} make {row_bytes} bytes for each row: at most "
                f"{ROW_BYTES_MAX}, of {RANK_MAX - 1} dims"
            )
        if any(size < 1 for size in self.buckets) or list(self.buckets) != sorted(
            set(self.buckets)
        ):
            raise InvalidRequest(f"{name}: buckets {list(self.buckets)} do not rise")
        if self.buckets and self.buckets[-1] > BUCKET_MAX:
            raise InvalidRequest(f"{name}: buckets {list(self.buckets)} are beyond {BUCKET_MAX}")
        others: tuple[object, ...] = (self.like, self.text, self.finite)
        if tuple(map(type, others)) != (str, bool, bool):
            raise InvalidRequest(f"{name}: like is a name, and text and finite are True or False")

    @property
    def free_axes(self) -> tuple[int, ...]:
        """Which of its dimensions are free."""
        return tuple([axis for axis, dim in enumerate(self.dims) if dim == FREE])


class ItemError(Exception):
    """Fails one request of a batch, and no other: put it in the place of a row's output.

    Args:
        message: for the client.
        code: a slug for the client's program.
    """

    def __init__(self, message: str, code: str = "item_failed") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


@dataclass(frozen=True, slots=True)
class Context:
    """What a model is told when it is loaded.

    Attributes:
        name: of the model.
        version: of the model.
        device: `cuda:0` or `cpu`.
        instance: which of the executor's instances it is, from 0.
        threads: how many it should use on the CPU.
        folder: where its file is.
        options: `[models.NAME.executor.options]` of the configuration.
    """

    name: str
    version: str
    device: str
    instance: int
    threads: int
    folder: str
    options: Mapping[str, Any]


@dataclass(slots=True)
class Batch:
    """Rows of some requests, side by side.

    Attributes:
        inputs: by name, `[rows, …]`: an array, or a torch tensor, free dimensions padded;
            text of one element a row is a plain `list[str]`.
        rows: how many.
        parameters: of each row: those of its request.
        lengths: by name of an input with free dimensions: those of each row as they were
            before padding.
    """

    inputs: dict[str, Any]
    rows: int
    parameters: list[Mapping[str, Any]] = field(default_factory=list)
    lengths: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)


class Model(Protocol):
    """What a model has. `backend` is NUMPY where it says nothing; `warmup` may be missing."""

    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]

    def load(self, context: Context) -> None:
        """Get ready to predict."""
        ...

    def predict(self, batch: Batch) -> Mapping[str, Any]:
        """Return the outputs by name, `[rows, …]`, or a list with something for each row."""
        ...


def tensors_of(declared: Sequence[Tensor | Mapping[str, Any]]) -> tuple[Tensor, ...]:
    """Return inputs or outputs as they are declared, in a class or in a configuration.

    Raises:
        InvalidRequest: something is wrong with one; the message names it.
    """
    if not isinstance(declared, list | tuple):
        raise InvalidRequest(f"a {type(declared).__name__} is no list of tensors")
    found = []
    for each in declared:
        if isinstance(each, Tensor):
            found.append(each)
            continue
        if not isinstance(each, Mapping):
            raise InvalidRequest(f"a {type(each).__name__} in the list is no tensor")
        try:
            found.append(Tensor(**each))
        except TypeError as error:
            said = str(error).partition(") ")[2] or str(error)
            raise InvalidRequest(f"{dict(each)}: {said}") from None
    names = [each.name for each in found]
    if len(set(names)) != len(names):
        raise InvalidRequest(f"two tensors have one name: {', '.join(names)}")
    return tuple(found)
