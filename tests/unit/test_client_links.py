"""Links of the SDK: each is ended once it leads no more and owes nothing."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from raftbatch.client import ClientOptions
from raftbatch.client import link as links
from raftbatch.client.asks import Ask
from raftbatch.client.engine import Engine
from raftbatch.client.link import Link
from raftbatch.client.nodes import Nodes
from raftbatch.errors import OutcomeUnknown
from raftbatch.v1 import gateway_pb2 as pb
from raftbatch.v1 import model_pb2


class Quiet(Link):
    """A link without a node, on which nothing is said.

    Attributes:
        is_ended: whether it was closed.
    """

    def __init__(self, engine: Engine) -> None:
        opened = pb.Opened(in_flight_max=2, message_bytes_max=4096)
        super().__init__(engine, "127.0.0.1:1", cast("Any", None), None, opened)
        self.is_ended = False

    def start(self) -> None:
        """Begin nothing."""

    async def close(self) -> None:
        """Remember it."""
        self.is_ended = True


async def turn(engine: Engine) -> Quiet:
    """Let another link lead; return it once all that follows from that is over."""
    link = Quiet(engine)
    engine.turn_to(link)
    await asyncio.sleep(0)
    return link


def made() -> Engine:
    """Return an engine that asks nobody by itself."""
    return Engine(Nodes(["127.0.0.1:1"], None), ClientOptions())


def test_link_that_owes_nothing_is_ended_once_another_leads() -> None:
    async def main() -> None:
        engine = made()
        first = await turn(engine)  # it was doubted, and has answered while another was sought
        assert not first.is_ended
        second = await turn(engine)
        assert (first.is_ended, second.is_ended) == (True, False)
        await engine.close()
        assert second.is_ended

    asyncio.run(main())


def test_acknowledgements_wait_for_room_and_go_before_requests() -> None:
    async def main() -> None:
        engine = made()
        link = await turn(engine)
        asks = [Ask(engine.future(), f"r{n}", b"", b"", n) for n in range(4)]
        for ask in asks:
            engine.ask(ask, None, False)

        def said() -> pb.SessionRequest | None:
            message = engine.next_message(link)
            return None if message is None else pb.SessionRequest.FromString(message)

        first = said()
        assert first is not None
        assert [each.request_id for each in first.awaits] == ["r0", "r1"]
        for n in range(256):  # as many as are said at once
            engine.acknowledge(f"read {n}")
        assert said() is None
        link.asks.popitem()
        second = said()
        assert second is not None
        assert (len(second.acknowledgements), len(second.awaits)) == (1, 0)
        assert said() is None
        for ask in asks:
            ask.answer.set_result(None)
        link.controls.clear()
        engine._background.close()
        await engine.close()

    asyncio.run(main())


@pytest.mark.parametrize("is_late", [True, False])
def test_outcome_stays_for_who_was_told_that_nobody_knows_it(is_late: bool) -> None:
    async def main() -> None:
        engine = made()
        link = await turn(engine)
        ask = Ask(engine.future(), "r", b"head")
        engine.ask(ask, None, True)
        assert engine.next_message(link) is not None
        if is_late:
            engine._late(ask, 1.0, True)
            with pytest.raises(OutcomeUnknown):
                await cast("asyncio.Future[None]", ask.answer)
        else:
            cast("asyncio.Future[None]", ask.answer).cancel()
            engine.abandon(ask, is_cancelled=True)
        assert engine.next_message(link) is not None
        [number] = link.controls
        ended = pb.CancelResult(state=pb.CANCEL_STATE_ENDED)  # it had an outcome before
        said = pb.SessionCancelled(number=number, results=[ended])
        engine.heard(link, pb.SessionReply(cancelled=[said]))
        assert list(engine._background._read) == ([] if is_late else ["r"])
        await engine.close()

    asyncio.run(main())


def test_link_that_owes_models_alone_is_ended_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        told: asyncio.Future[pb.ModelsReply] = asyncio.get_running_loop().create_future()

        class Stub:
            def __init__(self, channel: object) -> None:
                pass

            def Models(self, request: pb.ModelsRequest) -> Any:  # noqa: N802
                return told

        monkeypatch.setattr(links, "GatewayStub", Stub)
        engine = made()
        first = await turn(engine)
        asked = asyncio.ensure_future(first.models("echo"))
        await asyncio.sleep(0)
        second = await turn(engine)
        assert not first.is_ended
        told.set_result(pb.ModelsReply(models=[model_pb2.Model(name="echo")]))
        assert [each.name for each in (await asked).models] == ["echo"]
        await asyncio.sleep(0)
        assert (first.is_ended, second.is_ended) == (True, False)
        await engine.close()

    asyncio.run(main())


@pytest.mark.parametrize("request_bytes", [0, 3800])
def test_message_holds_no_more_than_the_node_takes_whatever_rides_along(request_bytes: int) -> None:
    async def main() -> None:
        engine = made()
        link = await turn(engine)
        link.opened.in_flight_max = 1 << 20
        for n in range(400):
            engine.acknowledge(f"{n:0200}")
            engine._background.cancel(f"{n:0200}")
        link.dropped.extend(range(1 << 30, (1 << 30) + 2000))
        head = pb.Submission(model="echo").SerializeToString()
        payload = pb.Submission(payload=b"x" * request_bytes).SerializeToString()
        names = ["ä" * 250 + str(n) for n in range(50)]
        asks = [Ask(engine.future(), name) for name in names]
        asks += [Ask(engine.future(), str(n), head, payload) for n in range(5)]
        for ask in asks:
            engine.ask(ask, None, False)
        said = pb.SessionRequest()
        while (message := engine.next_message(link)) is not None:
            assert 0 < len(message) <= link.opened.message_bytes_max
            said.MergeFromString(message)
        assert len(said.dropped) == 2000
        assert [each.request_id for each in said.awaits] == names
        assert len(said.submissions) == 5
        for each in (said.cancels, said.acknowledgements):
            assert sorted(name for one in each for name in one.request_ids) == [
                f"{n:0200}" for n in range(400)
            ]
        numbers = [each.number for part in (said.awaits, said.submissions) for each in part]
        assert sorted(numbers) == sorted(link.asks)
        for ask in asks:
            ask.answer.set_result(None)
        engine._background.close()
        await engine.close()

    asyncio.run(main())
