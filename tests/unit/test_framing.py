"""Messages laid out by hand are what Protobuf itself makes, and reads."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from random import Random

import pytest

from raftbatch.client import Result
from raftbatch.client.asks import Ask, Ready
from raftbatch.client.deadlines import Deadlines
from raftbatch.client.heads import Heads
from raftbatch.client.host import new_request_id
from raftbatch.client.results import Runs
from raftbatch.errors import InvalidRequest
from raftbatch.framing import tag_of, varint
from raftbatch.v1 import gateway_pb2 as pb


@pytest.mark.parametrize("bits", [0, 1, 6, 7, 8, 13, 14, 15, 21, 31, 32, 63])
def test_numbers_are_as_protobuf_writes_them(bits: int) -> None:
    for number in {1 << bits, (1 << bits) - 1, (1 << bits) + 1}:
        written = pb.Ticket(index=number).SerializeToString()
        assert written == (tag_of(pb.Ticket, "index") + varint(number) if number else b"")
    assert varint(0) == b"\0"


def test_tags_are_of_the_fields_kind() -> None:
    name = b"id"
    expected = pb.Ticket(request_id="id").SerializeToString()
    assert tag_of(pb.Ticket, "request_id") + varint(len(name)) + name == expected


class FakeLink:
    """As much of a link as a message needs."""

    def __init__(self) -> None:
        self.opened = pb.Opened(message_bytes_max=1 << 20)
        self.room = 1000
        self.asks: dict[int, Ask] = {}


def test_request_is_sent_as_it_was_asked_for() -> None:
    async def main() -> None:
        rng, heads, ready, wanted = Random(1), Heads(), Ready(), []
        for n in range(300):
            payload = rng.randbytes(rng.choice([0, 1, 127, 128, 300]))
            timeout_s = rng.choice([None, 0.0005, 1.5])
            priority = rng.choice([None, 0, 7])
            version, want = rng.choice(["", "3"]), rng.choice([0, 1])
            parameters, trace = rng.choice([b"", b"{}"]), rng.choice(["", "00-1"])
            name = f"id-grün-{n}" * rng.choice([1, 12])
            key = ("m", version, "s", n % 3 + 1, timeout_s, priority, want)
            head = heads.head(name, len(payload), key, parameters, trace)
            answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            ready.put(Ask(answer, name, head, payload))
            submission = pb.Submission(
                request_id=name,
                model="m",
                version=version,
                signature="s",
                rows=n % 3 + 1,
                payload=payload,
                timeout_ms=0 if timeout_s is None else max(1, int(timeout_s * 1000)),
                parameters=parameters,
                traceparent=trace,
                number=100_000 + n,
                want=pb.Want.Name(want),
            )
            if priority is not None:
                submission.priority = priority
            wanted.append(submission)
        parts: list[bytes] = []
        request, link = pb.SessionRequest(tenant="t"), FakeLink()
        last = ready.fill(request, parts, link, 99_999)  # type: ignore[arg-type]  # enough of one
        found = pb.SessionRequest.FromString(b"".join([request.SerializeToString(), *parts]))
        assert list(found.submissions) == wanted
        assert (last, len(link.asks), found.tenant) == (100_299, 300, "t")

    asyncio.run(main())


def test_what_is_no_text_or_no_number_is_said_before_anything_is_sent() -> None:
    heads = Heads()
    key = ("m", "", "s", 1, None, None, 0)
    for wrong in ("\ud800", 7):
        with pytest.raises(InvalidRequest, match="is no text"):
            heads.head(wrong, 1, key)  # type: ignore[arg-type]  # as a caller may
    with pytest.raises(InvalidRequest, match="priority"):
        heads.head("a", 1, ("m", "", "s", 1, None, -1, 0))


def test_runs_are_told_apart() -> None:
    runs = Runs()
    outcomes = [
        pb.Outcome(run=pb.Run(batch=batch, fence=fence, executor=f"x{batch}"))
        for batch, fence in [(1, 1), (1, 1), (2, 1), (2, 2), (1, 1)]
    ]
    outcomes += [pb.Outcome(), outcomes[0], pb.Outcome()]
    found = [Result("a", each, runs.of(each)).run for each in outcomes]
    assert found == [each.run for each in outcomes]


def test_waits_end_at_their_time_or_a_little_later() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        ended: dict[str, float] = {}
        waits = Deadlines(lambda ask, limit_s, _: ended.update({ask.request_id: limit_s}))
        asks = [Ask(loop.create_future(), f"{n}") for n in range(100)]
        began = loop.time()
        for n, ask in enumerate(asks):
            waits.add(ask, 0.01 * (1 + n % 3), is_cancelled=False)
        for ask in asks[::2]:
            assert ask.together is not None
            ask.together.pop(ask)
        never = Ask(loop.create_future(), "never")
        waits.add(never, 1e9, is_cancelled=True)
        while len(ended) < 50:
            over: asyncio.Future[None] = loop.create_future()
            loop.call_later(0.001, over.set_result, None)
            await over
        assert loop.time() - began >= 0.03
        assert ended == {f"{n}": 0.01 * (1 + n % 3) for n in range(1, 100, 2)}
        waits.close()

    asyncio.run(main())


_FORK = """
import os
from raftbatch.client.host import new_request_id
new_request_id()
child = os.fork()
os.write(1, f"{new_request_id()[12:]}\\n".encode())
if child:
    os.waitpid(child, 0)
"""


def test_ids_are_never_alike_also_after_a_fork() -> None:
    assert len({new_request_id() for _ in range(2000)}) == 2000
    if not hasattr(os, "fork"):
        return
    done = subprocess.run([sys.executable, "-c", _FORK], capture_output=True, text=True, check=True)
    ids = done.stdout.split()
    assert len(ids) == len(set(ids)) == 2
