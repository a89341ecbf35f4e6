"""The whole scheduler in one thread, under faults: one seed, one identical run.

Nodes of the product over simulated disks and links, simulated executors and clients
that call them over a network of their own, in virtual time. First a safety phase, in
which everything fails that the seed has drawn; then all is healed, and within a bound
every request must have its outcome, every slot be free and all replicas be equal; then
all nodes lose their power at once, and must come back with every outcome that was known.

What lives here: the phases. What must never live here: a check (`chaos.checkers`), a
fault (`chaos.faults`, `scheduler_fleet`). Called by: `chaos.runner`, the property tests.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from chaos.checkers.raft import Violation
from chaos.checkers.scheduler import SchedulerChecker
from chaos.nemesis import Nemesis
from chaos.suites.raft_ends import LogEnd, written_and_read
from chaos.suites.raft_trace import Trace, explained
from chaos.suites.raft_watched import WatchedLoop
from chaos.suites.scheduler_clients import Clients
from chaos.suites.scheduler_fleet import Executors
from chaos.suites.scheduler_node import Node
from chaos.suites.scheduler_operator import Operator
from chaos.suites.scheduler_options import Options, draw
from chaos.suites.scheduler_requests import answer
from chaos.suites.scheduler_trace import told
from chaos.tuning import tuned
from chaos.worlds.calls import CallOptions, Calls
from chaos.worlds.cluster import SimCluster
from chaos.worlds.ends import Endpoint, Port
from chaos.worlds.loop import VirtualLoop
from chaos.worlds.sim import SimNode
from coordinator import agreement, time_note
from coordinator.api import Api
from coordinator.raft import applying, snapshotting
from coordinator.raft.membership import founders
from coordinator.raft.messages import BULK
from coordinator.raft.standing import Role
from raftbatch.errors import CannotStart, DiskFailed, Fatal
from raftbatch.ids import NodeId

CALM_S = 1.0
"""How long nothing fails, before the first fault."""

ENDED_S = 60.0
"""Within which every request must have its outcome: poison takes its time."""

_HEALED_S = 10.0  # within which somebody must lead, and admit
_SETTLED_S = 15.0  # within which all replicas are equal, and nothing is under way
_SLICE_S = 0.1
_ASK_S = 0.5  # how often somebody asks whether all is well again
_GONE_MAX = 20  # callers that have just hung up, which the node does not know yet
_OTHERS = "others"  # the column of all that is no node, in a trace
_NOTE_S = 0.5  # how often a node notes what time it is: runs are short
_COMPARED_EVERY = 8  # indexes between two at which replicas compare their digests: logs are short
_ENCODED_ONE_IN = 4  # runs in which messages travel as bytes: it takes time, and draws nothing


def run_seed(seed: int) -> dict[str, int]:
    """Run one seed; return what was counted.

    Raises:
        Violation: a promise was broken; the message holds the event, and the nodes' last lines.
    """
    return explained(lambda trace: SchedulerRun(seed, trace).run())


def trace_digest(seed: int) -> str:
    """Return a digest of everything that happens in a seed's run, in its order."""
    trace = Trace()
    counts = SchedulerRun(seed, trace).run()
    return f"{trace.digest.hexdigest()} {sorted(counts.items())}"


