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


class Gaps:
    """How many answers came since it was looked last, and the longest time without one."""

    def __init__(self) -> None:
        self.answers = 0
        self.longest_s = 0.0
        self._last = time.monotonic()

    def note(self, *, is_answer: bool = True) -> None:
        """Take in that an answer came, or that it is looked."""
        now = time.monotonic()
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
        gaps = {"one": Gaps(), "many": Gaps()}
        tasks = [
            asyncio.ensure_future(each)
            for each in (_told(gaps), _one_by_one(one, gaps["one"]), _many(many, gaps["many"]))
        ]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for found in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(found, Exception):
                raise found


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
