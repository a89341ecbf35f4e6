"""One node of the product: its log and all that stands on it, on a simulated machine.

What lives here: how its parts are put together, as the server will. What must never
live here: a check, a fault. Called by: `chaos.suites.scheduler`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from chaos.suites.raft_ends import AllPeers
from chaos.suites.scheduler_options import RECORD_BYTES_MAX, Options
from chaos.worlds.ends import Port
from chaos.worlds.sim import SimNode
from coordinator.leader import LeaderConfig
from coordinator.raft.datadir import DataDirectory
from coordinator.raft.log import ReplicatedLog
from coordinator.raft.membership import Membership
from coordinator.raft.standing import Role
from coordinator.replica import Replica
from coordinator.scheduler import Scheduler, SchedulerConfig
from raftbatch import records as r
from raftbatch.errors import Fatal, RaftbatchError
from raftbatch.ids import ClusterId, Identity, NodeId

_DIRECTORY = "/data"
_FINISH_S = 0.1  # between the last admission and the end
_CLUSTER = ClusterId("0123456789abcdef" * 2)


class Node:
    """One process's life.

    Args:
        world: where it lives.
        port: to its peers.
        options: of the seed.
        founders: of the cluster.
        failed: told once why it must stop.

    Attributes:
        node: its id.
        replica, log, api: its parts.
    """

    def __init__(
        self,
        world: SimNode,
        port: Port,
        options: Options,
        founders: Membership,
        failed: Callable[[Fatal], None],
    ) -> None:
        self.world = world
        self.node = NodeId(world.machine.name)
        if not DataDirectory.is_initialised(world, _DIRECTORY):
            identity = Identity(_CLUSTER, self.node, 1)
            DataDirectory.create(world, _DIRECTORY, identity, options.storage, founders)
        self.replica = Replica()
        self.log = ReplicatedLog(
            world, _DIRECTORY, options.storage, AllPeers(port), self.replica, options.log, failed
        )
        self._scheduler = Scheduler(
            world, _DIRECTORY, self.log, self.replica, _config(options), founding(options)
        )
        self.api = self._scheduler.api

    @property
    def tails(self) -> int:
        """How many executors follow their feed here."""
        return self.api.standing().tails

    @property
    def waits(self) -> int:
        """Calls that wait for an outcome, or for an index, as far as it knows."""
        return len(self.api._waits) + len(self.api._index_waits)

    @property
    def errs(self) -> bool:
        """Whether it knows that its replica is not what the others' are."""
        return self._scheduler.agreement.is_over

    @property
    def bugs(self) -> str | None:
        """What its leader counts as a bug of its own; None: nothing."""
        counts = self._scheduler.leader.counts
        if counts.stale_total or counts.voids_total or counts.rejected_total:
            return f"{self.node} led, and counts {counts}"
        return None

    def left(self) -> str | None:
        """Return what is kept here though nobody asks for anything any more; None: nothing."""
        leader = self._scheduler.leader
        kept = {
            "waits": self.waits,
            "entries in flight": len(leader._sent),
            "callers that wait for a leader": len(leader._waiting),
            "asks in the inbox": 0 if leader._current is None else leader._current.inbox.items,
        }
        found = [f"{count} {what}" for what, count in kept.items() if count]
        return f"{self.node} keeps {', '.join(found)}" if found else None

    async def stop(self, heir: NodeId | None) -> None:
        """End as a process does that is asked to: finish, hand over, and tell all who wait."""
        self._scheduler.drain()
        await asyncio.sleep(_FINISH_S)
        if heir is not None and self.log.role is Role.LEADER:
            try:
                await self.log.transfer(heir)
            except (RaftbatchError, Fatal):
                pass  # it ends all the same
        self._scheduler.close()
        self.log.close()


def _config(options: Options) -> SchedulerConfig:
    return SchedulerConfig(
        leader=LeaderConfig(
            lease_ms=options.lease_ms,
            entry_bytes_max=options.entry_bytes,
            entries_inflight_max=options.entries_inflight,
            record_bytes_max=RECORD_BYTES_MAX,
            pending_items_max=options.pending_items,
            pending_bytes_max=4 * RECORD_BYTES_MAX,
        )
    )


def founding(options: Options) -> Sequence[r.Record]:
    """Return the first records of the cluster."""
    return [r.PutPolicy(options.policy), *map(r.PutModel, options.models)]
