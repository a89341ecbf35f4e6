"""The composition root of a coordinator: everything is made, begun and ended here.

    1. the peer port, so that a port in use is found before anything is touched
    2. the client port, which answers `status` from then on, and the HTTP port
    3. founding or joining, if the data directory is empty
    4. the log, which reads the journal, and the transport to the other nodes
    5. until a signal, or a failure: serving
    6. where this node leads, handing over: proposals are refused meanwhile, and
       another node leads before this one is gone, without an election timeout
    7. all of it closed, the log last, once the disk has what is in it

Whatever hangs, the process ends: from the first signal, or failure, on, a watchdog
that needs neither the loop nor the disk ends it after `stop_ms_max`.

What lives here: order. What must never live here: a rule, bytes, or the real
world itself, which is handed in. Called by: `raftbatch serve`, tests. Tasks: this
one, and those that the parts own.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from coordinator.about import about_founding, about_running
from coordinator.config import NodeConfig
from coordinator.core.effects import Applied
from coordinator.disk_news import DiskNews
from coordinator.leader_news import LeaderNews
from coordinator.node import Node, Phase
from coordinator.raft.counters import Counters
from coordinator.raft.datadir import DataDirectory
from coordinator.raft.door import Door, request
from coordinator.raft.greeting import Reply, Request
from coordinator.raft.log import ReplicatedLog
from coordinator.raft.membership import Membership
from coordinator.raft.transport import Transport
from coordinator.replica import Replica
from coordinator.rpc.port import ClientPort, Credentials
from coordinator.scheduler import Scheduler
from coordinator.starting import Mode, Starting
from raftbatch.errors import CannotStart, Fatal, RaftbatchError
from raftbatch.ids import Identity, NodeId
from raftbatch.logs import fields
from raftbatch.records import Entry
from raftbatch.world import TLS, Process, World

if TYPE_CHECKING:
    from coordinator.rpc.http import HttpPort

_LOG = logging.getLogger(__name__)

REQUEST_S = 3.0
"""How long a question to another node may take; a join waits for a commit."""

_COLLECTED_AT = 5_000
"""New objects at which the collector looks at them, in place of 700: a few hundred requests are
on their way at any time, which it found alive each time. A look takes a millisecond."""


class Server:
    """See the module's docstring.

    Args:
        world: the ports.
        process: how it is told to stop.
        config: what the node is told.
        mode: what to do with an empty data directory.
        tls: certificates for the peer port and the HTTP port; None for none.
        credentials: the same for the client port.
    """

    def __init__(
        self,
        world: World,
        process: Process,
        config: NodeConfig,
        mode: Mode,
        tls: TLS | None,
        credentials: Credentials | None,
    ) -> None:
        self._world = world
        self._process = process
        self._config = config
        self._mode = mode
        self._tls = tls
        self._counters = Counters()
        self._node = Node(config, self._counters)
        self._port = ClientPort(self._node, credentials)
        self._http = _http_port(self._node, world, tls)
        self._door = Door(
            world.network,
            config.addresses.peer_listen,
            tls,
            config.transport,
            self._counters,
            insecure=config.cluster.is_insecure,
        )
        self._door.why_no_peer = self._node.access.why_no_peer
        self._transport: Transport | None = None
        self._disk_news: DiskNews | None = None
        self._stopped: asyncio.Future[str] | None = None

    async def run(self) -> None:
        """Serve until a signal comes.

        Raises:
            Fatal: the node could not start, or had to stop; the message says why.
        """
        self._stopped = asyncio.get_running_loop().create_future()
        self._process.on_stop(self._told_to_stop, self._config.server.stop_ms_max)
        try:
            await self._door.open()
            await self._port.open()
            if self._http is not None:
                await self._http.open()
            if await self._start():
                self._open_log()
                await self._serve()
        finally:
            self._watch()
            await self._close()

    # Its beginning.

    async def _start(self) -> bool:
        """Give an empty directory its contents; return False where a signal came first."""
        config = self._config
        starting = Starting(
            self._world,
            config.data_dir,
            config.node_id,
            config.founders,
            self._create,
            self._mode,
            self._ask,
            _tell,
            about_founding(config),
        )
        self._node.waiting = lambda: starting.waiting
        self._door.on_request = starting.answer
        stopped = self._stopped
        assert stopped is not None
        task = asyncio.ensure_future(starting.run())
        stopped.add_done_callback(lambda _: task.cancel())
        try:
            await task
        except asyncio.CancelledError:
            if not stopped.done():
                raise
        return not stopped.done()

    def _create(self, identity: Identity, founders: Membership | None) -> None:
        config = self._config
        DataDirectory.create(self._world, config.data_dir, identity, config.storage, founders)

    async def _ask(self, address: str, question: Request, node: NodeId | None) -> Reply:
        return await request(
            self._world.network,
            address,
            self._tls,
            question,
            REQUEST_S,
            node=node,
            why_no_peer=self._node.access.why_no_peer,
        )

    def _open_log(self) -> None:
        """Open the log and let peers in. Blocks for as long as reading the journal takes."""
        config, world = self._config, self._world
        identity = DataDirectory.whose(world, config.data_dir)
        if identity.node_id != config.node_id:
            raise CannotStart(
                f"{config.data_dir} is the data directory of {identity}, but this node is "
                f"{config.node_id}: give each node a directory of its own"
            )
        seeds = {node: each.peer for node, each in config.cluster.nodes.items()}
        transport = self._transport = Transport(
            world.network,
            world.clock,
            world.entropy,
            identity,
            self._door,
            self._tls,
            seeds,
            config.transport,
            self._counters,
            about_running(config),
        )
        log = ReplicatedLog(
            world,
            config.data_dir,
            config.storage,
            transport,
            self._node.replica,
            config.log,
            self._failed,
        )
        self._node.log = log
        log.watch(LeaderNews(log).look)
        if isinstance(self._node.replica, Replica):
            replica = self._node.replica
            self._node.scheduler = Scheduler(
                world, config.data_dir, log, replica, config.scheduler, config.founding
            )
            replica.listeners.append(_Freezing(log.last_index))
        if self._http is not None:
            self._http.opened(log)
        self._node.peers = lambda: transport.states
        self._node.told = transport.acquaintance.of
        self._door.on_request = self._node.answer
        _spare_the_collector()
        transport.begin(log)
        self._node.phase = Phase.SERVING
        _LOG.info(
            "node.started",
            extra=fields(
                node=identity.node_id,
                incarnation=identity.incarnation,
                cluster=identity.cluster_id,
                peer=self._door.address,
                client=config.addresses.client_listen,
                http=config.addresses.http_listen,
                applied=log.applied,
            ),
        )
        self._disk_news = DiskNews(log, config.data_dir, config.storage.journal)
        self._disk_news.begin()

    # Its life.

    async def _serve(self) -> None:
        """Return when a signal came; raise where the log has failed."""
        assert self._stopped is not None
        signal = await self._stopped
        _LOG.info("stop.begun", extra=fields(signal=signal))
        self._node.stop_taking()
        if self._node.scheduler is not None:
            self._node.scheduler.drain()
        await self._hand_over()

    def _told_to_stop(self, signal: str) -> None:
        if self._stopped is not None and not self._stopped.done():
            self._stopped.set_result(signal)

    def _failed(self, error: Fatal) -> None:
        assert self._stopped is not None
        self._watch()
        if not self._stopped.done():
            self._stopped.set_exception(error)

    # Its end.

    async def _hand_over(self) -> None:
        """Let another node lead, if this one does: each that could in turn, within a bound."""
        log = self._node.log
        assert log is not None
        try:
            async with asyncio.timeout(self._config.server.transfer_ms_max / 1000):
                while heirs := self._node.heirs():
                    for heir in heirs:
                        if await log.transfer(heir):
                            _LOG.info("leadership.moved", extra=fields(to=heir))
                            return
        except (TimeoutError, RaftbatchError, Fatal) as error:
            _LOG.warning("leadership.kept", extra=fields(why=str(error)))

    async def _close(self) -> None:
        """Close all that was opened. What is under way has a bounded time for its answers."""
        self._node.stop_taking()
        drain_s = self._config.server.drain_ms_max / 1000
        drained = asyncio.get_running_loop().time() + drain_s
        scheduler = self._node.scheduler
        if scheduler is not None:
            scheduler.end()
        await self._port.close(drain_s)
        if scheduler is not None:
            scheduler.close()
        if self._transport is not None:
            await self._transport.close()
        if self._disk_news is not None:
            self._disk_news.end()
        if self._node.log is not None:
            await self._sync(self._node.log, drained)
            self._node.log.close()
        if self._http is not None:  # to the end it says that this node is not ready
            await self._http.close()
        await self._door.close()
        if self._stopped is not None and self._stopped.done() and not self._stopped.cancelled():
            self._stopped.exception()  # it was raised already, or comes too late to matter
        _LOG.info("node.stopped", extra=fields(node=self._config.node_id))

    async def _sync(self, log: ReplicatedLog, until: float) -> None:
        """Let the disk take what has been written: what it lacks would have to be sent again."""
        try:
            async with asyncio.timeout_at(until):
                await log.synced()
        except TimeoutError:
            _LOG.warning("stop.unsynced", extra=fields(node=self._config.node_id))

    def _watch(self) -> None:
        """Let nothing keep the process alive from now on."""
        stop_ms = self._config.server.stop_ms_max
        self._process.end_within(stop_ms, f"stopping took more than {stop_ms} ms")


def _http_port(node: Node, world: World, tls: TLS | None) -> HttpPort | None:
    """Return the HTTP port, where the file names one; a node without it needs no aiohttp.

    Raises:
        CannotStart: aiohttp is not installed.
    """
    if not node.config.addresses.http:
        return None
    try:
        from coordinator.rpc.http import HttpPort
    except ModuleNotFoundError as error:
        raise CannotStart(
            f"nodes.{node.config.node_id}.http names an HTTP port, which needs {error.name}, and "
            "that is not installed: pip install 'raftbatch[http]', or take http out of the file"
        ) from None
    return HttpPort(node, world, tls)


class _Freezing:
    """Lets the garbage collector pass over what was loaded: a look at a million requests stalls.

    Args:
        last_index: of the newest entry on this node's disk; all up to there is loaded.
    """

    def __init__(self, last_index: int) -> None:
        self._last_index = last_index

    def applied(self, index: int, _term: int, _entry: Entry, _applied: Applied) -> None:
        """Freeze once the disk's entries are applied."""
        if self._last_index and index >= self._last_index:
            self._last_index = 0
            gc.freeze()

    def installed(self) -> None:
        """Freeze what a snapshot brought."""
        gc.freeze()


def _spare_the_collector() -> None:
    """What was made so far lives as long as the process: it need not be looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECTED_AT)


def _tell(event: str, values: Mapping[str, object]) -> None:
    _LOG.info(event, extra={"fields": values})
