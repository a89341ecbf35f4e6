"""What a node says falsely is an error for whoever asked: no traceback, and no wrong value."""

from __future__ import annotations

from typing import Any

import pytest

from raftbatch.client import AsyncClient, Payload, Result
from raftbatch.errors import OutcomeUnknown
from raftbatch.v1 import gateway_pb2 as pb
from tests.unit.fake_gateway import FakeNode, FakeSession, infer_all, play

OUTCOME, TICKET = pb.WANT_OUTCOME, pb.WANT_TICKET


def ticket(number: int) -> dict[str, Any]:
    """Return a ticket alone."""
    return {"tickets": pb.SessionTickets(numbers=[number], indexes=[7])}


def outcome(number: int, kind: Any = pb.OUTCOME_KIND_OK) -> dict[str, Any]:
    """Return an outcome alone."""
    return {"outcomes": [pb.Outcome(number=number, kind=kind, final=True)]}


def unequal(number: int, *indexes: int) -> dict[str, Any]:
    """Return tickets of which nobody knows whose they are."""
    return {"tickets": pb.SessionTickets(numbers=[number] * 2, indexes=indexes)}


@pytest.mark.parametrize(
    ("says", "wants", "error"),
    [
        (ticket, OUTCOME, "a ticket, and not its outcome"),
        (outcome, TICKET, "an outcome, and not its ticket"),
        (unequal, TICKET, "0 tickets for 2 requests"),
        (lambda n: unequal(n, 1, 2, 3), TICKET, "3 tickets for 2 requests"),
        (lambda n: outcome(n, 99), OUTCOME, r"an outcome of a kind that is not known \(99\)"),
    ],
)
def test_false_answer_is_an_error_for_who_asked(says: Any, wants: int, error: str) -> None:
    async def test(nodes: list[FakeNode]) -> None:
        [node] = nodes

        async def lies(session: FakeSession, request: pb.SessionRequest) -> bool:
            false = [each for each in request.submissions if each.request_id == "false"]
            for each in false:
                await session.say(**says(each.number))
            return bool(false)

        node.hook = lies
        async with AsyncClient(node.address) as client:
            await infer_all(client, 2)
            call: Any = client.infer if wants == OUTCOME else client.submit
            with pytest.raises(OutcomeUnknown, match=f"answers false with {error}") as caught:
                await call("echo", Payload(b"hi"), request_id="false")
            assert node.address in caught.value.message
            assert isinstance(await client.infer("echo", Payload(b"hi")), Result)
            assert len(node.sessions) == 1, "others go on in the same session"
        assert "false" not in node.truth.acknowledged

    play(test)
