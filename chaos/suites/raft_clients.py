"""Clients of the raft suite: they write, read, and now and then move the leadership.

They act as the process they call, as the product's own front door does. What they
ask a paused process waits in its socket; what they wait for when it dies is never
answered.

What lives here: the clients. What must never live here: what their answers must
be (`chaos.checkers.raft_history`). Called by: `chaos.suites.raft`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from random import Random

from chaos.checkers.raft import Life, RaftChecker
from chaos.checkers.raft_history import History, Write
from chaos.suites.raft_options import Options
from chaos.worlds.cluster import SimCluster
from coordinator.raft.proposals import Proposal
from coordinator.raft.standing import Role
from raftbatch.errors import Fatal, OutcomeUnknown, RaftbatchError
from raftbatch.ids import NodeId

_READS_A_WRITE = 0.7
_TRANSFERS_PER_S = 0.3
_ASTRAY = 0.2  # chance that a client asks a node that does not lead


class Clients:
    """See the module's docstring.

    Args:
        cluster: whom they ask.
        checker: knows the processes.
        history: is told what they see.
        options: how much they ask.
        rng: all is drawn from it.
    """

    def __init__(
        self,
        cluster: SimCluster,
        checker: RaftChecker,
        history: History,
        options: Options,
        rng: Random,
    ) -> None:
        self._cluster = cluster
        self._checker = checker
        self._history = history
        self._options = options
        self._rng = rng
        self._is_over = False
        self._commands = 0

    def begin(self) -> None:
        """Ask from now on."""
        self._write_later()
        self._transfer_later()

    def end(self) -> None:
        """Ask no more."""
        self._is_over = True

    def leader(self) -> NodeId | None:
        """Return who leads, as far as anybody can tell: the leader of the highest term."""
        leading = [
            (life.log.term, node)
            for node, life in self._checker.lives.items()
            if life.log.role is Role.LEADER and not self._cluster.is_paused(node)
        ]
        return max(leading)[1] if leading else None

    def write(self, node: NodeId) -> None:
        """Ask a node for a burst of writes."""
        life = self._reached(node)
        if life is not None:
            for _ in range(self._rng.randint(1, self._options.burst)):
                self._commands += 1
                size = self._rng.choice(self._options.entry_bytes)
                write = self._history.invoke((b"%d " % self._commands).ljust(size, b"."))
                self._deliver(node, partial(self._write, life, write))

    def read(self, node: NodeId) -> None:
        """Ask a node for a linearizable read."""
        life = self._reached(node)
        if life is not None:
            read = partial(self._read, life, self._history.acknowledged)
            self._deliver(node, lambda: self._begin(read()))

    # Inside a node's process.

    def _write(self, life: Life, write: Write) -> None:
        try:
            proposal = life.log.propose(life.log.term, write.data)
        except RaftbatchError as error:
            if error.definite:
                self._history.fail(write)
            return
        except Fatal:
            return
        write.index = proposal.index
        self._begin(self._outcome(proposal, write))

    async def _outcome(self, proposal: Proposal, write: Write) -> None:
        try:
            await proposal.committed()
        except OutcomeUnknown:
            pass
        except RaftbatchError as error:
            if error.definite:
                self._history.fail(write)
        else:
            self._history.ok(write, self._checker.committed)

    async def _read(self, life: Life, floor: int) -> None:
        try:
            index = await life.log.barrier()
        except (RaftbatchError, Fatal):
            return
        self._history.read(floor, index, life.log.applied)

    async def _transfer(self, life: Life, heir: NodeId) -> None:
        try:
            moved = await life.log.transfer(heir)
        except (RaftbatchError, Fatal):
            return
        self._checker.counts["transfers"] += moved

    # Outside.

    def _write_later(self) -> None:
        delay_s = self._rng.expovariate(self._options.writes_per_s)
        self._cluster.loop.after(delay_s, self._write_now)

    def _write_now(self) -> None:
        if self._is_over:
            return
        self.write(self._draw())
        if self._rng.random() < _READS_A_WRITE:
            self.read(self._draw_claimant())
        self._write_later()

    def _transfer_later(self) -> None:
        self._cluster.loop.after(self._rng.expovariate(_TRANSFERS_PER_S), self._transfer_now)

    def _transfer_now(self) -> None:
        if self._is_over:
            return
        leader = self.leader()
        life = None if leader is None else self._reached(leader)
        others = [each for each in self._cluster.nodes if each != leader]
        if life is not None and others:
            heir = self._rng.choice(others)
            self._deliver(life.node, lambda: self._begin(self._transfer(life, heir)))
        self._transfer_later()

    def _draw(self) -> NodeId:
        leader = self.leader()
        if leader is None or self._rng.random() < _ASTRAY:
            return self._rng.choice(self._cluster.nodes)
        return leader

    def _draw_claimant(self) -> NodeId:
        """Return one that believes it leads, if there is one that no longer does."""
        lives = self._checker.lives.items()
        claimants = [node for node, life in lives if life.log.role is Role.LEADER]
        overtaken = [node for node in claimants if node != self.leader()]
        return self._rng.choice(overtaken) if overtaken else self._draw()

    def _begin(self, asking: Coroutine[None, None, None]) -> None:
        self._cluster.loop.create_task(asking)

    def _deliver(self, node: NodeId, function: Callable[[], None]) -> None:
        """Call a function as a node's process: at once, or when it goes on."""
        world = self._cluster.machines[node].node
        if world is not None and world.alive:
            loop = self._cluster.loop
            loop.deliver_at(loop.now_ns, world.process, function)

    def _reached(self, node: NodeId) -> Life | None:
        return self._checker.lives.get(node) if self._cluster.is_up(node) else None
