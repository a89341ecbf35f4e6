"""The composition root of an executor: everything is made, begun and ended here.

What lives here: order. What must never live here: a rule, or the real world itself, which
is handed in. Called by: `raftbatch executor`, tests.
"""

from __future__ import annotations

import logging

import grpc

from executor.agent import Agent
from executor.children import Children
from executor.config import ExecutorConfig
from executor.link import Link
from executor.usage import Meter
from raftbatch.logs import fields
from raftbatch.world import Process, World

_LOG = logging.getLogger(__name__)

_STOP_S = 5.0  # beyond the time to drain: to leave, and for the children to die


class ExecutorServer:
    """See the module's docstring.

    Args:
        world: the ports.
        process: how it is told to stop.
        config: what it is told.
        children: where its processes come from.
        credentials: to show to nodes; None without TLS.
    """

    def __init__(
        self,
        world: World,
        process: Process,
        config: ExecutorConfig,
        children: Children,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        self._world = world
        self._process = process
        self._config = config
        self._children = children
        self._credentials = credentials

    async def run(self) -> None:
        """Work until a signal comes, then drain.

        Raises:
            CannotStart: it could not start; the message says why.
        """
        config, world = self._config, self._world
        link = Link(config.addresses, world.entropy, self._credentials)
        meter = Meter(world.files, world.workers, world.clock, config.cpus)
        agent = Agent(config, link, self._children, world.clock, world.entropy, meter)

        def told(signal: str) -> None:
            _LOG.info("stop.begun", extra=fields(signal=signal))
            agent.drain()

        self._process.on_stop(told, int((config.drain_s + _STOP_S) * 1000))
        try:
            await agent.run()
        finally:
            meter.close()
            await link.close()
        _LOG.info("executor.stopped", extra=fields(executor=config.executor))
