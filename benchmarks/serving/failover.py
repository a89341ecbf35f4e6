"""Kills of the leader in a row, as a client that sends continually sees them.

What lives here: the client, the kills, and what came of them. What must never live here: a
process (`cluster`), printing (`bench_failover`). Called by: `bench_failover`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from benchmarks.serving.cluster import running, until_caught_up
from benchmarks.serving.loop import run
from benchmarks.serving.tables import Figures
from coordinator.offline import read_directory
from raftbatch.client import AsyncClient
from raftbatch.errors import RaftbatchError
from raftbatch.local import LocalCluster
from raftbatch.realworld import RealWorld
from raftbatch.stories import Stories

_SETTLE_S = 0.2  # between a node that has caught up and the next kill
_AFTER_S = 20.0  # nothing takes so long: the benchmark says so, and ends


@dataclass(slots=True)
class Sent:
    """One request, as the client knows it; times in ns on the monotonic clock.

    Attributes:
        request_id: chosen before it was sent.
        sent_ns: when it was handed to the SDK.
        committed_ns: when its ticket was there; 0: it was not.
        ended_ns: when its outcome was there; 0: it was not.
        outcomes: how many it had.
        error: what it ended with, where that was no outcome.
    """

    request_id: str
    sent_ns: int
    committed_ns: int = 0
    ended_ns: int = 0
    outcomes: int = 0
    error: str = ""


class Sender:
    """Sends one request after the other at a steady rate, whatever became of those before.

    Args:
        client: through which.
        per_second: how many.

    Attributes:
        sent: all of them.
    """

    def __init__(self, client: AsyncClient, per_second: float) -> None:
        self.sent: list[Sent] = []
        self._client = client
        self._pause_s = 1 / per_second
        self._tasks: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()
        self._is_over = False

    async def run(self) -> None:
        """Send until `finish` is called."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while not self._is_over:
            one = Sent(f"r{len(self.sent)}", time.monotonic_ns())
            self.sent.append(one)
            task = asyncio.create_task(self._send(one))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            due = max(due + self._pause_s, loop.time() - 1.0)
            await asyncio.sleep(max(0.0, due - loop.time()))

    async def first_after(self, since_ns: int) -> tuple[int, int]:
        """Return when the first request that was sent after a moment was committed, and ended."""
        committed_ns = ended_ns = 0
        async with asyncio.timeout(_AFTER_S):
            while not ended_ns:
                self._news.clear()
                later = [each for each in reversed(self.sent) if each.sent_ns > since_ns]
                committed_ns = min(
                    [each.committed_ns for each in later if each.committed_ns] or [0]
                )
                ended_ns = min([each.ended_ns for each in later if each.ended_ns] or [0])
                if not ended_ns:
                    await self._news.wait()
        return committed_ns, ended_ns

    async def finish(self) -> None:
        """Send no more, and wait for what is under way."""
        self._is_over = True
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _send(self, one: Sent) -> None:
        try:
            ticket = await self._client.submit("echo", "text", request_id=one.request_id)
            one.committed_ns = time.monotonic_ns()
            self._news.set()
            await ticket.result()
            one.ended_ns = time.monotonic_ns()
            one.outcomes += 1
        except RaftbatchError as error:
            one.error = error.slug
        self._news.set()


async def _kills(cluster: LocalCluster, sender: Sender, kills: int) -> list[Figures]:
    """Kill the leader again and again; return how long each time nothing new was done."""
    found = []
    for number in range(kills):
        leader = await asyncio.to_thread(cluster.leader)
        await asyncio.sleep(_SETTLE_S)
        killed_ns = time.monotonic_ns()
        cluster.kill(leader)
        committed_ns, ended_ns = await sender.first_after(killed_ns)
        found.append(
            {
                "kill": number + 1,
                "leader": leader,
                "ticket_ms": (committed_ns - killed_ns) / 1e6,
                "outcome_ms": (ended_ns - killed_ns) / 1e6,
            }
        )
        cluster.restart(leader)
        await asyncio.to_thread(until_caught_up, cluster, leader)
    return found


def _counted(cluster: LocalCluster) -> Figures:
    """Return what the log of a node says became of the requests; all nodes have stopped."""
    log = read_directory(RealWorld(), str(cluster.data_dir(cluster.nodes[0])))
    stories = Stories(log.first_index)
    for index, term, entry in log:
        stories.feed(index, term, entry)
    counts = stories.counts
    return {
        "requests": counts.requests,
        "outcomes": dict(counts.outcomes),
        "lost": counts.lost,
        "doubled": counts.doubled,
        "reruns": counts.reruns,
    }


async def _measured(cluster: LocalCluster, kills: int, per_second: float) -> Figures:
    async with AsyncClient(cluster.addresses) as client:
        sender = Sender(client, per_second)
        sending = asyncio.create_task(sender.run())
        await sender.first_after(0)
        found = await _kills(cluster, sender, kills)
        await sender.finish()
        await sending
    errors = Counter(each.error for each in sender.sent if each.error)
    return {
        "each": found,
        "spread": [
            _spread("ticket", [each["ticket_ms"] for each in found]),
            _spread("outcome", [each["outcome_ms"] for each in found]),
        ],
        "client": {
            "requests": len(sender.sent),
            "outcomes": sum(each.outcomes for each in sender.sent),
            "lost": sum(not each.outcomes for each in sender.sent),
            "doubled": sum(each.outcomes > 1 for each in sender.sent),
            "errors": dict(errors),
        },
    }


def failovers(directory: Path, kills: int, per_second: float) -> Figures:
    """Kill the leader so often under a client that sends so much; return what it saw."""
    with running(directory, executors=2) as cluster:
        found = run(_measured(cluster, kills, per_second))
        for name in (*cluster.executors, *cluster.nodes):
            cluster.terminate(name)  # in good order: each has all of its log on its disk then
        found["log"] = _counted(cluster)
    return found


def _first(moments_ns: list[int]) -> int:
    """Return the earliest of them that has come; 0: none has."""
    return min([each for each in moments_ns if each], default=0)


def _spread(name: str, values: list[float]) -> Figures:
    tenths = quantiles(values, n=10, method="inclusive") if len(values) > 1 else values * 9
    return {
        "until": name,
        "median_ms": median(values),
        "p90_ms": tenths[8],
        "worst_ms": max(values),
    }
