"""The state as bytes: captured at once, encoded in slices while `apply` goes on, and restored.

Equal states have equal bytes, so that their hash can be compared between
replicas. What lives here: the form of a snapshot's content. What must never live
here: the file it goes into. Called by: the replica, the replay tool. Restoring
raises Undecodable, and nothing else. Deterministic.

    content   a row of scalars, the rows of each table in the order of their keys,
              and a row of counts, each one msgpack value
    scalars   [version, index, term, ...]
    row       [number of the table from 1, field, ...]
    counts    [0, rows of the first table, ...]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from hashlib import sha256
from typing import Any, cast

import msgpack

from coordinator.core.indexes import Indexing
from coordinator.core.state import DIGEST_BYTES, TABLES, State
from coordinator.core.table import Overlay, ordered
from coordinator.core.values import (
    Batch,
    Executor,
    Held,
    Outcome,
    Quarantined,
    Request,
    Run,
)
from raftbatch.codec import KEY
from raftbatch.errors import Undecodable
from raftbatch.fields import (
    TEXT_LENGTH_MAX,
    Packed,
    Unpack,
    blob,
    each,
    fixed,
    flag,
    integer,
    member,
    numbers,
    text,
)
from raftbatch.kinds import Key, OutcomeKind, Release
from raftbatch.packed_settings import pack_model, pack_policy, unpack_model, unpack_policy

VERSION = 1
SLICE_BYTES = 1 << 20
"""What is encoded at one time."""

_VALUE_BYTES_MAX = 160 << 20
_NAME_LENGTH_MAX = 600
"""Tenant, NUL and request id."""


class Capture:
    """The state at one index. Hold it as long as its chunks are read, then release it.

    Args:
        state: goes on changing; what was captured does not.
    """

    def __init__(self, state: State) -> None:
        self._scalars = _pack_scalars(state)
        self._tables: list[Mapping[Any, Any]] = [getattr(state, name) for name in TABLES]
        self._overlays: list[Overlay[Any, Any]] = state.freeze()

    def chunks(self) -> Iterator[bytes]:
        """Yield the content, at most a mebibyte at a time. May run on another thread."""
        buffer = bytearray(msgpack.packb(self._scalars))
        for row in self._rows():
            buffer += cast("bytes", msgpack.packb(row))
            while len(buffer) >= SLICE_BYTES:
                yield bytes(memoryview(buffer)[:SLICE_BYTES])
                del buffer[:SLICE_BYTES]
        yield bytes(buffer)

    def digest(self) -> bytes:
        """Return the hash of the canonical state; equal on every replica."""
        found = sha256()
        for chunk in self.chunks():
            found.update(chunk)
        return found.digest()

    def release(self) -> None:
        """Let the tables become plain again, little by little. Harmless when called twice."""
        for overlay in self._overlays:
            overlay.is_held = False

    def _rows(self) -> Iterator[Packed]:
        for place, (table, name) in enumerate(zip(self._tables, TABLES, strict=True), 1):
            pack = _TABLES[name][0]
            for key in ordered(table):
                yield (place, *pack(key, table[key]))
        yield (0, *map(len, self._tables))


class Restoring:
    """A state that comes in chunks, cut anywhere."""

    def __init__(self) -> None:
        self._unpacker = msgpack.Unpacker(
            use_list=False, max_buffer_size=_VALUE_BYTES_MAX, max_ext_len=0
        )
        self._state: State | None = None
        self._counts = [0] * len(TABLES)
        self._keys: dict[Key, Key] = {}
        self._run: Run | None = None
        self._is_whole = False

    def feed(self, chunk: bytes | memoryview) -> None:
        """Take the next chunk.

        Raises:
            Undecodable: it is none of a state.
        """
        try:
            self._unpacker.feed(chunk)
            for row in self._unpacker:
                self._take(row)
        except _ERRORS as error:
            raise _undecodable(error) from error

    def finish(self) -> Iterator[None]:
        """Make the indexes, a step at a time; `state` is there after the last.

        Raises:
            Undecodable: something is missing, or does not go together.
        """
        try:
            if self._state is None or not self._is_whole:
                raise ValueError("it ends too early")
            indexing = Indexing(self._state)
            while indexing.step(_ROWS_PER_STEP):
                yield
            if len(self._state.dedupe) != len(self._state.requests) + len(self._state.ended):
                raise ValueError("an id stands twice")
        except _ERRORS as error:
            raise _undecodable(error) from error

    @property
    def state(self) -> State:
        """The state, once `finish` has run to its end."""
        assert self._state is not None
        return self._state

    def _take(self, row: Packed) -> None:
        if self._state is None:
            self._state = _unpack_scalars(row)
            return
        if type(row) is not tuple or not row or type(row[0]) is not int or self._is_whole:
            raise ValueError("a row is none")
        place = row[0]
        if place == 0:
            if list(row[1:]) != self._counts:
                raise ValueError(f"{self._counts} rows came, not {row[1:]!r:.100}")
            self._is_whole = True
            return
        if not 1 <= place <= len(TABLES):
            raise ValueError(f"table {place} is not known here")
        table = getattr(self._state, TABLES[place - 1])
        key, value = _TABLES[TABLES[place - 1]][1](row[1:])
        if key in table:
            raise ValueError("a row stands twice")
        table[key] = self._shared(value)
        self._counts[place - 1] += 1

    def _shared(self, value: object) -> object:
        """Let equal keys, and the runs of neighbours, be one value again."""
        if type(value) is Request:
            return value._replace(key=self._keys.setdefault(value.key, value.key))
        if type(value) is Outcome and value.run is not None:
            if value.run != self._run:
                self._run = value.run
            return value._replace(run=self._run)
        return value


_ERRORS = (
    msgpack.UnpackException,
    ValueError,
    KeyError,
    RecursionError,
    OverflowError,
    TypeError,
)
_ROWS_PER_STEP = 4096


def restore(chunks: Iterable[bytes]) -> State:
    """Return the state of these chunks.

    Raises:
        Undecodable: they are none of a state.
    """
    restoring = Restoring()
    for chunk in chunks:
        restoring.feed(chunk)
    for _ in restoring.finish():
        pass
    return restoring.state


def _undecodable(error: Exception) -> Undecodable:
    return Undecodable(f"a snapshot cannot be read: {str(error) or type(error).__name__}")


def _pack_scalars(state: State) -> Packed:
    return (
        VERSION,
        state.index,
        state.term,
        state.leader,
        state.feature_level,
        state.now_ms,
        state.next_request,
        state.next_batch,
        state.next_ended,
        state.oldest_kept,
        state.oldest_ended,
        pack_policy(state.policy),
        tuple(sorted(state.deleting)),
        state.digest,
        state.counters.values(),
        state.rate_at_ms,
        state.rate_ended,
        state.drained_per_s,
    )


_count = integer()
_positive = integer(1)
_name = text(1)
_model_id = fixed(_name, _name)


def _scoped(value: Packed) -> object:
    """Take tenant, NUL and request id."""
    if type(value) is not str or len(value) > _NAME_LENGTH_MAX or value.count("\0") != 1:
        raise ValueError("a name is none")
    return value


_SCALARS = fixed(
    integer(VERSION, VERSION),
    *[_count] * 2,
    text(),
    *[_count] * 7,
    unpack_policy,
    each(_model_id, 1 << 20),
    blob(DIGEST_BYTES),
    each(_count, 100),
    *[_count] * 3,
)


def _unpack_scalars(value: Packed) -> State:
    state = State()
    values = cast("tuple[Any, ...]", _SCALARS(value))
    (_, state.index, state.term, state.leader, state.feature_level, state.now_ms) = values[:6]
    (state.next_request, state.next_batch, state.next_ended) = values[6:9]
    (state.oldest_kept, state.oldest_ended, state.policy, deleting, state.digest) = values[9:14]
    state.deleting = dict.fromkeys(deleting)
    counters, state.rate_at_ms, state.rate_ended, state.drained_per_s = values[14:]
    for name, count in zip(state.counters.__slots__, counters, strict=True):
        setattr(state.counters, name, count)
    # What is due by now is so again once time advances: see `timers`.
    return state


_REQUEST = fixed(
    _positive,
    _scoped,
    KEY,
    *[_count] * 5,
    blob(64),
    _count,
    blob(),
    blob(),
    text(0, TEXT_LENGTH_MAX),
)
_RUN = fixed(*[_positive] * 3, _name, _positive, *[_count] * 4, each(_count, 16), blob(1024))
_OUTCOME = fixed(
    _scoped,
    _count,
    _count,
    blob(64),
    member(OutcomeKind),
    text(),
    text(0, TEXT_LENGTH_MAX),
    blob(),
    _count,
    _count,
    lambda value: None if value is None else Run(*cast("tuple[Any, ...]", _RUN(value))),
    flag,
)
_BATCH = fixed(
    *[_positive] * 2,
    KEY,
    numbers(65_536),
    *[_count] * 3,
    member(Release),
    *[_count] * 6,
    each(text(1), 1000),
    _count,
    text(),
    *[_count] * 2,
    flag,
    text(),
    text(0, TEXT_LENGTH_MAX),
)
_HELD = fixed(_positive, _positive, flag)
_EXECUTOR = fixed(
    _name,
    *[_positive] * 2,
    each(_model_id, 1 << 20),
    blob(1 << 20),
    each(lambda value: Held(*cast("tuple[Any, ...]", _HELD(value))), 1024),
    flag,
    flag,
    each(_positive, 1 << 20),
)
_QUARANTINED = fixed(_REQUEST, _positive, text(), text(0, TEXT_LENGTH_MAX), _count)
_ENDED = fixed(_count, _OUTCOME)


def _row(kind: Unpack, build: Callable[..., Any], key: str) -> Callable[[Packed], Any]:
    def unpack(values: Packed) -> tuple[object, object]:
        row = build(*cast("tuple[Any, ...]", kind(values)))
        return getattr(row, key), row

    return unpack


def _unpack_ended(values: Packed) -> tuple[object, object]:
    order, outcome = cast("tuple[int, tuple[Any, ...]]", _ENDED(values))
    return order, Outcome(*outcome)


def _unpack_model(values: Packed) -> tuple[object, object]:
    model = unpack_model(values)
    return (model.name, model.version), model


def _unpack_quarantined(values: Packed) -> tuple[object, object]:
    request, *rest = cast("tuple[Any, ...]", _QUARANTINED(values))
    row = Quarantined(Request(*request), *rest)
    return row.request.number, row


def _values(_key: object, row: Any) -> tuple[object, ...]:
    return tuple([getattr(row, field.name) for field in fields(row)])


_TABLES: dict[
    str,
    tuple[Callable[[Any, Any], tuple[object, ...]], Callable[[Packed], tuple[object, object]]],
] = {
    "requests": (lambda _, row: tuple(row), _row(_REQUEST, Request, "number")),
    "ended": (lambda key, row: (key, row), _unpack_ended),
    "batches": (_values, _row(_BATCH, Batch, "number")),
    "executors": (_values, _row(_EXECUTOR, Executor, "executor")),
    "models": (lambda _, row: cast("tuple[object, ...]", pack_model(row)), _unpack_model),
    "quarantine": (lambda _, row: tuple(row), _unpack_quarantined),
}
