"""The session over a real socket: each number gets one last answer, within bounds, and no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from coordinator.config import SessionLimits
from raftbatch.errors import Draining, NotLeader, Overloaded, UnknownRequest
from raftbatch.kinds import OutcomeKind
from raftbatch.v1 import gateway_pb2 as pb
from raftbatch.v1.gateway_pb2_grpc import GatewayStub
from tests.e2e.executors import error_of
from tests.e2e.scripted import RUN, ScriptedNode, outcome, run


def submissions(*numbers: int, want: Any = pb.WANT_OUTCOME, tenant: str = "") -> pb.SessionRequest:
    """Return a message of requests whose ids are `r` and the number."""
    return pb.SessionRequest(
        tenant=tenant,
        submissions=[
            pb.Submission(
                request_id=f"r{number}", model="m", rows=1, payload=b"x", number=number, want=want
            )
            for number in numbers
        ],
    )


async def opened(channel: grpc.aio.Channel) -> Any:
    """Return a session whose first message was read."""
    session = GatewayStub(channel).Session()
    reply = await session.read()
    assert reply.opened.node_id == "n1"
    return session


async def broken(session: Any) -> str:
    """Return the slug of the error that ends a session; whatever comes before is not looked at."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await _to_the_end(session)
    error = error_of(caught.value)
    assert error is not None, caught.value
    return str(error.slug)


async def _to_the_end(session: Any) -> None:
    while await session.read() is not grpc.aio.EOF:
        pass
    raise AssertionError("it ended well")


