"""The replica: bytes become records, snapshots are installed whole, captures are released."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest

from coordinator import replica as module
from coordinator.core.effects import Applied
from coordinator.core.snapshot import Capture, restore
from coordinator.core.state import State
from coordinator.raft.segments.layout import Entry
from coordinator.replica import Replica
from raftbatch import records as r
from raftbatch.codec import encode_entry
from raftbatch.errors import Invariant, Undecodable
from raftbatch.world import Buffer
from tests.unit.core.tables import Core
from tests.unit.replica_scene import Scene, chunks_of, content_of, meta_of


class Told:
    """A listener that remembers what it is told, and what the state was then."""

    def __init__(self, replica: Replica, said: list[object], name: str = "") -> None:
        self._replica = replica
        self._said = said
        self._name = name

    def applied(self, index: int, term: int, entry: r.Entry, applied: Applied) -> None:
        """Remember it."""
        state = self._replica.state
        assert state.index == self._replica.index == index
        assert len(applied.replies) == len(entry.records)
        self._said.append((self._name, index, term, len(entry.records), len(state.requests)))

    def installed(self) -> None:
        """Remember it."""
        self._said.append((self._name, "installed", self._replica.state.index))


def _entry(index: int, *records: r.Record, term: int = 1) -> Entry:
    return Entry(index, term, encode_entry(r.Entry(term, 1000, records)))


def test_bytes_become_records_and_listeners_are_told_in_their_order() -> None:
    scene = Scene()
    said: list[object] = []
    scene.replica.listeners += [Told(scene.replica, said, "a"), Told(scene.replica, said, "b")]
    scene.admit("r1", "r2")
    index = scene.replica.index
    assert said == [("a", index, 1, 1, 2), ("b", index, 1, 1, 2)]
    core = Core()
    core.admit("r1", "r2")
    assert scene.replica.digest == core.state.digest


def test_what_is_the_logs_own_moves_nothing_but_the_index() -> None:
    scene = Scene()
    said: list[object] = []
    scene.replica.listeners.append(Told(scene.replica, said))
    before = scene.replica.digest, scene.state.index
    scene.replica.apply(Entry(10, 1, b""))
    scene.replica.apply(Entry(11, 1, b"members", is_config=True))
    assert (scene.replica.index, said) == (11, [])
    assert (scene.replica.digest, scene.replica.state.index) == before
    scene.admit("r1")
    assert scene.state.index == 12


@pytest.mark.parametrize("data", [b"\xc1", b"no entry", encode_entry(r.Entry(1, 1, ()))[:-1]])
def test_entry_that_cannot_be_read_stops_the_node_and_is_named(data: bytes) -> None:
    replica = Replica()
    replica.apply(_entry(1, r.Lead("n1", 0, 1)))
    said: list[object] = []
    replica.listeners.append(Told(replica, said))
    with pytest.raises(Undecodable, match=r"entry 7 of term 3 is committed and cannot be read"):
        replica.apply(Entry(7, 3, data))
    assert (replica.index, replica.state.index, said) == (1, 1, [])


def test_entry_is_not_taken_twice() -> None:
    replica = Replica()
    replica.apply(_entry(5, r.Lead("n1", 0, 1)))
    for entry in (_entry(5, r.Advance()), _entry(4, r.Advance()), Entry(5, 1, b"")):
        with pytest.raises(Invariant, match="is given to a replica that is at 5"):
            replica.apply(entry)


def _filled(count: int = 3000) -> Core:
    core = Core()
    for start in range(0, count, 500):
        core.do(core.admission(*[f"r{n}" for n in range(start, start + 500)], size=200))
    core.start("x", "y")
    return core


def test_snapshot_takes_the_place_of_the_state_all_at_once() -> None:
    core = _filled()
    content = content_of(core.state)
    scene = Scene()
    said: list[object] = []
    scene.replica.listeners.append(Told(scene.replica, said))
    old = scene.replica.state
    seen: list[State] = []
    turns = 0

    async def install() -> None:
        def turn() -> None:
            nonlocal turns
            turns += 1
            seen.append(scene.replica.state)
            loop.call_soon(turn)

        loop = asyncio.get_running_loop()
        loop.call_soon(turn)
        await scene.replica.install(meta_of(90, content), chunks_of(content))

    asyncio.run(install())
    replica = scene.replica
    assert said == [("", "installed", core.state.index)]
    assert (replica.index, replica.state.index) == (90, core.state.index)
    assert content_of(replica.state) == content
    # Nobody saw anything between the old state and the new one, and there were turns to see it.
    assert turns > len(content) / (1 << 17) > 4
    assert len([state for state in seen if state is old]) > len(content) / (1 << 17)
    assert all(state is old or state is replica.state for state in seen)
    scene.at_ms = core.at_ms
    assert scene.admit("later") == core.admit("later") == "OK"
    assert scene.state.index == 91


def test_state_before_is_freed_in_slices_but_not_under_a_capture() -> None:
    content = content_of(_filled(500).state)

    async def install(*, is_captured: bool) -> int:
        scene = Scene()
        scene.do(scene.admission(*[f"r{n}" for n in range(9000)], size=1))
        before = scene.state
        captured = content_of(before) if is_captured else b""
        chunks = iter(scene.replica.capture()) if is_captured else iter(())
        sizes: list[int] = []

        def turn() -> None:
            sizes.append(len(before.requests))
            loop.call_soon(turn)

        loop = asyncio.get_running_loop()
        loop.call_soon(turn)
        await scene.replica.install(meta_of(99, content), chunks_of(content))
        assert b"".join([bytes(each) for each in chunks]) == captured
        return len(dict.fromkeys(sizes))

    assert asyncio.run(install(is_captured=False)) == 4  # 9000, and as often as it takes
    assert asyncio.run(install(is_captured=True)) == 1


@pytest.mark.parametrize("size", [1, 7, 1000, 1 << 20])
def test_snapshot_comes_in_chunks_of_any_size(size: int) -> None:
    core = Core()
    core.start("x", "y")
    content = content_of(core.state)
    replica = Replica()
    asyncio.run(replica.install(meta_of(9, content), chunks_of(content, size)))
    assert content_of(replica.state) == content


def test_snapshot_that_is_none_changes_nothing() -> None:
    content = content_of(_filled(500).state)
    for index, damaged in (
        (9, content[:-1]),
        (9, content[:200] + bytes([0xC1]) * 99),
        (9, b""),
        (2, content),  # of a state that is further on than it may be
    ):
        scene = Scene()
        said: list[object] = []
        scene.replica.listeners.append(Told(scene.replica, said))
        before = scene.replica.state, scene.replica.index
        with pytest.raises(Undecodable, match=f"the snapshot at {index}"):
            asyncio.run(scene.replica.install(meta_of(index, damaged), chunks_of(damaged)))
        assert (scene.replica.state, scene.replica.index, said) == (*before, [])


def test_installation_that_is_given_up_changes_nothing() -> None:
    scene = Scene()
    before = scene.replica.state
    content = content_of(_filled(500).state)

    async def endless() -> AsyncIterator[bytes]:
        yield content
        await asyncio.get_running_loop().create_future()

    async def give_up() -> None:
        task = asyncio.ensure_future(scene.replica.install(meta_of(9, content), endless()))
        for _ in range(20):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    assert scene.replica.state is before


class CountingCapture(Capture):
    """A capture that remembers which threads released it."""

    released: list[int]

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self.released = []
        _CAPTURES.append(self.released)

    def release(self) -> None:
        """Remember it."""
        self.released.append(threading.get_ident())
        super().release()


_CAPTURES: list[list[int]] = []


def _all(chunks: Iterable[Buffer]) -> None:
    list(chunks)


def _fails_midway(chunks: Iterable[Buffer]) -> None:
    for _ in chunks:
        raise OSError("the disk is full")


def _fails_at_once(chunks: Iterable[Buffer]) -> None:
    raise OSError("the disk is full")


def _closes(chunks: Iterable[Buffer]) -> None:
    iterator = iter(chunks)
    next(iterator)
    iterator.close()  # type: ignore[attr-defined]


def _begins(chunks: Iterable[Buffer]) -> None:
    iter(chunks)


@pytest.mark.parametrize("reads", [_all, _fails_midway, _fails_at_once, _closes, _begins])
def test_capture_is_released_once_and_on_the_loop(
    reads: Callable[[Iterable[Buffer]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "Capture", CountingCapture)
    _CAPTURES.clear()
    scene = Scene()
    scene.admit("r1")

    async def capture() -> None:
        with ThreadPoolExecutor(1) as pool:
            chunks: list[Iterable[Buffer]] = [scene.replica.capture()]
            assert scene.state.overlaid
            job = pool.submit(lambda: reads(chunks.pop()))
            results = await asyncio.gather(asyncio.wrap_future(job), return_exceptions=True)
            assert isinstance(results[0], OSError) == reads.__name__.startswith("_fails")
            del job, results
        await asyncio.sleep(0)

    asyncio.run(capture())
    (released,) = _CAPTURES
    assert released == [threading.get_ident()]
    scene.wait(1)
    assert scene.state.overlaid == ()


def test_capture_is_of_its_moment_and_made_on_another_thread() -> None:
    scene = Scene()
    scene.do(scene.admission(*[f"r{n}" for n in range(4000)], size=500))
    before = content_of(scene.state)
    made: list[bytes] = []
    has_begun, may_go_on = threading.Event(), threading.Event()

    def read(chunks: Iterable[Buffer]) -> None:
        for chunk in chunks:
            made.append(bytes(chunk))
            has_begun.set()
            may_go_on.wait(60)

    async def capture() -> None:
        with ThreadPoolExecutor(1) as pool:
            job = pool.submit(read, scene.replica.capture())
            has_begun.wait(60)
            scene.start("x", "y")
            scene.one(r.Cancel(("t",) * 100, tuple([f"r{n}" for n in range(100)])))
            may_go_on.set()
            await asyncio.wrap_future(job)

    asyncio.run(capture())
    assert len(made) > 1
    assert max(map(len, made)) <= 1 << 20
    assert b"".join(made) == before
    assert content_of(restore(made)) == before
    assert scene.outcome("r7") == "cancelled"


def test_capture_is_read_once() -> None:
    async def capture() -> None:
        chunks = Scene().replica.capture()
        list(chunks)
        with pytest.raises(Invariant, match="read twice"):
            iter(chunks)

    asyncio.run(capture())


def test_capture_whose_loop_is_gone_is_dropped() -> None:
    async def capture() -> Iterable[Buffer]:
        return Scene().replica.capture()

    chunks = asyncio.run(capture())
    del chunks  # and no warning of an exception that nobody sees
