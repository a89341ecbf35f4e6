"""What a caller hands over ends its own call, where it cannot be sent, and no other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from raftbatch.client import AsyncClient
from raftbatch.client.heads import Heads
from raftbatch.errors import InvalidRequest

HALF = "half \ud800"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", HALF),
        ("model", 5),
        ("version", HALF),
        ("timeout_s", float("inf")),
        ("timeout_s", float("nan")),
        ("timeout_s", 1e300),
        ("timeout_s", 0),
        ("timeout_s", "1"),
        ("priority", -1),
        ("priority", 10**20),
        ("priority", "high"),
        ("request_id", HALF),
        ("request_id", 5),
        ("traceparent", HALF),
    ],
)
def test_what_cannot_be_sent_is_refused_before_it_is_asked_for(name: str, value: Any) -> None:
    of: dict[str, Any] = {"model": "m", "version": "", "timeout_s": None, "priority": None}
    more: dict[str, Any] = {"request_id": "r", "traceparent": ""}
    (of if name in of else more)[name] = value
    key = (of["model"], of["version"], "", 1, of["timeout_s"], of["priority"], 0)
    with pytest.raises(InvalidRequest) as caught:
        Heads().head(more["request_id"], 0, key, b"", more["traceparent"])
    assert name.replace("_id", " id") in caught.value.message


@pytest.mark.parametrize(
    ("request_id", "index"),
    [(HALF, 0), (5, 0), ("r" * 257, 0), ("r", -1), ("r", 1 << 64), ("r", None)],
)
def test_ticket_that_cannot_be_sent_is_none(request_id: Any, index: Any) -> None:
    async def main() -> None:
        async with AsyncClient("127.0.0.1:1") as client:
            with pytest.raises(InvalidRequest):
                client.ticket(request_id, index)

    asyncio.run(main())


def test_calls_that_cannot_be_sent_are_refused_at_once() -> None:
    as_text: Any = "5"  # as an environment has it

    async def main() -> None:
        async with AsyncClient("127.0.0.1:1") as client:
            ticket = client.ticket("r", (1 << 64) - 1)
            for call in (
                client.cancel(HALF),
                client.cancel("r" * 257),  # many share the message that it would fill
                client.infer(HALF, "text"),
                client.submit("m", "text", version=HALF),
                client.infer("m", "text", timeout_s=float("inf")),
                client.infer("m", "text", timeout_s=as_text),
                ticket.result(timeout_s=float("inf")),
                ticket.result(timeout_s=-1),
            ):
                with pytest.raises(InvalidRequest):
                    await asyncio.wait_for(call, 5)
            with pytest.raises(InvalidRequest, match="257 characters: at most 256"):
                await client.acknowledge("r" * 257)

    asyncio.run(main())
