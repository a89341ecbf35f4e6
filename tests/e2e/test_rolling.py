"""Each process restarts in turn, executors join and drain, under load: clients see nothing.

No call may fail, nor take longer than a bound; what each request came to is counted offline,
from the files of every node (`flow.settled`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from raftbatch.client import AsyncClient, ClientOptions
from tests.e2e.executor_scene import Scene, run
from tests.e2e.flow import Flow, settled

pytestmark = pytest.mark.slow

NODES = ("n1", "n2", "n3")
PATIENCE_S = 30.0
"""No answer takes so long, on however busy a machine: a call that does fails."""

SETTINGS = """
[models.echo]
max_batch_size = 4
inputs = [{ name = "text", datatype = "BYTES", dims = [1] }]
outputs = [{ name = "text", datatype = "BYTES", dims = [1] }]
[models.echo.executor]
module = "executor.examples.echo"
class = "Echo"
[models.shout]
inputs = [{ name = "text", datatype = "BYTES", dims = [1] }]
[models.shout.executor]
file = "shout.py"
class = "Shout"
options = { mark = "!" }
[leader]
lease_ms = 10_000
"""


class Load:
    """Two clients at once: one asks the leader, one has whichever node it asks hand on."""

    def __init__(self, addresses: list[str]) -> None:
        led = ClientOptions(patience_s=PATIENCE_S)
        handed_on = ClientOptions(patience_s=PATIENCE_S, forward=True)
        self.flows = (
            Flow(addresses, width=8, name="led", options=led),
            Flow(addresses, width=8, name="handed-on", options=handed_on),
        )

    async def goes_on(self, *, with_executor: str = "") -> None:
        """Return once each has an answer that it has asked for from now on."""
        await asyncio.gather(*[each.goes_on(with_executor=with_executor) for each in self.flows])


def test_restart_of_every_process_in_turn_is_nothing_to_clients(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    async def test(scene: Scene) -> None:
        served = scene.served
        executors = {name: await scene.start(name) for name in ("x1", "x2")}
        addresses = list(served.clients.values())
        load = Load(addresses)
        async with AsyncExitStack() as stack:
            for flow in load.flows:
                await stack.enter_async_context(flow)
            await load.goes_on(with_executor="x1")
            # A batch that runs all the while; nobody runs it again.
            client = await stack.enter_async_context(AsyncClient(addresses))
            long = await client.submit("shout", "slow")
            await scene.running()
            for node in NODES:  # the leader among them
                assert await asyncio.to_thread(served.processes[node].terminate) == 0
                await load.goes_on()
                served.start(node)
                await asyncio.to_thread(served.ready, node)
                await asyncio.to_thread(served.leader)
            scene.go()
            assert (await long.result()).value == "SLOW!"
            for name, each in executors.items():
                assert await asyncio.to_thread(each.terminate) == 0
                assert each.logged("executor.left")[-1]["why"] == "drained"
                await load.goes_on()
                await scene.start(name)
                await load.goes_on(with_executor=name)
            # One more joins, and both that were there before drain for good.
            await scene.start("x3")
            for name in executors:
                assert await asyncio.to_thread(scene.executors[name].terminate) == 0
            await load.goes_on(with_executor="x3")
        for flow in load.flows:
            record_property("asked", flow.begun)
            record_property("slowest_s", flow.slowest_s)
        reruns = await asyncio.to_thread(
            settled, served, 1 + sum(each.begun for each in load.flows)
        )
        assert reruns == [0, 0, 0], "who drains gives back what it has not begun"

    run(tmp_path, test, NODES, settings=SETTINGS)
