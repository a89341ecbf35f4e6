"""What an executor and its child processes say to each other, over two pipes.

    executor -> child      Load, then Batch and Warm, one at a time
    child -> executor      Up or Broken, then Ran, Failed or Warmed for each

A frame is its length as u32 and a msgpack list, whose first element names its kind. A child
runs a model's code, which may write into the pipe too: what comes from there is checked
(`heard`), so that nothing else of it goes on than what a child says.

What lives here: that form. What must never live here: a pipe. Called by: both ends.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import msgpack

from executor.core.values import Answer, DeviceMemory, Outcome
from raftbatch.fields import Unpack, blob, each, fixed, flag, integer, text
from raftbatch.tensors import RANK_MAX, TENSORS_MAX

LENGTH = struct.Struct("<I")

PADDED_BYTES_MAX = 256 << 20
"""What the padded inputs of requests that run together take, unless the configuration says
otherwise: four times of what a batch may carry by default."""

PIPE_CLOSED = 97
"""Exit status of a child that finds its own end of a pipe closed, as a model can do."""


@dataclass(frozen=True, slots=True)
class Load:
    """Load a model.

    Attributes:
        name: of the model.
        version: of the model.
        file: where its class is: a file, or the folder of a package; or empty.
        module: or the module's dotted name.
        class_name: of the class; empty: the only one with `predict`.
        inputs, outputs: as the configuration declares them; empty: as the class does.
        has_batch_axis: whether requests bring rows.
        instance: which of the executor's instances it is.
        threads: how many it should use.
        device: `cpu`, `cuda`, `cuda:N`; empty: cuda, if it is there.
        options: for the model.
        result_bytes_max: what the result of one request may hold.
        memory_bytes_max: what its process may take; 0: whatever there is.
        padded_bytes_max: what the padded inputs of requests that run together may take.
    """

    name: str
    version: str
    file: str
    module: str
    class_name: str
    inputs: tuple[Mapping[str, Any], ...]
    outputs: tuple[Mapping[str, Any], ...]
    has_batch_axis: bool
    instance: int
    threads: int
    device: str
    options: Mapping[str, Any]
    result_bytes_max: int = 24 << 20
    memory_bytes_max: int = 0
    padded_bytes_max: int = PADDED_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Batch:
    """Run a batch.

    Attributes:
        run: names the run.
        payloads: envelopes of its requests.
        rows: of each.
        parameters: of each.
        signature: of all of them.
    """

    run: int
    payloads: tuple[bytes, ...]
    rows: tuple[int, ...]
    parameters: tuple[bytes, ...]
    signature: str = ""


@dataclass(frozen=True, slots=True)
class Warm:
    """Run the warm-up once more.

    Attributes:
        run: names the run.
    """

    run: int


@dataclass(frozen=True, slots=True)
class Up:
    """The model is loaded, and ran its warm-up.

    Attributes:
        device: where it is.
        detail: of device and libraries, for people.
    """

    device: str
    detail: str


@dataclass(frozen=True, slots=True)
class Broken:
    """The model cannot be loaded.

    Attributes:
        message: why.
    """

    message: str


@dataclass(frozen=True, slots=True)
class Ran:
    """A batch ran.

    Attributes:
        run: names the run.
        outcome: what came of it.
    """

    run: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Failed:
    """A batch, or a warm-up, failed as a whole.

    Attributes:
        run: names the run.
        code: a slug.
        message: for people.
        is_lasting: whether whatever ran next here would fail too.
    """

    run: int
    code: str
    message: str
    is_lasting: bool = False


@dataclass(frozen=True, slots=True)
class Warmed:
    """The warm-up went well.

    Attributes:
        run: names the run.
    """

    run: int


Frame = Load | Batch | Warm | Up | Broken | Ran | Failed | Warmed
_KINDS: dict[str, Any] = {
    kind.__name__: kind for kind in (Load, Batch, Warm, Up, Broken, Failed, Warmed)
}


def encode(frame: Frame) -> bytes:
    """Return a frame as it travels, its length included."""
    if isinstance(frame, Ran):
        of = frame.outcome
        answers = [[one.result, one.code, one.message] for one in of.answers]
        device = of.memory
        memory = device and [getattr(device, name) for name in device.__slots__]
        parts = [of.compute_input_ns, of.infer_ns, of.output_ns, of.padded, of.fingerprint]
        values = ["Ran", frame.run, answers, memory, *parts]
    else:
        fields = [getattr(frame, name) for name in frame.__slots__]
        values = [type(frame).__name__, *fields]
    body = cast("bytes", msgpack.packb(values))
    return LENGTH.pack(len(body)) + body


def decode(body: bytes) -> Frame:
    """Return a frame of what followed its length, which the executor wrote."""
    kind, *values = msgpack.unpackb(body, use_list=False)
    if kind == "Ran":
        run, answers, memory, *parts = values
        found = tuple([Answer(*one) for one in answers])
        device = None if memory is None else DeviceMemory(*memory)
        return Ran(run, replace(Outcome(found, *parts), memory=device))
    return cast("Frame", _KINDS[kind](*values))


_TEXT_LENGTH_MAX = 1 << 16
_RESULTS_MAX = 1 << 20  # rows of a batch, of which each request has one at least
_RESULT_BYTES_MAX = 1 << 30
_FINGERPRINT_BYTES_MAX = 64


def _said(value: object) -> object:
    """Take what is for people, whatever is in it."""
    if type(value) is not str or len(value) > _TEXT_LENGTH_MAX:
        raise ValueError(f"a text is a {type(value).__name__}, or too long")
    return value


def _memory(value: object) -> object:
    return None if value is None else _DEVICE(value)


_DEVICE = fixed(text(), integer(), integer())
_OF_CHILD: dict[str, Unpack] = {
    "Up": fixed(_said, _said),
    "Broken": fixed(_said),
    "Ran": fixed(
        integer(),
        each(fixed(blob(_RESULT_BYTES_MAX), text(), _said), _RESULTS_MAX),
        _memory,
        integer(),
        integer(),
        integer(),
        each(integer(), 1 + TENSORS_MAX * RANK_MAX),
        blob(_FINGERPRINT_BYTES_MAX),
    ),
    "Failed": fixed(integer(), text(), _said, flag),
    "Warmed": fixed(integer()),
}
"""What a child says, and of which kind each value is."""


def heard(body: bytes) -> Frame:
    """Return a frame of what followed its length, in a pipe into which a model may write.

    Raises:
        ValueError: it is none that a child sends; the message says why.
    """
    try:
        kind, *values = msgpack.unpackb(body, use_list=False, max_ext_len=0)
        _OF_CHILD[kind](tuple(values))
        return decode(body)
    except (msgpack.UnpackException, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None
