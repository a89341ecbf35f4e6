"""The scheduler of one node: its copy of the state, and all that listens to it, put together.

    replica -> agreement -> log clock -> leader -> feed -> api      told of each entry in this order

What lives here: that order, their settings, and their end. What must never live here:
what any of them does. Called by: the composition root, and whoever composes a node in
a test or a simulation. One thread: the loop's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from coordinator.agreement import Agreement
from coordinator.api import Api, ApiConfig
from coordinator.feed import Feed, FeedConfig
from coordinator.leader import Leader, LeaderConfig
from coordinator.log_clock import LogClock
from coordinator.raft.log import ReplicatedLog
from coordinator.replica import Replica
from coordinator.time_note import TimeNotes
from raftbatch.records import Record
from raftbatch.world import World


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """Settings of a node's scheduler.

    Attributes:
        leader: of what it does where it leads.
        api: bounds of what it is asked.
        feed: bounds of what executors are told.
    """

    leader: LeaderConfig = field(default_factory=LeaderConfig)
    api: ApiConfig = field(default_factory=ApiConfig)
    feed: FeedConfig = field(default_factory=FeedConfig)


class Scheduler:
    """See the module's docstring. Made in the turn in which the log is opened.

    Args:
        world: the ports.
        directory: the data directory, which the log has claimed.
        log: the replicated log.
        replica: what the log feeds; no one listens to it yet.
        config: settings.
        founding: the first records of a new cluster, should this node lead it first.

    Attributes:
        api: what the node can be asked.
        leader: for its counts.
        log_clock: says what log time it is.
        agreement: compares this replica with the others'.
    """

    def __init__(
        self,
        world: World,
        directory: str,
        log: ReplicatedLog,
        replica: Replica,
        config: SchedulerConfig,
        founding: Sequence[Record],
    ) -> None:
        node = log.identity.node_id
        clock = world.clock
        self.log_clock = LogClock(clock, replica)
        self._worker = world.workers.start("log-time")
        self._notes = TimeNotes(world.files, self._worker, clock, directory, self.log_clock)
        self._notes.resume(log.last_index)
        self._notes.start()
        self.leader = Leader(clock, log, replica, self.log_clock, config.leader, founding)
        self._feed = Feed(replica, node, config.feed)
        self.api = Api(replica, self.leader, log, self._feed, node, config.api)
        self.agreement = Agreement(log, replica, directory, self._retire)
        log.hear(self.agreement.heard, self.agreement.came)
        self.api.loads.fresh_s = 2 * config.leader.lease_ms / 1000
        # First: what is known to be wrong is told to nobody.
        replica.listeners += [
            self.agreement,
            self.log_clock,
            self.leader,
            self._feed,
            self.api,
        ]

    def drain(self) -> None:
        """Admit nothing more here, and seal what waits; all else goes on."""
        self.leader.drain()

    def end(self) -> None:
        """Tell all who wait, or tail, to go elsewhere; what was proposed goes on."""
        self.api.close()
        self._feed.close()

    @property
    def has_erred(self) -> bool:
        """Whether this node's state is not what a majority has, and must be told to nobody."""
        return self.agreement.is_over

    def _retire(self) -> None:
        """Answer nobody any more: those whose entries are under way are told that this node
        will not know their end."""
        self.end()
        self.leader.close()

    def close(self) -> None:
        """Answer nobody any more, and write nothing."""
        self._retire()
        self.agreement.close()
        self._notes.close()
        self._worker.close()
