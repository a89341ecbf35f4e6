"""Messages of clients that ask for far too much are refused before anything is made of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coordinator.config import SessionLimits
from coordinator.core.effects import Verdict
from coordinator.node import Phase
from coordinator.rpc import dispatch, gateway
from coordinator.rpc.asks import ASKS_MAX, bounded
from coordinator.rpc.session import Session
from coordinator.scheduler import SchedulerConfig
from raftbatch.errors import InvalidRequest
from raftbatch.v1 import gateway_pb2 as pb

LIMIT_S = 120.0
LIMITS = SessionLimits(in_flight_max=8192, taking_bytes_max=1 << 20)


class Far(Sequence[Any]):
    """Far too many things, none of which may be looked at."""

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, place: Any) -> Any:
        raise AssertionError("it is looked at")


class Scene:
    """A session, and the parts of a node that it asks, which answer when they may.

    Attributes:
        asked: how many ids each call named.
        replies: what was written.
        left: messages that the session has not read.
    """

    def __init__(self, *messages: pb.SessionRequest) -> None:
        self.asked: list[int] = []
        self.replies: list[pb.SessionReply] = []
        self.left = list(messages)
        self.may_answer = asyncio.Event()
        self.may_end = asyncio.Event()
        server = SimpleNamespace(message_bytes_max=1 << 20)
        node: Any = SimpleNamespace(
            config=SimpleNamespace(node_id="n1", server=server, scheduler=SchedulerConfig()),
            log=None,
            phase=Phase.SERVING,
            client_address=lambda node: node,
            on_stopping=[],
        )
        self.session = Session(node, cast("Any", self), cast("Any", self), LIMITS)

    def wants(self, forward: bool) -> bool:
        """Return that nothing is to be handed on."""
        return False

    async def acknowledge(self, names: Sequence[tuple[str, str]]) -> list[Any]:
        """Note how many ids are named; answer when it may be."""
        self.asked.append(len(names))
        await self.may_answer.wait()
        return [Verdict.OK] * len(names)

    cancel = acknowledge

    async def read(self) -> object:
        """Return the next message; when there is none, wait for the end."""
        if self.left:
            return self.left.pop(0)
        await self.may_end.wait()
        return None

    async def write(self, reply: pb.SessionReply) -> None:
        """Note what is said."""
        self.replies.append(reply)

    async def serve(self) -> None:
        """Serve the client to its end."""
        try:
            await self.session.serve(cast("Any", self))
        finally:
            self.session.end()


def acknowledgements(first: int, count: int, ids: int) -> pb.SessionRequest:
    """Return a message of lists of ids of a hundred characters."""
    names = [f"{n:0100}" for n in range(ids)]
    return pb.SessionRequest(
        acknowledgements=[
            pb.SessionNames(number=n, request_ids=names) for n in range(first, first + count)
        ]
    )


@pytest.mark.parametrize(
    "message",
    [
        pb.SessionRequest(dropped=range(LIMITS.in_flight_max + 1)),
        acknowledgements(0, ASKS_MAX + 1, 0),
    ],
    ids=["dropped", "acknowledgements"],
)
def test_message_of_too_much_ends_the_session_before_it_is_looked_at(
    message: pb.SessionRequest,
) -> None:
    async def main() -> None:
        scene = Scene(message)
        with pytest.raises(InvalidRequest, match="at most"):
            await asyncio.wait_for(scene.serve(), LIMIT_S)
        assert scene.asked == []

    asyncio.run(main())


def test_too_many_ids_are_refused_and_the_session_goes_on() -> None:
    async def main() -> None:
        scene = Scene(acknowledgements(1, 1, ASKS_MAX + 1), acknowledgements(2, 1, 1))
        scene.may_answer.set()
        scene.may_end.set()
        await asyncio.wait_for(scene.serve(), LIMIT_S)
        assert scene.asked == [1]
        [error] = [each for reply in scene.replies for each in reply.errors]
        assert (list(error.numbers), error.error.slug) == ([1], "invalid_request")
        assert "at most 4096" in error.error.message

    asyncio.run(main())


def test_ids_on_their_way_count_toward_what_a_session_may_have_there() -> None:
    """Else lists of ids, which wait for a leader, would take whatever memory there is."""

    async def main() -> None:
        scene = Scene(*[acknowledgements(n, 1, 4096) for n in range(1, 21)])
        serving = asyncio.ensure_future(scene.serve())
        for _ in range(200):  # turns of the loop
            await asyncio.sleep(0)
        assert (len(scene.asked), len(scene.left)) == (3, 17)  # 2.4 lists fill a mebibyte
        scene.may_answer.set()
        scene.may_end.set()
        await asyncio.wait_for(serving, LIMIT_S)
        assert len(scene.asked) == 20

    asyncio.run(main())


def test_lists_of_calls_are_measured_before_they_are_read() -> None:
    with pytest.raises(InvalidRequest, match="10000000 ids at once, at most 4096"):
        gateway._names("", Far())
    with pytest.raises(InvalidRequest, match="at most 4096"):
        gateway._submissions("", Far())
    with pytest.raises(InvalidRequest, match="at most 1024"):
        dispatch._models(Far())
    with pytest.raises(InvalidRequest, match="at most 7"):
        dispatch._slots(Far(), 7)
    with pytest.raises(InvalidRequest, match="at most 7"):
        dispatch._holdings(Far(), 7)
    bounded([1], 1, "ones")
