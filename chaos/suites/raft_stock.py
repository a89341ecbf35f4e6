"""The raft suite against stock pysyncobj 0.3.17: proof that it finds what there is to find.

The same links, faults and phases as `chaos.suites.raft`; pysyncobj's own rules, and
its files as they behave. Most seeds end with a broken promise (RAFT.md, 2).

What lives here: the run. What must never live here: a mended fault. Called by:
`chaos.runner` for `--core stock`, the property tests.
"""

from __future__ import annotations

import tempfile
from functools import partial
from random import Random
from typing import Any

from pysyncobj import FAIL_REASON, SyncObjConf

from chaos.checkers.raft import Violation
from chaos.checkers.raft_stock import StockChecker
from chaos.nemesis import Mix, Nemesis
from chaos.suites.raft_stock_node import StockDisk, StockNode, simulated
from chaos.suites.raft_trace import Trace, explained
from chaos.suites.raft_watched import WatchedLoop
from chaos.worlds.cluster import SimCluster
from chaos.worlds.ends import Endpoint, Port
from chaos.worlds.sim import SimNode
from raftbatch.ids import NodeId

_NODES = [NodeId("n1"), NodeId("n2"), NodeId("n3")]
_SAFETY_S = 15.0
_HEALED_S = 6.0  # of writes, and again without any
_TICK_S = 0.02
_WRITES_PER_S = 15.0


def run_seed(seed: int) -> dict[str, int]:
    """Run one seed; return what was counted.

    Raises:
        Violation: a promise was broken.
    """
    return explained(lambda trace: _StockRun(seed, trace).run())


class _StockRun:
    """One run."""

    def __init__(self, seed: int, trace: Trace | None) -> None:
        self._seed = seed
        self._trace = trace
        rng = Random(f"{seed} options")
        self._mix = Mix.draw(rng)  # links keep to TCP's contract: nobody asks pysyncobj for more
        self._compaction = rng.choice((10, 40, 1 << 30))
        self._batch = rng.choice((400, 1 << 16))
        self._rng = Random(f"{seed} clients")
        self._checker = StockChecker()
        self._disks = {str(node): StockDisk(Random(f"{seed} {node} disk")) for node in _NODES}
        self._loop = WatchedLoop()
        self._commands = 0
        self._is_over = False

    def run(self) -> dict[str, int]:
        """Run all phases; return what was counted."""
        loop, checker, seed = self._loop, self._checker, self._seed
        with (
            tempfile.TemporaryDirectory(prefix="raft-stock-") as self._folder,
            simulated(loop, Random(f"{seed} chance"), self._disks),
        ):
            try:
                with loop:
                    self._phases()
            except Violation:
                told = f"event {loop.events}, {loop.time():.6f} s: {checker.violation}"
                raise Violation(told) from None
        return {"events": loop.events, "acks": len(checker.acked), **checker.counts}

    def _phases(self) -> None:
        loop, checker = self._loop, self._checker
        cluster = self._cluster = SimCluster(loop, self._seed, _NODES, self._boot, wire=_copied)
        cluster.deaths.append(self._has_died)
        if self._trace is not None:
            self._trace.begin(loop, _NODES)
            cluster.links.observer = self._trace.observe
        loop.watch = checker.look
        nemesis = Nemesis(cluster, self._leader, self._mix, Random(f"{self._seed} nemesis"))
        for node in _NODES:
            cluster.start(node)
        loop.after(2.0, self._write)
        loop.after(3.0, nemesis.begin)
        loop.run_for(_SAFETY_S)
        nemesis.heal()
        loop.run_for(_HEALED_S)
        self._is_over = True
        loop.run_for(_HEALED_S)
        checker.judge({node: life.applied for node, life in checker.lives.items()})
        checker.look()

    def _boot(self, world: SimNode, port: Port) -> Endpoint:
        node = NodeId(world.machine.name)
        conf = SyncObjConf(
            autoTick=False,
            journalFile=node,
            fullDumpFile=f"{self._folder}/{node}",
            useFork=False,
            appendEntriesUseBatch=True,
            appendEntriesBatchSizeBytes=self._batch,
            logCompactionMinEntries=self._compaction,
            logCompactionMinTime=1 << 30,
        )
        life = StockNode(node, _NODES, port, conf, self._checker.applies)
        self._checker.lives[node] = life
        self._tick(life)
        return _Guarded(life)

    def _tick(self, life: StockNode) -> None:
        _guarded(life.doTick, 0.0)
        self._loop.call_later(_TICK_S, self._tick, life)

    def _has_died(self, node: NodeId, why: str) -> None:
        self._checker.lives.pop(node, None)
        self._checker.counts["crashes"] += 1
        by_itself = why.startswith(("before a send", "after a send"))
        if why == "power lost" or (by_itself and self._cluster.machines[node].power):
            self._disks[node].lose_power()
        if self._trace is not None:
            self._trace.note(node, f"DIED {why}")

    def _leader(self) -> NodeId | None:
        leading = [
            (life.raftCurrentTerm, node)
            for node, life in self._checker.lives.items()
            if life.raft_state == 2
        ]
        return max(leading)[1] if leading else None

    def _write(self) -> None:
        if self._is_over:
            return
        self._commands += 1
        node = self._leader() or self._rng.choice(_NODES)
        world = self._cluster.machines[node].node
        life = self._checker.lives.get(node)
        if life is not None and world is not None and world.alive and not world.process.paused:
            ended = partial(self._ended, self._commands)
            world.process.call(partial(life.append, self._commands, callback=ended))
        self._loop.after(self._rng.expovariate(_WRITES_PER_S), self._write)

    def _ended(self, command: int, _: object, error: int) -> None:
        if error == FAIL_REASON.SUCCESS:
            self._checker.acked.append(command)


class _Guarded:
    """A node whose handlers' exceptions end nothing, as in pysyncobj's own loop."""

    def __init__(self, life: StockNode) -> None:
        self.incarnation = life.incarnation
        self.admits = life.admits
        self.refused = life.refused
        self.receive = partial(_guarded, life.receive)
        self.connected = partial(_guarded, life.connected)
        self.disconnected = partial(_guarded, life.disconnected)


def _guarded(handle: Any, *args: object) -> None:
    try:
        handle(*args)
    except Exception:  # noqa: BLE001, S110 - it raises in many places (RAFT.md, 1), and goes on
        pass


def _copied(message: object) -> object:
    """Return what arrives: it shares no list with what was sent."""
    if not isinstance(message, dict):
        return message
    return {key: list(each) if isinstance(each, list) else each for key, each in message.items()}
