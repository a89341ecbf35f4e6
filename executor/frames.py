"""What an executor and its child processes say to each other, over two pipes.

    executor -> child      Load, then Batch and Warm, one at a time
    child -> executor      Up or Broken, then Ran, Failed or Warmed for each

A frame is its length as u32 and a msgpack list, whose first element names its kind.
What lives here: that form. What must never live here: a pipe. Called by: both ends.
Total, but for what the other end, which is ours, never sends.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import msgpack

from executor.core.values import Answer, DeviceMemory, Outcome

LENGTH = struct.Struct("<I")


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


@dataclass(frozen=True, slots=True)
class Batch:
    """Run a batch.

    Attributes:
        run: names the run.
        payloads: envelopes of its requests.
        rows: of each.
        parameters: of each.
    """

    run: int
    payloads: tuple[bytes, ...]
    rows: tuple[int, ...]
    parameters: tuple[bytes, ...]


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
        answers = [[each.result, each.code, each.message] for each in of.answers]
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
    """Return a frame of what followed its length."""
    kind, *values = msgpack.unpackb(body, use_list=False)
    if kind == "Ran":
        run, answers, memory, *parts = values
        found = tuple([Answer(*each) for each in answers])
        device = None if memory is None else DeviceMemory(*memory)
        return Ran(run, replace(Outcome(found, *parts), memory=device))
    return cast("Frame", _KINDS[kind](*values))