def test_session_answers_a_submission_with_what_it_wants(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        api = node.scripted
        session = await opened(channel)
        await session.write(submissions(1, tenant="t"))
        await session.write(submissions(2, want=pb.WANT_TICKET))
        await session.write(submissions(3, want=pb.WANT_TICKET_AND_OUTCOME))
        tickets: list[int] = []
        while len(tickets) < 2:
            reply = await session.read()
            assert list(reply.tickets.indexes) == [2] * len(reply.tickets.numbers)
            tickets += reply.tickets.numbers
        assert tickets == [2, 3]
        await api.until(lambda: set(api.watching) == {"r1", "r3"})
        assert [each.tenant for each in api.submitted] == ["t", "default", "default"]
        api.end("r3", outcome("r3", b"three"))
        api.end("r1", outcome("r1", b"", OutcomeKind.FAILED))
        found = list((await session.read()).outcomes)
        assert [(each.number, each.kind, each.result) for each in found] == [
            (3, pb.OUTCOME_KIND_OK, b"three"),
            (1, pb.OUTCOME_KIND_FAILED, b""),
        ]
        assert all(each.final for each in found)
        assert (found[1].code, found[1].message) == ("broken", "it broke")
        assert (found[0].index, found[0].ended_index, found[0].at_ms) == (2, 9, 99)
        assert (found[0].run.executor, list(found[0].run.padded)) == ("gpu-1", [8, 16])
        assert found[0].run.fingerprint == RUN.fingerprint
        await session.done_writing()
        assert await session.read() is grpc.aio.EOF

    run(tmp_path, test)


def test_outcomes_in_one_message_bear_their_own_runs(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        api = node.scripted
        session = await opened(channel)
        await session.write(submissions(1, 2, 3, 4))
        await api.until(lambda: len(api.watching) == 4)
        api.end("r1", outcome("r1"))
        api.end("r2", outcome("r2"))
        api.end("r3", outcome("r3")._replace(run=RUN._replace(batch=6)))
        api.end("r4", outcome("r4", kind=OutcomeKind.EXPIRED)._replace(run=None))
        reply = await session.read()
        assert [each.run.batch for each in reply.outcomes] == [5, 5, 6, 0]
        assert [each.HasField("run") for each in reply.outcomes] == [True, True, True, False]
        session.cancel()

    run(tmp_path, test)


def test_session_ends_only_when_nothing_is_owed(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        session = await opened(channel)
        await session.write(submissions(1))
        await session.done_writing()
        await node.scripted.until(lambda: "r1" in node.scripted.watching)
        node.scripted.end("r1", outcome("r1", b"late"))
        assert (await session.read()).outcomes[0].result == b"late"
        assert await session.read() is grpc.aio.EOF

    run(tmp_path, test)


def test_numbers_refused_for_one_reason_share_the_error(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        node.scripted.error = NotLeader("n2 leads", leader="n2", retry_after_ms=3)
        session = await opened(channel)
        await session.write(submissions(1, 2, 3))
        [error] = (await session.read()).errors
        assert list(error.numbers) == [1, 2, 3]
        assert (error.error.slug, error.error.definite) == ("not_leader", True)
        assert error.error.leader == node.client_address("n2") != ""
        node.scripted.error = None
        node.scripted.answers["r1"] = Overloaded("full")
        await session.write(submissions(1, 2, want=pb.WANT_TICKET))  # the numbers are free again
        reply = await session.read()
        assert (list(reply.tickets.numbers), list(reply.errors[0].numbers)) == ([2], [1])
        session.cancel()

    run(tmp_path, test)


def test_error_after_the_ticket_is_never_definite(tmp_path: Path) -> None:
    """The request was taken: whoever believed `draining` would lose or double it."""

    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        session = await opened(channel)
        await session.write(submissions(1))
        await session.write(pb.SessionRequest(awaits=[pb.SessionAwait(number=2, request_id="r1")]))
        api = node.scripted
        await api.until(lambda: len(api.watching.get("r1", [])) == 2)
        api.end("r1", Draining("n1 stops"))
        errors = {each.numbers[0]: each.error for each in (await session.read()).errors}
        assert (errors[1].slug, errors[1].definite) == ("outcome_unknown", False)
        assert (errors[2].slug, errors[2].definite) == ("draining", True)
        session.cancel()

    run(tmp_path, test)


def test_awaits_find_what_is_known_later(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        api = node.scripted
        api.is_open.clear()
        session = await opened(channel)
        awaits = [pb.SessionAwait(number=n, request_id=f"r{n}", index=n) for n in (1, 2)]
        await session.write(pb.SessionRequest(awaits=awaits))
        await api.until(lambda: len(api.heard) == 1)  # the furthest on is asked for first
        assert api.heard == [("default", "r2", 2)]
        api.known = {"r1": outcome("r1", b"one"), "r2": outcome("r2", b"two")}
        api.is_open.set()
        found: dict[int, bytes] = {}
        while len(found) < 2:
            found |= {each.number: each.result for each in (await session.read()).outcomes}
        assert found == {1: b"one", 2: b"two"}
        api.error = UnknownRequest("nobody knows it")
        await session.write(pb.SessionRequest(awaits=[pb.SessionAwait(number=3, request_id="r3")]))
        [error] = (await session.read()).errors
        assert (list(error.numbers), error.error.slug) == ([3], "unknown_request")
        session.cancel()

    run(tmp_path, test)


def test_dropped_numbers_are_answered_no_more(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        api = node.scripted
        session = await opened(channel)
        await session.write(submissions(1))
        await api.until(lambda: "r1" in api.watching)
        api.is_open.clear()
        await session.write(submissions(2))
        await api.until(lambda: len(api.submitted) == 2)
        await session.write(pb.SessionRequest(dropped=[1, 2, 99]))
        await api.until(lambda: api.unwatched == 1)
        await session.write(submissions(1, 3, want=pb.WANT_TICKET))
        api.is_open.set()
        reply = await session.read()
        assert list(reply.tickets.numbers) == [1, 3]
        await session.done_writing()
        assert await session.read() is grpc.aio.EOF  # nothing is owed for 2

    run(tmp_path, test)


def test_cancels_and_acknowledgements_are_answered_by_number(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        api = node.scripted
        api.answers["b"] = UnknownRequest("nobody knows b")
        session = await opened(channel)
        await session.write(
            pb.SessionRequest(
                tenant="t",
                cancels=[pb.SessionNames(number=1, request_ids=["a", "b"])],
                acknowledgements=[
                    pb.SessionNames(number=2, request_ids=["a", "a"]),
                    pb.SessionNames(number=3, request_ids=["a", "b"]),
                ],
            )
        )
        cancelled: list[pb.SessionCancelled] = []
        acknowledged: list[pb.SessionAcknowledged] = []
        while len(cancelled) + len(acknowledged) < 3:
            reply = await session.read()
            cancelled += reply.cancelled
            acknowledged += reply.acknowledged
        assert [each.state for each in cancelled[0].results] == [pb.CANCEL_STATE_CANCELLED] * 2
        assert [(each.number, len(each.results)) for each in acknowledged] == [(2, 0), (3, 2)]
        assert [each.error.slug for each in acknowledged[1].results] == ["", "unknown_request"]
        assert set(api.asked) == {("t", "a"), ("t", "b")}
        api.error = NotLeader("n2 leads", leader="n2")
        await session.write(
            pb.SessionRequest(
                cancels=[pb.SessionNames(number=4)], acknowledgements=[pb.SessionNames(number=5)]
            )
        )
        numbers: list[int] = []
        while len(numbers) < 2:
            for error in (await session.read()).errors:
                assert error.error.slug == "not_leader"
                numbers += error.numbers
        assert sorted(numbers) == [4, 5]
        session.cancel()

    run(tmp_path, test)


def test_number_under_way_breaks_its_session_alone(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        other = await opened(channel)
        session = await opened(channel)
        await session.write(submissions(1))
        await session.write(submissions(1))
        assert await broken(session) == "invalid_request"
        await node.scripted.until(lambda: node.scripted.watching == {})
        await other.write(submissions(1, want=pb.WANT_TICKET))
        assert list((await other.read()).tickets.numbers) == [1]
        other.cancel()

    run(tmp_path, test)


def test_message_of_too_many_requests_breaks_its_session(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        session = await opened(channel)
        await session.write(submissions(*range(4097)))
        assert await broken(session) == "invalid_request"
        assert node.scripted.submitted == []

    run(tmp_path, test)


def test_what_is_under_way_is_bounded(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        session = await opened(channel)
        await session.write(submissions(*range(12)))
        [error] = (await session.read()).errors
        assert list(error.numbers) == [10, 11]
        assert (error.error.slug, error.error.definite) == ("overloaded", True)
        await node.scripted.until(lambda: len(node.scripted.watching) == 10)
        session.cancel()
        await node.scripted.until(lambda: node.scripted.unwatched == 10)

    run(tmp_path, test, SessionLimits(in_flight_max=10))


def test_session_is_read_no_further_than_its_bound(tmp_path: Path) -> None:
    """A client that sends faster than the log takes is slowed down, and not refused."""

    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        api = node.scripted
        api.is_open.clear()
        session = await opened(channel)
        for number in range(20):
            message = submissions(number, want=pb.WANT_TICKET)
            message.submissions[0].payload = bytes(10_000)
            await session.write(message)
        await api.until(lambda: len(api.submitted) >= 10)
        for _ in range(50):
            await GatewayStub(channel).Nodes(pb.NodesRequest())  # turns of the loop
        assert len(api.submitted) == 10
        api.is_open.set()
        tickets: list[int] = []
        while len(tickets) < 20:
            tickets += (await session.read()).tickets.numbers
        assert tickets == list(range(20))
        session.cancel()

    run(tmp_path, test, SessionLimits(taking_bytes_max=100_000))


def test_sessions_are_bounded(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        first = await opened(channel)
        assert await broken(GatewayStub(channel).Session()) == "overloaded"
        await first.done_writing()
        assert await first.read() is grpc.aio.EOF
        (await opened(channel)).cancel()

    run(tmp_path, test, SessionLimits(sessions_max=1))


def test_client_that_goes_away_leaves_nothing_behind(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        api = node.scripted
        session = await opened(channel)
        await session.write(submissions(1, 2))
        await api.until(lambda: len(api.watching) == 2)
        api.is_open.clear()
        await session.write(submissions(3))
        await api.until(lambda: len(api.submitted) == 3)
        session.cancel()
        await api.until(lambda: api.unwatched == 2)
        while node.on_stopping:
            await GatewayStub(channel).Nodes(pb.NodesRequest())  # turns of the loop

    run(tmp_path, test)


def test_node_that_stops_ends_a_session_that_is_owed_nothing(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        session = await opened(channel)
        await session.write(submissions(1))
        await node.scripted.until(lambda: "r1" in node.scripted.watching)
        node.stop_taking()
        node.scripted.end("r1", outcome("r1", b"one"))
        assert (await session.read()).outcomes[0].result == b"one"
        assert await broken(session) == "draining"

    run(tmp_path, test)


def test_bug_in_a_call_breaks_the_session_and_is_no_definite_error(tmp_path: Path) -> None:
    async def test(node: ScriptedNode, channel: grpc.aio.Channel) -> None:
        node.scripted.error = ZeroDivisionError("a bug")
        session = await opened(channel)
        await session.write(submissions(1))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await session.read()
        assert caught.value.code() is grpc.StatusCode.UNKNOWN
        assert error_of(caught.value) is None

    run(tmp_path, test)
