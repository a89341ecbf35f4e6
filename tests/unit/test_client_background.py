"""What the SDK says in the background: when, and for how long it says nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from raftbatch.client.background import Background, Control
from raftbatch.errors import InvalidRequest, NoSpace, OutcomeUnknown, Overloaded, RaftbatchError
from raftbatch.v1 import gateway_pb2 as pb

MANY = 256  # acknowledgements, which are worth a message
FULL = Overloaded("full", retry_after_ms=60_000)


class Loop(asyncio.SelectorEventLoop):
    """A loop whose timers a test looks at; none of those that matter here is ever over."""

    def __init__(self) -> None:
        super().__init__()
        self.timers: list[asyncio.TimerHandle] = []

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[[], None]
    ) -> asyncio.TimerHandle:
        """Remember the timer."""
        timer = super().call_later(delay, callback)
        self.timers.append(timer)
        return timer

    def waits_s(self) -> list[float]:
        """Return how long each timer that is still set has to go, about."""
        return [each.when() - self.time() for each in self.timers if not each.cancelled()]


def play(test: Callable[[Background, Loop], None]) -> None:
    """Run a test on a loop."""
    loop = Loop()

    async def main() -> None:
        background = Background(lambda: None)
        test(background, loop)
        background.close()
        assert loop.waits_s() == []

    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


def acknowledge_many(background: Background, name: str) -> None:
    """Read as many outcomes as are worth a message."""
    for n in range(MANY):
        background.acknowledge(f"{name}{n}")


@pytest.mark.parametrize("is_cancel", [True, False])
def test_nothing_is_said_for_as_long_as_the_node_asks(is_cancel: bool) -> None:
    def test(background: Background, loop: Loop) -> None:
        if is_cancel:
            background.cancel("c")
        else:
            acknowledge_many(background, "a")
        [refused] = background.take(2, 1 << 20)
        background.failed(refused, FULL)
        acknowledge_many(background, "b")
        background.cancel("d")
        assert not background.is_due
        [left_s] = loop.waits_s()
        assert left_s > 30

    play(test)


@pytest.mark.parametrize("error", [NoSpace("full"), OutcomeUnknown("the session broke")])
def test_longest_pause_that_was_asked_for_holds(error: RaftbatchError) -> None:
    def test(background: Background, loop: Loop) -> None:
        acknowledge_many(background, "a")
        background.cancel("c")
        cancel, acknowledgement = background.take(2, 1 << 20)
        background.failed(cancel, FULL)
        background.failed(acknowledgement, error)
        [left_s] = loop.waits_s()
        assert left_s > 30

    play(test)


@pytest.mark.parametrize("state", [pb.CANCEL_STATE_CANCELLED, pb.CANCEL_STATE_ENDED])
@pytest.mark.parametrize("is_unread", [True, False])
def test_outcome_of_what_is_cancelled_stays_for_who_may_read_it(
    state: pb.CancelState, is_unread: bool
) -> None:
    def test(background: Background, loop: Loop) -> None:
        told = background.cancel("c", [state] if is_unread else ())
        [control] = background.take(1, 1 << 20)
        assert background.cancelled(control, [pb.CancelResult(state=state)]) is None
        assert told.result() is (state == pb.CANCEL_STATE_CANCELLED)
        assert len(loop.waits_s()) == is_unread  # until it is acknowledged

    play(test)


def test_what_is_due_early_has_no_timer_left() -> None:
    def test(background: Background, loop: Loop) -> None:
        acknowledge_many(background, "a")
        assert background.is_due
        assert loop.waits_s() == []
        background.cancel("c")
        assert background.take(0, 1 << 20) == []  # there is no room
        assert background.take(1, 1 << 20) == [Control(True, ("c",))]
        assert background.take(1, 1 << 20) == [Control(False, tuple(f"a{n}" for n in range(MANY)))]
        assert not background.is_due

    play(test)


def test_lists_hold_no_more_ids_than_the_node_takes() -> None:
    def test(background: Background, loop: Loop) -> None:
        acknowledge_many(background, "a")
        for n in range(30):
            background.cancel(f"c{n}")
        cancel, read = background.take(2, 1 << 20, 10)
        assert (len(cancel.request_ids), len(read.request_ids)) == (10, 10)
        assert background.is_due, "the rest is said as soon as there is room"
        assert len(background.take(1, 1 << 20, 0)[0].request_ids) == 20, (
            "an older node says nothing"
        )

    play(test)


@pytest.mark.parametrize("takes", [1, 3, 100])
@pytest.mark.parametrize("is_cancel", [True, False])
def test_list_that_is_refused_is_said_again_in_parts(takes: int, is_cancel: bool) -> None:
    def test(background: Background, loop: Loop) -> None:
        names = [f"{n}" for n in range(MANY)]
        told = {}
        for name in names:
            if is_cancel:
                told[name] = background.cancel(name)
            else:
                background.acknowledge(name)
        taken: list[str] = []
        while True:
            background._due()  # whatever pause there is, it is over
            controls = background.take(2, 1 << 20)
            if not controls:
                break
            [control] = controls
            ids = control.request_ids
            if len(ids) > takes:
                background.failed(
                    control, InvalidRequest(f"{len(ids)} ids at once, at most {takes}")
                )
                assert not background.is_due, "not at once"
                continue
            taken += ids
            if is_cancel:
                done = pb.CancelResult(state=pb.CANCEL_STATE_CANCELLED)
                background.cancelled(control, [done] * len(ids))
            else:
                background.acknowledged(control, [])
        assert sorted(taken) == sorted(names)
        assert all(each.result() for each in told.values())

    play(test)


def test_single_id_that_is_refused_is_not_said_again() -> None:
    def test(background: Background, loop: Loop) -> None:
        told = background.cancel("c")
        [control] = background.take(1, 1 << 20)
        background.failed(control, InvalidRequest("it is none"))
        assert isinstance(told.exception(), InvalidRequest)
        assert background.take(1, 1 << 20) == []
        assert background._is_idle

    play(test)


def test_id_that_is_none_leaves_the_lists_of_others_long() -> None:
    def test(background: Background, loop: Loop) -> None:
        for name in ("fine", "no\0ne", "fine too"):
            background.cancel(name)
        done = pb.CancelResult(state=pb.CANCEL_STATE_CANCELLED)
        while background._cancels:
            background._due()  # whatever pause there is, it is over
            [control] = background.take(2, 1 << 20)
            if "no\0ne" in control.request_ids:
                background.failed(control, InvalidRequest("request id: without NUL"))
            else:
                background.cancelled(control, [done] * len(control.request_ids))
        acknowledge_many(background, "a")
        [control] = background.take(2, 1 << 20)
        assert len(control.request_ids) == MANY

    play(test)
