"""Three times as much as a cluster can do, and what becomes of that.

What lives here: clients that send whatever the answers are, and what they find. What must never
live here: a process (`cluster`), printing (`bench_overload`). Called by: `bench_overload`.

The SDK would wait where it is refused, as it is asked to. Here nobody does: a session is fed by
the clock, each request once, and each answer counts, an outcome or an error. Capacity is what the
same client gets where it sends a request for each answer.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import grpc.aio

from benchmarks.serving.cluster import running
from benchmarks.serving.loop import run
from benchmarks.serving.tables import Figures, bound
from benchmarks.serving.texts import TEXT_BYTES, text
from raftbatch.channels import SESSION_OPTIONS, open_channel
from raftbatch.client import AsyncClient
from raftbatch.client.inputs import Encoder
from raftbatch.v1 import gateway_pb2 as pb
from raftbatch.v1.gateway_pb2_grpc import GatewayStub

TIMES = 3
_GOODPUT_MIN = 0.8
_EARLY = 1.0  # whoever is refused knows it before an outcome would have come

_IN_FLIGHT = 256
_WAITING_MAX = 512
_SETTINGS = {"policy": {"requests_waiting_max": _WAITING_MAX}}
"""Two batches' worth for each that runs is plenty: more waiting is more delay, and no more done."""

_TICK_S = 0.01
_BEHIND_S = 0.5  # what could not be sent by then is not sent any more


@dataclass
class Found:
    """What became of the requests of one load.

    Attributes:
        seconds: how long it was offered.
        sent: requests.
        left_out: that could not be sent: the stream was full for too long.
        served_ns: of those that had an outcome: how long that took.
        refused_ns: of those that were refused: how long that took.
        errors: how many, by slug.
        unadvised: refusals for load that do not say when to come back.
    """

    seconds: float = 0.0
    sent: int = 0
    left_out: int = 0
    served_ns: list[int] = field(default_factory=list)
    refused_ns: list[int] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    unadvised: int = 0

    @property
    def per_s(self) -> float:
        """Outcomes each second."""
        return len(self.served_ns) / self.seconds


