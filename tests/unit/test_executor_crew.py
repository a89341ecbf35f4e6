"""The crew on children that do as a test tells them: what replaces one, and what ends it all."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from executor.children import Child, RealChildren, _RealChild
from executor.core.values import Answer, Failure, Outcome
from executor.crew import CHILD_DIED, CHILD_NOT_UP, Crew
from executor.frames import Broken, Frame, Load, Ran, Up, Warm, Warmed
from executor.link import Pauses
from raftbatch.errors import CannotStart
from tests.unit.test_executor_child import LOAD, run


class FakeEntropy:
    """Bytes that are always the same."""

    def random_bytes(self, length: int) -> bytes:
        """Return zeros."""
        return bytes(length)


class FakeChild:
    """A child that says what a test puts into `says`; None: it says nothing any more."""

    def __init__(self, *says: Frame | None) -> None:
        self.pid = os.getpid()
        self.says: asyncio.Queue[Frame | None] = asyncio.Queue()
        for each in says:
            self.says.put_nowait(each)

    def send(self, frame: Frame) -> None:
        """Take it."""

    async def receive(self) -> Frame | None:
        """Return the next."""
        return await self.says.get()

    def kill(self) -> None:
        """It dies at once."""

    async def dead(self) -> str:
        """Say so."""
        return "it is dead"


class FakeChildren:
    """Starts what a test gives it, one after the other; or raises it."""

    def __init__(self, *lives: FakeChild | Exception) -> None:
        self._lives = list(lives)

    async def start(self, load: Load) -> Child:
        """Start the next."""
        life = self._lives.pop(0)
        if isinstance(life, Exception):
            raise life
        return life


class Heard:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.changed = asyncio.Event()

    def up(self, number: int) -> None:
        """Note it."""
        self._note("up")

    def down(self, number: int, failure: Failure) -> None:
        """Note it."""
        self._note(failure)

    def said(self, number: int, frame: Frame) -> bool:
        """Note it; a warm-up that nobody asked for is false."""
        self._note(frame)
        return not isinstance(frame, Warmed)

    def failed(self, task: asyncio.Task[None]) -> None:
        """Note what nobody expects."""
        if not task.cancelled() and task.exception() is not None:
            self._note(task.exception())

    async def until(self, count: int) -> None:
        """Wait until it was told so often."""
        while len(self.told) < count:
            self.changed.clear()
            await self.changed.wait()

    def _note(self, what: object) -> None:
        self.told.append(what)
        self.changed.set()


def short_pauses() -> Pauses:
    """Return pauses that are all short."""
    return Pauses(FakeEntropy(), 0.001, 0.001)


def with_crew(
    test: Callable[[Crew, Heard], Coroutine[Any, Any, None]],
    *lives: FakeChild | Exception,
    pauses: Callable[[], Pauses] = short_pauses,
) -> None:
    """Run a test on the crew of one instance, which lives these lives."""

    async def main() -> None:
        heard = Heard()
        crew = Crew(FakeChildren(*lives), [LOAD], heard, pauses, 5.0)
        try:
            await test(crew, heard)
        finally:
            await crew.close()

    run(main())


UP = Up("cpu", "")


def test_child_that_dies_or_cannot_be_started_is_replaced() -> None:
    async def test(crew: Crew, heard: Heard) -> None:
        await crew.start()
        await heard.until(4)
        died = Failure(CHILD_DIED, "the process of echo died: it is dead")
        no_room = Failure(CHILD_NOT_UP, "no process can be started for echo: no room")
        assert heard.told == ["up", died, no_room, "up"]

    with_crew(test, FakeChild(UP, None), OSError("no room"), FakeChild(UP))


class NotedPauses(Pauses):
    """Pauses that tell how long they were."""

    def __init__(self, noted: list[float]) -> None:
        super().__init__(FakeEntropy(), 0.001, 0.1)
        self._noted = noted

    def next_s(self) -> float:
        """Return the next one, in seconds, and note it."""
        self._noted.append(super().next_s())
        return self._noted[-1]


def test_pause_before_a_replacement_grows_until_a_batch_ran() -> None:
    noted: list[float] = []
    ran = Ran(1, Outcome((Answer(b"x"),), 1, 2, 3, (4,), b"f"))
    lives = [FakeChild(UP, None), FakeChild(UP, None), FakeChild(UP, ran, None), FakeChild(UP)]

    async def test(crew: Crew, heard: Heard) -> None:
        await crew.start()
        await heard.until(2 * len(lives))
        assert noted == [0.0005, 0.001, 0.0005]

    with_crew(test, *lives, pauses=lambda: NotedPauses(noted))


def test_child_that_cannot_load_at_the_start_ends_the_start() -> None:
    async def test(crew: Crew, heard: Heard) -> None:
        with pytest.raises(CannotStart, match="no such class"):
            await crew.start()
        assert heard.told == []

    with_crew(test, FakeChild(Broken("no such class")))


def test_bug_at_the_start_ends_it() -> None:
    async def test(crew: Crew, heard: Heard) -> None:
        with pytest.raises(ValueError, match="a bug"):
            await crew.start()
        assert [str(each) for each in heard.told] == ["a bug"]

    with_crew(test, ValueError("a bug"))


def test_bug_after_the_start_is_told() -> None:
    async def test(crew: Crew, heard: Heard) -> None:
        await crew.start()
        await heard.until(3)
        assert str(heard.told[-1]) == "a bug"

    with_crew(test, FakeChild(UP, None), ValueError("a bug"))


def test_pipe_that_closes_while_a_child_is_started_is_a_child_that_cannot_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """uvloop says so with a RuntimeError: it would end the executor, as any bug does."""

    async def closes(*arguments: object, **options: object) -> None:
        raise RuntimeError("unable to perform operation on <WriteUnixTransport closed=True>")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", closes)
    with pytest.raises(OSError, match="unable to perform"):
        asyncio.run(RealChildren().start(LOAD))


class ClosedPipe:
    """A pipe that has closed, of a process whose death is not known yet."""

    returncode = None
    stdout = ()

    def __init__(self) -> None:
        self.stdin = self

    def is_closing(self) -> bool:
        """It has, and does not say so."""
        return False

    def write(self, data: bytes) -> None:
        """Raise as uvloop does."""
        raise RuntimeError("unable to perform operation; the handler is closed")


def test_child_whose_pipe_has_closed_is_told_nothing() -> None:
    child = _RealChild(cast("asyncio.subprocess.Process", ClosedPipe()))
    child.send(Warm(1))


def test_child_that_answers_what_it_was_not_given_is_replaced() -> None:
    async def test(crew: Crew, heard: Heard) -> None:
        await crew.start()
        await heard.until(4)
        [up, warmed, failure, again] = heard.told
        assert (up, warmed, again) == ("up", Warmed(3), "up")
        assert failure == Failure(
            CHILD_DIED,
            "the process of echo was killed: it said Warmed of what it was not given",
        )

    with_crew(test, FakeChild(UP, Warmed(3), Warmed(4)), FakeChild(UP))
