"""Which calls that gRPC ends were given up, and how their requests are cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

from coordinator.config import ServerLimits
from coordinator.node import Phase
from coordinator.rpc.given_up import GivenUp
from coordinator.scheduler import SchedulerConfig
from coordinator.shares import CALLER, Caller
from raftbatch.errors import NoLeader

Name = tuple[str, str]


class Fake:
    """A node, its api and its forwarder: notes whom it is asked to cancel."""

    def __init__(self) -> None:
        self.phase = Phase.SERVING
        self.config = SimpleNamespace(server=ServerLimits(), scheduler=SchedulerConfig())
        self.api = self
        self.is_leading = True
        self.awaited: set[Name] = set()
        self.asked: list[list[Name]] = []
        self.callers: list[Caller] = []
        self.error: Exception | None = None
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    def is_awaited(self, tenant: str, request_id: str) -> bool:
        """Return whether somebody waits."""
        return (tenant, request_id) in self.awaited

    def wants(self, forward: bool) -> bool:
        """Return whether it is to be handed on."""
        return forward and not self.is_leading

    async def cancel(self, names: Sequence[Name]) -> None:
        """Note them."""
        self.asked.append(list(names))
        self.callers.append(CALLER.get())
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error


def play(check: Callable[[Fake, GivenUp], Any]) -> None:
    """Run a check; what it began has ended then."""

    async def main() -> None:
        fake = Fake()
        given_up = GivenUp(cast("Any", fake), cast("Any", fake))
        await check(fake, given_up)
        await over(given_up)

    asyncio.run(main())


async def over(given_up: GivenUp) -> None:
    """Return once nothing is left to cancel."""
    task = given_up._task
    if task is not None:
        await task


def now() -> float:
    """Return the loop's time."""
    return asyncio.get_running_loop().time()


def test_calls_that_are_given_up_together_are_few_cancels() -> None:
    async def check(fake: Fake, given_up: GivenUp) -> None:
        fake.may_answer.clear()
        given_up.ended(("t", "first"), now(), None)
        await asyncio.sleep(0)
        for n in range(1030):
            given_up.ended(("t", f"{n}"), now(), 60.0)
        given_up.ended(("u", "other"), now(), None)
        fake.may_answer.set()
        await over(given_up)
        assert [(each[0], len(each)) for each in fake.asked] == [
            (("t", "first"), 1),
            (("t", "0"), 1024),
            (("t", "1024"), 6),
            (("u", "other"), 1),
        ]

    play(check)


def test_what_cannot_be_cancelled_goes_on_and_the_next_is_tried() -> None:
    async def check(fake: Fake, given_up: GivenUp) -> None:
        fake.error = NoLeader("nobody leads")
        for tenant in ("t", "u"):
            given_up.ended((tenant, "a"), now(), None)
        await over(given_up)
        fake.error, fake.is_leading = None, False
        given_up.ended(("t", "b"), now(), None)
        await over(given_up)
        assert fake.asked == [[("t", "a")], [("u", "a")], [("t", "b")]]

    play(check)


def test_names_that_no_request_has_keep_nobody_elses_cancel_away() -> None:
    async def check(fake: Fake, given_up: GivenUp) -> None:
        for name in (("t", "a"), ("t", ""), ("t", "x" * 257), ("t" * 257, "a"), ("t", "b")):
            given_up.ended(name, now(), None)
        await over(given_up)
        assert fake.asked == [[("t", "a"), ("t", "b")]]

    play(check)


def test_call_that_was_not_given_up_lets_its_request_go_on() -> None:
    async def check(fake: Fake, given_up: GivenUp) -> None:
        given_up.ended(("t", "deadline"), now(), 0.01)
        fake.awaited.add(("t", "another's"))
        given_up.ended(("t", "another's"), now(), None)
        fake.phase = Phase.STOPPING
        given_up.ended(("t", "stops"), now(), None)
        assert given_up._task is None

    play(check)


def test_call_that_may_have_ended_with_an_old_connection_lets_its_request_go_on() -> None:
    async def check(fake: Fake, given_up: GivenUp) -> None:
        grace_s = fake.config.server.connection_grace_ms_max / 1000
        given_up.ended(("t", "no connection is old"), now() - grace_s, None)
        given_up.since -= fake.config.server.connection_age_ms_max / 1000
        given_up.ended(("t", "it had time to end"), now() - grace_s, None)
        given_up.ended(("t", "it had not"), now() - grace_s / 10, None)
        await over(given_up)
        assert fake.asked == [[("t", "no connection is old"), ("t", "it had not")]]

    play(check)


def test_cancels_count_as_nobodys() -> None:
    async def check(fake: Fake, given_up: GivenUp) -> None:
        CALLER.set(("a caller that has had its share",))
        given_up.ended(("t", "a"), now(), None)
        await over(given_up)
        assert fake.callers == [()]

    play(check)
