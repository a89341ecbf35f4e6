"""A whole cluster of the product in one thread, under faults: one seed, one identical run.

The real log, journal and snapshots over simulated disks and links, in virtual time.
First a safety phase, in which everything fails that the seed has drawn; then all is
healed, and within ten seconds the cluster must lead, write and agree; then all lose
their power at once, and must come back with all that was acknowledged.

What lives here: the phases. What must never live here: a check (`chaos.checkers`),
a fault (`chaos.faults`). Called by: `chaos.runner`, the property tests.
"""

from __future__ import annotations

from random import Random

from chaos.checkers.raft import Life, RaftChecker, Violation
from chaos.checkers.raft_calm import quiet, reads_too_much
from chaos.checkers.raft_history import History
from chaos.faults import Site
from chaos.nemesis import Nemesis
from chaos.point_faults import PointNemesis
from chaos.suites.raft_clients import Clients
from chaos.suites.raft_ends import AllPeers, LogEnd, written_and_read
from chaos.suites.raft_operator import Operator
from chaos.suites.raft_options import draw
from chaos.suites.raft_replica import ListReplica
from chaos.suites.raft_trace import Trace, explained
from chaos.suites.raft_watched import WatchedLoop
from chaos.tuning import tuned
from chaos.worlds.cluster import SimCluster
from chaos.worlds.ends import Endpoint, Port
from chaos.worlds.loop import VirtualLoop
from chaos.worlds.points import told
from chaos.worlds.sim import SimNode
from coordinator.raft import applying, snapshotting
from coordinator.raft.datadir import DataDirectory
from coordinator.raft.log import ReplicatedLog
from coordinator.raft.membership import founders
from coordinator.raft.messages import BULK
from coordinator.raft.standing import Role
from raftbatch.errors import CannotStart, DiskFailed, Fatal, Removed
from raftbatch.ids import ClusterId, Identity, NodeId

_DIRECTORY = "/data"
_CLUSTER = ClusterId("0123456789abcdef" * 2)
_CALM_S = 1.0  # before the first fault
_HEALED_S = 10.0  # within which all must be well again
_WHOLE_S = 120.0  # the same for one that takes many small steps
_SLICE_S = 0.1
_CROWDED_MAX = 20  # slices: what was read for broken connections is long over
_IDLE_S = 60.0
_ENCODED_ONE_IN = 4  # runs in which messages travel as bytes: it takes time, and draws nothing
_POINTED_ONE_IN, _POINTED_FIRST = 10, 5  # runs in which nodes die at named points, too
_COUNTED = ("crashes", "elections", "installs", "transfers", "changes", "joins", "wipes", "removed")


def run_seed(seed: int) -> dict[str, int]:
    """Run one seed; return what was counted.

    Raises:
        Violation: a promise was broken; the message holds the event, and the nodes' logs.
    """
    return explained(lambda trace: RaftRun(seed, trace).run())


def trace_digest(seed: int) -> str:
    """Return a digest of everything that happens in a seed's run, in its order."""
    trace = Trace()
    counts = RaftRun(seed, trace).run()
    return f"{trace.digest.hexdigest()} {sorted(counts.items())}"