class _Client:
    """A session that is fed, and read to its end."""

    def __init__(self, call: Any, encoder: Encoder, found: Found) -> None:
        self.found = found
        self._call = call
        self._encoder = encoder
        self._begun_ns: dict[int, tuple[int, str]] = {}
        self._number = 0
        self._answered = 0
        self._changed = asyncio.Event()
        self._ended: list[str] = []
        self._acknowledging: dict[int, list[str]] = {}
        self._reading = asyncio.create_task(self._read())
        self._reading.add_done_callback(lambda _: self._changed.set())

    async def closed_loop(self, seconds: float) -> None:
        """Keep as many requests under way as a cluster has use for."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            missing = _IN_FLIGHT - len(self._begun_ns)
            if missing > 0:
                await self._send(missing)
            await self._change()

    async def open_loop(self, per_s: float, seconds: float) -> None:
        """Send so many each second, whatever comes of it."""
        begun, due = time.monotonic(), 0
        while (elapsed := time.monotonic() - begun) < seconds:
            wanted = int(elapsed * per_s) - due
            late = max(0, wanted - int(_BEHIND_S * per_s))
            self.found.left_out += late
            due += wanted
            await self._send(wanted - late)
            await asyncio.sleep(_TICK_S)

    async def close(self) -> None:
        """Wait for what is under way, and end."""
        while self._begun_ns:
            await self._change()
        await self._call.done_writing()
        await self._reading

    async def _change(self) -> None:
        """Wait for an answer.

        Raises:
            RuntimeError: the stream has ended: the leader is another, or is gone.
        """
        self._changed.clear()
        if not self._reading.done():
            await self._changed.wait()
        if self._reading.done():
            self._reading.result()
            raise RuntimeError("the leader has ended the session")

    async def _send(self, count: int) -> None:
        request = pb.SessionRequest()
        if self._ended:  # else outcomes would fill what is kept of them
            ended, self._ended = self._ended, []
            self._number += 1
            request.acknowledgements.add(number=self._number, request_ids=ended)
            self._acknowledging[self._number] = ended
        for _ in range(count):
            self._number = number = self._number + 1
            payload, rows, signature, _ = self._encoder.encode({"text": text(number)})
            request_id = uuid4().hex
            request.submissions.add(
                number=number,
                request_id=request_id,
                model="echo",
                signature=signature,
                rows=rows,
                payload=payload,
            )
            self._begun_ns[number] = time.monotonic_ns(), request_id
        self.found.sent += count
        await self._call.write(request)

    async def _read(self) -> None:
        while isinstance(reply := await self._call.read(), pb.SessionReply):
            now_ns = time.monotonic_ns()
            found = self.found
            for outcome in reply.outcomes:
                begun_ns, request_id = self._begun_ns.pop(outcome.number)
                if outcome.kind == pb.OUTCOME_KIND_OK and len(outcome.result) > TEXT_BYTES:
                    found.served_ns.append(now_ns - begun_ns)
                else:
                    found.errors["no_result"] += 1
                self._ended.append(request_id)
            for done in reply.acknowledged:
                self._acknowledging.pop(done.number, None)
            for refusal in reply.errors:
                for number in refusal.numbers:
                    if number in self._acknowledging:  # with the next, then
                        self._ended += self._acknowledging.pop(number)
                        continue
                    begun_ns, _ = self._begun_ns.pop(number)
                    found.refused_ns.append(now_ns - begun_ns)
                    found.errors[refusal.error.slug] += 1
                    found.unadvised += not refusal.error.retry_after_ms
            self._changed.set()


async def _loaded(addresses: list[str], seconds: float, per_s: float = 0.0) -> Found:
    """Return what became of a load: of so many requests each second, or of a closed loop."""
    async with AsyncClient(addresses) as client:
        await client.connect()
        models = {each.name: each for each in await client.models()}
        leader = client.leader
    found = Found()
    channel: grpc.aio.Channel = open_channel(leader, None, "", SESSION_OPTIONS)
    async with channel:
        call = GatewayStub(channel).Session()
        await call.read()
        session = _Client(call, Encoder(models["echo"]), found)
        begun = time.monotonic()
        await (session.open_loop(per_s, seconds) if per_s else session.closed_loop(seconds))
        found.seconds = time.monotonic() - begun
        await session.close()
    return found


def overloaded(directory: Path, seconds: float) -> tuple[Found, Found, Found]:
    """Return what a cluster does at its capacity, beyond it, and at its capacity again."""
    capacity_s = min(20.0, seconds / 3)
    with running(directory, settings=_SETTINGS) as cluster:
        addresses = list(cluster.addresses)
        run(_loaded(addresses, 2.0))
        before = run(_loaded(addresses, capacity_s))
        beyond = run(_loaded(addresses, seconds, TIMES * before.per_s))
        after = run(_loaded(addresses, capacity_s))
    return before, beyond, after


def row(name: str, found: Found) -> Figures:
    """Return what became of a load, as figures."""
    return {
        "load": name,
        "seconds": found.seconds,
        "offered_per_second": (found.sent + found.left_out) / found.seconds,
        "served_per_second": found.per_s,
        "served_p50_ms": _ms(found.served_ns, 50),
        "served_p99_ms": _ms(found.served_ns, 99),
        "refused": len(found.refused_ns),
        "refused_p50_ms": _ms(found.refused_ns, 50),
        "refused_p99_ms": _ms(found.refused_ns, 99),
        "not_sent": found.left_out,
    }


def line(before: Found, beyond: Found, after: Found) -> list[Figures]:
    """Return what the cluster is held to, what was found, and whether it holds."""
    capacity = (before.per_s + after.per_s) / 2
    early = _ms(beyond.refused_ns, 99) / max(_ms(beyond.served_ns, 50), 0.001)
    other = {slug: count for slug, count in beyond.errors.items() if slug != "overloaded"}
    return [
        bound("goodput / capacity", beyond.per_s / capacity, least=_GOODPUT_MIN),
        bound("p99 of refusals / p50 of outcomes", early, most=_EARLY),
        bound("errors of another kind", sum(other.values()), most=0),
        bound("refusals that do not say when to come back", beyond.unadvised, most=0),
        bound(
            "requests without an answer",
            beyond.sent - len(beyond.served_ns) - sum(beyond.errors.values()),
            most=0,
        ),
    ]


def _ms(took_ns: list[int], percent: int) -> float:
    if not took_ns:
        return 0.0
    return sorted(took_ns)[len(took_ns) * percent // 100] / 1e6
