"""The state as bytes: equal for equal states, in slices, and nothing else is restored."""

from __future__ import annotations

import random

import msgpack
import pytest

from coordinator.core.snapshot import SLICE_BYTES, Capture, Restoring, restore
from coordinator.core.state import State
from raftbatch import records as r
from raftbatch.errors import Undecodable
from raftbatch.settings import Policy
from tests.unit.core.drawing import Drawing
from tests.unit.core.tables import Core


@pytest.fixture(scope="module")
def content() -> bytes:
    drawing = Drawing(8)
    while not (drawing.state.quarantine and drawing.state.batches and drawing.state.ended):
        drawing.step()
    return b"".join(Capture(drawing.state).chunks())


def test_restored_state_has_the_same_bytes(content: bytes) -> None:
    state = restore([content])
    assert b"".join(Capture(state).chunks()) == content
    chunks = [content[at : at + 7] for at in range(0, len(content), 7)]
    assert b"".join(Capture(restore(chunks)).chunks()) == content


def test_empty_state_is_captured() -> None:
    assert restore(Capture(State()).chunks()).index == 0


def test_slices_are_bounded_though_a_row_is_large() -> None:
    core = Core(policy=Policy(bytes_waiting_max=1 << 30, tenant_bytes_waiting_max=1 << 30))
    core.admit("a", "b", size=5 << 20)
    core.admit(*[f"c{n}" for n in range(5000)], size=500)
    chunks = list(Capture(core.state).chunks())
    assert len(chunks) > 12
    assert max(map(len, chunks)) <= SLICE_BYTES
    assert restore(chunks).digest == core.state.digest


def test_equal_keys_and_runs_are_one_value_again() -> None:
    core = Core()
    core.admit("a", "b", "c")
    core.one(core.report(core.start("d", "e")))
    state = restore(Capture(core.state).chunks())
    keys = {id(request.key) for request in state.requests.values()}
    runs = {id(outcome.run) for outcome in state.ended.values()}
    assert (len(keys), len(runs)) == (1, 1)


def test_what_is_due_again_after_restoring_ends_with_the_next_entry() -> None:
    core = Core(policy=Policy(expire_per_entry_max=1))
    core.admit("a", "b", timeout_ms=10)
    core.wait(20)
    core.state = restore(Capture(core.state).chunks())
    core.do(r.Advance())
    assert core.state.counters.expired == 2


def test_mutated_bytes_give_one_error_or_a_state(content: bytes) -> None:
    draw = random.Random(4)
    for _ in range(3000):
        data = bytearray(content)
        for _ in range(draw.randint(1, 3)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        if draw.random() < 0.1:
            del data[draw.randrange(len(data)) :]
        try:
            restore([bytes(data)])
        except Undecodable:
            pass


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [[0, 0, 0, 0, 0, 0, 0]],
        ["scalars", 5],
        ["scalars", []],
        ["scalars", [7, 1]],
        ["scalars", [1, 1]],
        ["scalars", [0, 1, 0, 0, 0, 0, 0]],
        ["scalars", [0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0]],
        ["scalars"],
    ],
)
def test_rows_that_are_no_state_are_refused(rows: list[object]) -> None:
    scalars = next(iter(msgpack.Unpacker(_File(b"".join(Capture(State()).chunks())))))
    data = b"".join([msgpack.packb(scalars if row == "scalars" else row) for row in rows])
    with pytest.raises(Undecodable, match="snapshot"):
        restore([data])


def test_row_that_stands_twice_is_refused() -> None:
    core = Core()
    core.admit("a")
    values = list(msgpack.Unpacker(_File(b"".join(Capture(core.state).chunks()))))
    for doubled in ([*values[:2], *values[1:]], [values[0], *[values[1]] * 2, *values[2:]]):
        with pytest.raises(Undecodable, match=r"twice|rows came"):
            restore([b"".join(map(msgpack.packb, doubled))])
    requests = [list(values[1]), list(values[1])]
    requests[1][1] += 5
    counts = list(values[-1])
    counts[1] += 1
    scalars = list(values[0])
    rows = [scalars, *requests, *values[2:-1], counts]
    with pytest.raises(Undecodable, match="an id stands twice"):
        restore([b"".join(map(msgpack.packb, rows))])


def test_state_that_is_not_finished_is_not_given() -> None:
    restoring = Restoring()
    with pytest.raises(AssertionError):
        _ = restoring.state
    with pytest.raises(Undecodable, match="too early"):
        next(restoring.finish())


class _File:
    """What msgpack reads from."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, length: int) -> bytes:
        """Return all at once."""
        data, self._data = self._data, b""
        return data
