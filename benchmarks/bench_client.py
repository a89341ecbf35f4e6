"""The SDK: what a request costs the program that asks, in CPU time, with a node that costs nothing.

The node is in a process of its own. `python -m benchmarks.bench_client [--json FILE] [--quick]`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import uvloop

from benchmarks.client.gateway import BATCH
from benchmarks.machine import look
from raftbatch.client import AsyncClient, Client
from raftbatch.v1 import gateway_pb2 as pb

PAYLOAD_BYTES = 1_500
IN_FLIGHT = 256
TEXT = "x" * PAYLOAD_BYTES


@contextmanager
def gateway(result_bytes: int) -> Iterator[str]:
    """Run the node; yield its address."""
    command = [sys.executable, "-m", "benchmarks.client.gateway", str(result_bytes)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.communicate()


async def by_infer(client: AsyncClient, count: int) -> None:
    """So many tasks, each of which asks for one after the other."""

    async def ask(own: int) -> None:
        for _ in range(own):
            await client.infer("echo", TEXT)

    await asyncio.gather(*(ask(count // IN_FLIGHT) for _ in range(IN_FLIGHT)))


async def by_map(client: AsyncClient, count: int) -> None:
    """One iteration, with as many in flight."""
    found = 0
    async for _ in client.map("echo", (TEXT for _ in range(count)), in_flight=IN_FLIGHT):
        found += 1
    assert found == count


async def bare(client: AsyncClient, count: int) -> None:
    """One message over and over, made once, and answers that nobody looks at: the floor."""
    channel = grpc.aio.insecure_channel(client.addresses[0])
    session: Any = channel.stream_stream(
        "/raftbatch.v1.Gateway/Session", None, pb.SessionReply.FromString
    )
    call = session()
    await call.read()
    submissions = [
        pb.Submission(request_id="0" * 32, model="echo", rows=1, payload=TEXT.encode(), number=n)
        for n in range(BATCH)
    ]
    message = pb.SessionRequest(submissions=submissions).SerializeToString()
    left, owed = count, 0
    while left or owed:
        while left and owed < IN_FLIGHT:
            left -= BATCH
            owed += BATCH
            await call.write(message)
        owed -= len((await call.read()).outcomes)
    call.cancel()
    await channel.close()


WAYS: dict[str, Callable[[AsyncClient, int], Awaitable[None]]] = {
    "infer": by_infer,
    "map": by_map,
    "bare": bare,
}


def measure(address: str, way: str, count: int) -> float:
    """Return CPU time of this process for a request, in us."""
    if way == "sync_map":
        with Client(address) as client:
            client.infer("echo", TEXT)
            before = time.process_time()
            for _ in client.map("echo", (TEXT for _ in range(count)), in_flight=IN_FLIGHT):
                pass
            return (time.process_time() - before) / count * 1e6

    async def main() -> float:
        async with AsyncClient(address) as client:
            await client.infer("echo", TEXT)
            before = time.process_time()
            await WAYS[way](client, count)
            return (time.process_time() - before) / count * 1e6

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


def main() -> None:
    """Print a table; write its figures where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--quick", action="store_true", help="fewer requests and rounds")
    parser.add_argument("--one", metavar="WAY", help="measure this alone, in this process")
    parser.add_argument("--at", metavar="ADDRESS", help="of a node that runs already")
    options = parser.parse_args()
    count = IN_FLIGHT * (20 if options.quick else 120)
    if options.one:
        print(measure(options.at, options.one, count))
        return
    machine = look(Path.cwd(), "uvloop")
    found: dict[str, list[float]] = {way: [] for way in (*WAYS, "sync_map")}
    with gateway(PAYLOAD_BYTES) as address:
        for _ in range(2 if options.quick else 5):
            for way, each in found.items():
                each.append(_in_a_process(address, way, options.quick))
    print(f"{'way':10} {'us/request':>10}   least - most")
    for way, each in found.items():
        median = statistics.median(each)
        print(f"{way:10} {median:10.1f}   {min(each):.1f} - {max(each):.1f}")
    if options.json:
        figures = {f"{way}_us_per_request": statistics.median(each) for way, each in found.items()}
        facts = {**figures, "rounds": found, "machine": machine.facts()}
        options.json.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def _in_a_process(address: str, way: str, is_quick: bool) -> float:
    """Measure in a process of its own: gRPC keeps whatever loop it was used on before."""
    command = [sys.executable, "-m", "benchmarks.bench_client", "--one", way, "--at", address]
    done = subprocess.run(
        [*command, *(["--quick"] if is_quick else [])], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


if __name__ == "__main__":
    main()