class RaftRun:
    """One run.

    Args:
        seed: of everything.
        trace: told what happens, if anybody wants to know.
    """

    def __init__(self, seed: int, trace: Trace | None) -> None:
        self._seed = seed
        self._trace = trace
        self._options = options = draw(seed)
        self._nodes = [NodeId(f"n{number}") for number in range(1, options.voters + 1)]
        self._founders = founders({node: f"{node}:1" for node in self._nodes})
        self._founding = {(member.node_id, 1) for member in self._founders.members}
        self._checker = RaftChecker(self._founders, options.slack_bytes)
        self._history = History(self._checker.complain)

    def run(self) -> dict[str, int]:
        """Run all phases; return what was counted."""
        options, checker = self._options, self._checker
        loop = WatchedLoop()
        constants = (
            (snapshotting, "PIECE_BYTES_MAX", options.piece_bytes),
            (applying, "_APPLY_BYTES_MAX", options.apply_bytes),
            (applying, "_ENTRY_BYTES_MIN", 0),  # logs are short, and snapshots many
        )
        try:
            with tuned(*constants), loop:
                wire = written_and_read if self._seed % _ENCODED_ONE_IN == 0 else None
                cluster = SimCluster(
                    loop, self._seed, self._nodes, self._boot, wire=wire, bulk=BULK
                )
                cluster.links.observer = self._observe
                cluster.deaths.append(self._has_died)
                if self._trace is not None:
                    self._trace.begin(loop, self._nodes)
                loop.watch = checker.look
                self._phases(loop, cluster)
        except Violation:
            raise Violation(self._told(loop, str(checker.violation))) from None
        except Exception as error:
            if checker.violation is None:
                raise
            raise Violation(self._told(loop, checker.violation)) from error
        counts = checker.counts
        return {
            "events": loop.events,
            "acks": self._history.acks,
            "reads": self._history.reads,
            **{name: counts[name] for name in _COUNTED},
            **told(machine.points for machine in cluster.machines.values()),
        }

    def _phases(self, loop: VirtualLoop, cluster: SimCluster) -> None:
        options, seed, checker = self._options, self._seed, self._checker
        clients = Clients(cluster, self._checker, self._history, options, Random(f"{seed} clients"))
        nemesis = Nemesis(cluster, clients.leader, options.mix, Random(f"{seed} nemesis"))
        self._operator = operator = Operator(
            cluster, checker, clients.leader, options.changes_per_s, Random(f"{seed} operator")
        )
        for node in self._nodes:
            cluster.start(node)
        clients.begin()
        points = PointNemesis(
            Site(cluster, Random(f"{seed} points"), clients.leader, options.mix.power)
        )
        loop.after(_CALM_S, nemesis.begin)
        loop.after(_CALM_S, operator.begin)
        if seed % _POINTED_ONE_IN == _POINTED_FIRST:
            loop.after(_CALM_S, points.begin)
        loop.run_for(_CALM_S + options.safety_s)
        points.end()
        operator.end()
        nemesis.heal()
        self._recover(loop, cluster, clients, "all was healed")
        clients.end()
        self._make_whole(loop, cluster)
        self._settle(loop, cluster)
        if options.is_idle_watched:
            self._idle(loop)
        checker.counts.update(operator.counts)
        members = list(checker.lives)
        for node in members:
            cluster.kill(node, power=True)
        for node in members:
            cluster.start(node)
        self._recover(loop, cluster, clients, "all lost their power")
        self._settle(loop, cluster)
        for wrong in self._history.judge(self._checker.committed):
            self._break(wrong)

    # Phases.

    def _recover(
        self, loop: VirtualLoop, cluster: SimCluster, clients: Clients, since: str
    ) -> None:
        """Within ten seconds there is a leader, and it acknowledges new writes."""
        acks = None
        deadline = loop.time() + _HEALED_S
        while loop.time() < deadline:
            loop.run_for(_SLICE_S)
            leader = clients.leader()
            if leader is None:
                continue
            if acks is None:
                acks = self._history.acks
            elif self._history.acks > acks:
                return
            clients.write(leader)
        self._break(f"{_HEALED_S:.0f} s after {since}: {self._state(cluster)}")

    def _make_whole(self, loop: VirtualLoop, cluster: SimCluster) -> None:
        """All members live and vote, and nobody else does, within twenty seconds of the last step.

        A node that joins has the log to catch up with, and a seed may have drawn a window that
        lets one entry through per round trip: as long as the gap shrinks it may go on.
        """
        end = loop.time() + _WHOLE_S
        deadline, seen, gap = end, "", 0
        while loop.time() < min(deadline, end):
            left = self._operator.is_whole()
            if left is None:
                return
            gap_now = self._gap()
            if left != seen or gap_now < gap:
                deadline, seen, gap = loop.time() + 2 * _HEALED_S, left, gap_now
            loop.run_for(_SLICE_S)
        self._break(f"{seen} and no step nearer, {gap} entries short: {self._state(cluster)}")

    def _gap(self) -> int:
        """Return how many entries the last of the living replicas is short of."""
        at = [life.log.applied for life in self._checker.lives.values()]
        return len(self._checker.committed) - min(at, default=0)

    def _settle(self, loop: VirtualLoop, cluster: SimCluster) -> None:
        """Within ten seconds all replicas are equal, and nothing is under way."""
        deadline = loop.time() + _HEALED_S
        left: str | None = ""
        crowded = 0
        while loop.time() < deadline:
            loop.run_for(_SLICE_S)
            lives = self._checker.lives
            crowded = crowded + 1 if any(map(reads_too_much, lives.values())) else 0
            self._checker.check(crowded < _CROWDED_MAX, "a node reads the same from disk again")
            at = [life.log.applied for life in lives.values()]
            committed = len(self._checker.committed)
            if self._operator.is_whole() or min(at) < committed:
                left = "not all have applied all"
                continue
            left = quiet(lives)
            if left is None:
                return
        self._break(f"{left} after {_HEALED_S:.0f} s: {self._state(cluster)}")

    def _idle(self, loop: VirtualLoop) -> None:
        """In a minute without faults nobody is elected."""
        terms = [life.log.term for life in self._checker.lives.values()]
        loop.run_for(_IDLE_S)
        now = [life.log.term for life in self._checker.lives.values()]
        if now != terms:
            self._break(f"terms went from {terms} to {now} without a fault")

    # Nodes.

    def _boot(self, world: SimNode, port: Port) -> Endpoint:
        """Start the product on a machine; runs as the node's process."""
        options, checker = self._options, self._checker
        node = NodeId(world.machine.name)
        lives: list[Life] = []
        replica = ListReplica(
            options.padding_bytes,
            2000,
            lambda before, entry: checker.applies(lives[0], before, entry),
            lambda index, digest: checker.installs(node, index, digest),
        )

        def failed(error: Fatal) -> None:
            if isinstance(error, Removed):
                self._has_left(node, lives[0].log.identity.incarnation)
            elif not isinstance(error, DiskFailed):
                checker.complain(f"{node} failed: {error!r}")
            world.exit(str(error))

        life = self._operator.lives[node]
        if life is None:
            raise CannotStart(f"the disk of {node} is empty: it must be added again")
        try:
            if not DataDirectory.is_initialised(world, _DIRECTORY):
                DataDirectory.create(
                    world,
                    _DIRECTORY,
                    Identity(_CLUSTER, node, life),
                    options.storage,
                    self._founders if (node, life) in self._founding else None,
                )
            log = ReplicatedLog(
                world,
                _DIRECTORY,
                options.storage,
                AllPeers(port),
                replica,
                options.log,
                failed,
            )
        except Fatal as error:
            if not isinstance(error, DiskFailed | CannotStart):
                checker.complain(f"{node} cannot start: {error!r}")
            raise
        lives.append(checker.begin(node, log))
        return LogEnd(log)

    def _has_left(self, node: NodeId, incarnation: int) -> None:
        """Judge that a node has ended as a member no more."""
        members = self._checker.members.committed
        if members.why_over(node, incarnation) is None:
            self._checker.complain(f"{node} ends as removed from {members}")
        self._operator.gone(node)

    def _has_died(self, node: NodeId, why: str) -> None:
        self._checker.end(node)
        if self._trace is not None:
            self._trace.note(node, f"DIED {why}")

    def _observe(self, what: str, one: NodeId, other: NodeId, message: object) -> None:
        if what == "send":
            life = self._checker.lives.get(one)
            if life is not None:  # it may speak in the event in which what it says became durable
                life.shadow.catch_up(life.log._driver.journal)
            self._checker.wire.sends(one, other, message)
        if self._trace is not None:
            self._trace.observe(what, one, other, message)

    # Words.

    def _state(self, cluster: SimCluster) -> str:
        lines = []
        for node in cluster.nodes:
            life = self._checker.lives.get(node)
            if life is None:
                lines.append(f"{node} is down, {cluster.refused.get(node)!r}")
                continue
            log = life.log
            role = "leads" if log.role is Role.LEADER else f"follows {log.leader}"
            lines.append(f"{node} {role} in {log.term}, commit {log.commit}, applied {log.applied}")
        return "; ".join(lines)

    def _break(self, promise: str) -> None:
        self._checker.complain(promise)
        raise Violation(promise)

    def _told(self, loop: VirtualLoop, promise: str) -> str:
        return f"event {loop.events}, {loop.time():.6f} s: {promise}"