class SchedulerRun:
    """One run.

    Args:
        seed: of everything.
        trace: told what happens, if anybody wants to know.
        options: other ones than the seed's.
    """

    def __init__(self, seed: int, trace: Trace | None, options: Options | None = None) -> None:
        self._seed = seed
        self._trace = trace
        self._is_healed = False
        self._options = options = options or draw(seed)
        self._names = [NodeId(f"n{number}") for number in range(1, options.nodes + 1)]
        self._founders = founders({node: f"{node}:1" for node in self._names})
        self._loop = WatchedLoop()
        self._checker = SchedulerChecker(answer, real_ms=lambda: int(self._loop.time() * 1000))
        self._nodes: dict[NodeId, Node] = {}

    def run(self) -> dict[str, int]:
        """Run all phases; return what was counted."""
        loop = self._loop
        constants = (
            (snapshotting, "PIECE_BYTES_MAX", self._options.piece_bytes),
            (applying, "_APPLY_BYTES_MAX", self._options.apply_bytes),
            (applying, "_ENTRY_BYTES_MIN", 0),  # logs are short, and snapshots many
            (time_note, "NOTE_S", _NOTE_S),
            (agreement, "EVERY", _COMPARED_EVERY),
        )
        try:
            with tuned(*constants), loop:
                self._set_up(loop)
                self._phases(loop)
        except Violation:
            raise Violation(self._told(loop, str(self._checker.violation))) from None
        except Exception as error:
            if self._checker.violation is None:
                raise
            raise Violation(self._told(loop, self._checker.violation)) from error
        return {
            "events": loop.events,
            **self._clients.counts,
            **self._executors.counts,
            **self._operator.counts,
            **self._checker.counts,
        }

    def _set_up(self, loop: WatchedLoop) -> None:
        options, seed, checker = self._options, self._seed, self._checker
        wire = written_and_read if seed % _ENCODED_ONE_IN == 0 else None
        cluster = self._cluster = SimCluster(
            loop, seed, self._names, self._boot, wire=wire, bulk=BULK
        )
        cluster.deaths.append(self._has_died)
        self._calls = calls = Calls[Api](loop, Random(f"{seed} calls"))
        if self._trace is not None:
            self._trace.begin(loop, self._names)
            cluster.links.observer = self._trace.observe
            calls.observer = self._observe
        loop.watch = self._look
        self._clients = clients = Clients(
            loop,
            calls,
            self._names,
            checker.history,
            options.models,
            options.work,
            Random(f"{seed} clients"),
        )
        self._executors = executors = Executors(
            loop,
            calls,
            self._names,
            checker,
            options.fleet,
            tuple((model.name, model.version) for model in options.models),
            Random(f"{seed} executors"),
            self._note,
        )
        self._operator = Operator(
            loop,
            calls,
            self._nodes,
            self._leader,
            options,
            clients,
            executors,
            Random(f"{seed} operator"),
        )

    def _phases(self, loop: VirtualLoop) -> None:
        options, cluster, clients = self._options, self._cluster, self._clients
        nemesis = Nemesis(cluster, self._leader, options.mix, Random(f"{self._seed} nemesis"))
        for node in self._names:
            cluster.start(node)
        self._executors.begin()
        clients.begin()
        loop.after(CALM_S, nemesis.begin)
        loop.after(CALM_S, self._executors.strike)
        loop.after(CALM_S, self._operator.begin)
        loop.after(CALM_S, setattr, self._calls, "options", options.calls)
        loop.run_for(CALM_S + options.safety_s)
        self._operator.end()
        self._is_healed = True
        nemesis.heal()
        self._calls.heal()
        self._calls.options = CallOptions(timeout_s=options.calls.timeout_s)
        self._executors.heal()
        self._recover(loop, "all was healed")
        self._checker.healed()
        clients.end()
        self._wait(loop, ENDED_S, clients.left)
        self._settle(loop)
        self._checker.struck()
        for node in self._names:
            cluster.kill(node, power=True)
        for node in self._names:
            cluster.start(node)
        self._recover(loop, "all lost their power")
        self._checker.healed()
        clients.read_all()
        self._wait(loop, ENDED_S, clients.left)
        self._settle(loop)
        self._checker.judge()
        self._look()

    # Phases.

    def _recover(self, loop: VirtualLoop, since: str) -> None:
        """Within ten seconds somebody leads, and takes requests in, or says that it is full."""
        deadline = loop.time() + _HEALED_S
        counts = self._clients.counts
        before, mark = counts["answered"], None
        while loop.time() < deadline:
            if mark is None:
                self._clients.ask_one()
            loop.run_for(_ASK_S)
            leader = self._leader()
            if leader is None:
                continue
            log = self._nodes[leader].log
            if mark is not None and log.applied >= mark:
                return
            if counts["answered"] > before:
                mark = log.last_index  # what was appended before all was well is applied, too
        self._break(f"no request was taken in for {_HEALED_S:.0f} s after {since}")

    def _settle(self, loop: VirtualLoop) -> None:
        """All replicas are equal, no request is open, and every slot is free."""
        self._wait(loop, _SETTLED_S, self._left)

    def _left(self) -> str | None:
        if len(self._nodes) < len(self._names):
            return "not all nodes are up"
        states = {name: node.replica.state for name, node in self._nodes.items()}
        left = self._checker.settled(states, self._executors.each)
        for node in self._nodes.values():
            left = left or node.left()
        tails = sum(node.tails for node in self._nodes.values())
        if left is None and tails > len(self._executors.each):
            left = f"{tails} tails are open"
        return left

    def _blame(self, node: Node) -> None:
        asking = self._calls.count(node.node)
        if node.waits > asking + _GONE_MAX:
            self._checker.complain(f"{node.node} keeps {node.waits} waits for {asking} callers")
        if node.bugs is not None:
            self._checker.complain(node.bugs)

    def _wait(self, loop: VirtualLoop, bound_s: float, left: Callable[[], str | None]) -> None:
        deadline = loop.time() + bound_s
        end = deadline + self._kept_s()
        while (why := left()) is not None:
            if self._is_full():  # of what nobody has read: nothing runs until that has gone
                deadline = min(loop.time() + bound_s, end)
            if loop.time() >= deadline:
                self._break(f"{why}, {bound_s:.0f} s after the last fault")
            loop.run_for(_SLICE_S)
            for node in self._nodes.values():
                self._blame(node)

    def _is_full(self) -> bool:
        states = [node.replica.state for node in self._nodes.values()]
        return any(state.outcome_bytes >= state.policy.outcome_bytes_max for state in states)

    def _kept_s(self) -> float:
        policies = [node.replica.state.policy for node in self._nodes.values()]
        return max((policy.outcome_retention_ms for policy in policies), default=0) / 1000

    # Nodes.

    def _boot(self, world: SimNode, port: Port) -> Endpoint:
        """Start the product on a machine; runs as the node's process."""
        name = NodeId(world.machine.name)

        def failed(error: Fatal) -> None:
            self._has_failed(name, error)
            world.exit(str(error))

        try:
            node = Node(world, port, self._options, self._founders, failed)
        except Fatal as error:
            if not isinstance(error, DiskFailed | CannotStart):
                self._checker.complain(f"{name} cannot start: {error!r}")
            raise
        node.replica.listeners.append(self._checker.begin(name, node.replica))
        self._nodes[name] = node
        self._calls.open(name, world.process, node.api)
        return LogEnd(node.log)

    def _has_failed(self, name: NodeId, error: Fatal) -> None:
        """Judge why a node stops by itself."""
        if not isinstance(error, DiskFailed):
            self._checker.complain(f"{name} failed: {error!r}")

    def _has_died(self, name: NodeId, why: str) -> None:
        self._calls.close(name, silent=why == "power lost")
        node = self._nodes.pop(name, None)
        if node is not None:
            self._blame(node)
            self._checker.end(name)
            self._checker.counts["crashes"] += 1
        self._note(name, f"DIED {why}")

    def _leader(self) -> NodeId | None:
        """Return who leads, as far as anybody can tell: the leader of the highest term."""
        leading = [
            (node.log.term, name)
            for name, node in self._nodes.items()
            if node.log.role is Role.LEADER and not self._cluster.is_paused(name)
        ]
        return max(leading)[1] if leading else None

    # Words.

    def _look(self) -> None:
        if self._checker.violation is not None:
            raise Violation(self._checker.violation)

    def _note(self, name: str, text: str) -> None:
        if self._trace is not None:
            is_node = name in self._names
            self._trace.note(
                NodeId(name if is_node else _OTHERS), text if is_node else f"{name} {text}"
            )

    def _observe(self, happened: str, caller: str, node: NodeId, what: str, about: object) -> None:
        self._note(caller, told(happened, node, what, about))

    def _state(self) -> str:
        lines = []
        for name in self._names:
            node = self._nodes.get(name)
            if node is None:
                lines.append(f"{name} is down, {self._cluster.refused.get(name)!r}")
                continue
            log, state = node.log, node.replica.state
            role = "leads" if log.role is Role.LEADER else f"follows {log.leader}"
            lines.append(
                f"{name} {role} in {log.term}, commit {log.commit}, applied {log.applied}, at "
                f"{state.now_ms} ms, {len(state.requests)} requests, {len(state.batches)} batches"
            )
        for executor in self._executors.each.values():
            lines.append(
                f"{executor.executor} is {executor.incarnation} and holds {executor.holds}"
            )
        return "; ".join(lines)

    def _break(self, promise: str) -> None:
        self._checker.complain(f"{promise}: {self._state()}")
        self._look()

    def _told(self, loop: VirtualLoop, promise: str) -> str:
        workloads = " ".join(self._options.workloads)
        return f"event {loop.events}, {loop.time():.6f} s ({workloads}): {promise}"
