"""Replicas that become other ones: who differs stops, nobody else does, and no promise breaks.

As suite `scheduler`, faults and all, but that now and then what one replica has done so
far turns into something else: its digest is flipped, as whatever `apply` did otherwise
would flip it. Its state is left as it is, so that all other checks hold for it too, up to
its end: it may die of something else, and comes back as it should be, since its log is
right; if it lives, it must find out, answer nobody from then on, and stop. If it leads it
hands over first.

What lives here: the flips, and what is expected of them. What must never live here: a
check of what nodes answer (`chaos.checkers`). Called by: `chaos.runner`, the property
tests.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

from chaos.suites.raft_trace import Trace, explained
from chaos.suites.scheduler import CALM_S, ENDED_S, SchedulerRun
from chaos.suites.scheduler_node import Node
from chaos.suites.scheduler_options import Options, draw
from chaos.worlds.loop import VirtualLoop
from coordinator.raft.standing import Role
from raftbatch.errors import Diverged, Fatal
from raftbatch.ids import NodeId

_AGAIN_S = (0.2, 2.0)  # after a flipped replica has ended, until another is flipped
_FLIPS_MAX = 3
_FOUND_S = 20.0  # once all is healed, while requests are taken in
_NO_SNAPSHOTS = 1 << 40  # one of a flipped replica would bring it back as that


def run_seed(seed: int) -> dict[str, int]:
    """Run one seed; return what was counted.

    Raises:
        Violation: a promise was broken; the message holds the event, and the nodes' last lines.
    """
    return explained(lambda trace: DivergingRun(seed, trace).run())


def trace_digest(seed: int) -> str:
    """Return a digest of everything that happens in a seed's run, in its order."""
    trace = Trace()
    counts = DivergingRun(seed, trace).run()
    return f"{trace.digest.hexdigest()} {sorted(counts.items())}"


class DivergingRun(SchedulerRun):
    """See the module's docstring.

    Args:
        seed: of everything.
        trace: told what happens, if anybody wants to know.
    """

    def __init__(self, seed: int, trace: Trace | None) -> None:
        super().__init__(seed, trace, _options(seed))
        self._rng = Random(f"{seed} diverging")
        self._victim: Node | None = None
        self._erred_s: float | None = None
        self._led = False
        self._flips: Counter[str] = Counter(flipped=0, diverged=0, handed_over=0, died_before=0)

    def run(self) -> dict[str, int]:
        """Run all phases; return what was counted."""
        return super().run() | self._flips

    def _phases(self, loop: VirtualLoop) -> None:
        self._calls.leaving = self._leaves
        loop.after(CALM_S + self._rng.uniform(0.0, 2.0), self._flip)
        super()._phases(loop)

    def _flip(self) -> None:
        """Let a replica be another, the leader's as often as not."""
        nodes, leader = self._nodes, self._leader()
        able = [name for name in self._names if name in nodes and nodes[name].replica.state.term]
        if self._is_healed or self._flips["flipped"] == _FLIPS_MAX:
            return
        if not able:
            self._loop.after(self._rng.uniform(*_AGAIN_S), self._flip)
            return
        name = leader if leader in able and self._rng.random() < 0.5 else self._rng.choice(able)
        node = self._victim = nodes[name]
        self._erred_s, self._led = None, False
        digest = bytearray(node.replica.state.digest)
        digest[self._rng.randrange(len(digest))] ^= 1 << self._rng.randrange(8)
        node.replica.state.digest = bytes(digest)
        self._checker.flipped(name)
        self._flips["flipped"] += 1
        self._note(name, f"FLIPPED at {node.replica.state.index}")

    def _settle(self, loop: VirtualLoop) -> None:
        """As all runs do, once a replica that was flipped last of all has found that out.

        That takes entries, up to the next milestone, and without this none would come.
        """
        if self._victim is not None:
            self._wait(loop, _FOUND_S, self._goes_on)
            self._wait(loop, ENDED_S, self._clients.left)
        super()._settle(loop)

    def _goes_on(self) -> str | None:
        """Have something asked; return who differs and does not know it."""
        if self._victim is None:
            return None
        self._clients.ask_one()
        return f"{self._victim.node} differs from all others, and goes on"

    def _has_failed(self, name: NodeId, error: Fatal) -> None:
        victim = self._victim
        if not isinstance(error, Diverged):
            super()._has_failed(name, error)
        elif victim is None or victim is not self._nodes.get(name):
            self._checker.complain(f"{name} stops, and does not differ: {error}")
        else:
            self._flips["diverged"] += 1
            self._flips["handed_over"] += self._led and victim.log.role is not Role.LEADER

    def _has_died(self, name: NodeId, why: str) -> None:
        if self._victim is not None and self._victim is self._nodes.get(name):
            self._flips["died_before"] += self._victim.log.failure is None
            self._victim = None
            self._loop.after(self._rng.uniform(*_AGAIN_S), self._flip)
        super()._has_died(name, why)

    def _look(self) -> None:
        super()._look()
        victim = self._victim
        if victim is not None and self._erred_s is None and victim.errs:
            self._erred_s = self._loop.time()
            self._led = victim.log.role is Role.LEADER

    def _leaves(self, name: NodeId, what: str, answer: object) -> None:
        """Judge an answer as it leaves a node: none may, once its node knows that it errs.

        What was answered before may leave in the same moment.
        """
        erred_s, victim = self._erred_s, self._victim
        if victim is None or erred_s is None or victim.node != name:
            return
        if self._loop.time() > erred_s and not isinstance(answer, Exception):
            self._checker.complain(f"{name} knows that it differs, and answers {what}: {answer}")


def _options(seed: int) -> Options:
    """Return a seed's options: those of suite `scheduler`, with three nodes at least."""
    options = draw(seed)
    return replace(
        options,
        nodes=max(options.nodes, 3),
        log=replace(options.log, snapshot_bytes_min=_NO_SNAPSHOTS),
    )
