"""A process at a node that calls through the SDK, one at a time and many, and tells its waits.

    python -m tests.fabric.caller ADDRESS ...

It answers each line with one: what came since the line before. It ends with its input.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Iterator
from itertools import count

from raftbatch.client import AsyncClient

_IN_FLIGHT = 32
_TICK_S = 0.01


class FairClock:
    """Seconds, but for those that a timer was late by: they are other work's of the machine.

    What waits for several processes in turn waits for each of them to be let run, as this one does.
    """

    def __init__(self) -> None:
        self._late_s = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return time.monotonic() - self._late_s

    async def run(self) -> None:
        """See how late the timer is, for ever."""
        while True:
            began = time.monotonic()
            await asyncio.sleep(_TICK_S)
            self._late_s += max(0.0, time.monotonic() - began - _TICK_S)


class Gaps:
    """How many answers came since it was looked last, and the longest time without one."""

    def __init__(self, clock: FairClock) -> None:
        self.answers = 0
        self.longest_s = 0.0
        self._clock = clock
        self._last = clock()

    def note(self, *, is_answer: bool = True) -> None:
        """Take in that an answer came, or that it is looked."""
        now = self._clock()
        self.longest_s = max(self.longest_s, now - self._last)
        if is_answer:
            self.answers += 1
            self._last = now

    def look(self) -> dict[str, float]:
        """Return it, and begin anew."""
        self.note(is_answer=False)
        found = {"answers": self.answers, "longest_s": self.longest_s}
        self.answers, self.longest_s = 0, 0.0
        return found


async def _one_by_one(client: AsyncClient, gaps: Gaps) -> None:
    for number in count():
        text = f"one {number}"
        assert (await client.infer("echo", text)).value == text
        gaps.note()


async def _many(client: AsyncClient, gaps: Gaps) -> None:
    def texts() -> Iterator[str]:
        return (f"many {number}" for number in count())

    results: AsyncIterator[object] = client.map("echo", texts(), in_flight=_IN_FLIGHT)
    expected = texts()
    async for result in results:
        assert getattr(result, "value", None) == next(expected)
        gaps.note()


async def _told(gaps: dict[str, Gaps]) -> None:
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        sys.stdout.write(json.dumps({name: each.look() for name, each in gaps.items()}) + "\n")
        sys.stdout.flush()


async def main(addresses: list[str]) -> None:
    """Call until the input ends; an answer that is wrong, or none, is the end too."""
    async with AsyncClient(addresses) as one, AsyncClient(addresses) as many:
        clock = FairClock()
        gaps = {"one": Gaps(clock), "many": Gaps(clock)}
        tasks = [
            asyncio.ensure_future(each)
            for each in (
                clock.run(),
                _told(gaps),
                _one_by_one(one, gaps["one"]),
                _many(many, gaps["many"]),
            )
        ]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for found in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(found, Exception):
                raise found


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
