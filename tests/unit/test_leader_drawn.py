"""Drawn histories of one leader: terms come and go, entries are lost, the log refuses some.

Whatever is drawn, everybody is told once, what is said to be done is done and what is
said never to have been never was, no decision of the leader's own is refused, and
nothing that could be decided is left lying: a leader that began anew would find
nothing to do.
"""

from __future__ import annotations

from random import Random

import pytest

from chaos.worlds.loop import VirtualLoop
from coordinator.core.decide import Decider
from coordinator.core.effects import Verdict
from coordinator.core.outlook import Outlook
from coordinator.core.watch import Holding
from coordinator.leader_parts import LeaderConfig
from coordinator.proposer import Landed
from raftbatch import records as r
from raftbatch.errors import Draining, NoSpace, OutcomeUnknown, Overloaded, RaftbatchError
from raftbatch.kinds import Release
from tests.unit.leader_scene import ME, Asked, Scene, put, report

STEPS = 400
EXECUTORS = ("gpu-1", "gpu-2", "gpu-3")


class Drawn:
    """One history."""

    def __init__(self, seed: int, loop: VirtualLoop) -> None:
        self.rng = Random(seed)
        config = LeaderConfig(
            entries_inflight_max=self.rng.choice([1, 2, 4]),
            entry_bytes_max=self.rng.choice([300, 2000, 1 << 20]),
            lease_ms=self.rng.choice([200, 60_000]),
        )
        self.scene = Scene(loop, config=config)
        self.settings = {
            "max_batch_size": self.rng.choice([1, 2, 5]),
            "max_queue_delay_microseconds": self.rng.choice([0, 5000, 50_000]),
            "seal_when_idle": self.rng.random() < 0.5,
            "backoff_initial_ms": self.rng.choice([0, 20]),
            "requests_waiting_max": self.rng.choice([5, 1000]),
            "execution_timeout_microseconds": self.rng.choice([0, 30_000]),
        }
        self.scene.begin(put(**self.settings))
        self.requests: list[tuple[str, Asked]] = []
        self.names = 0

    def step(self) -> None:
        """Do something."""
        draw = self.rng.random()
        try:
            if draw < 0.35:
                self._admit()
            elif draw < 0.5:
                self._executors()
            elif draw < 0.6:
                self._records()
            elif draw < 0.65:
                self._trouble()
            elif draw < 0.85:
                self.scene.apply(self.rng.choice([1, 1, 2, 9]))
            else:
                self.scene.loop.run_for(self.rng.choice([0, 0.001, 0.01, 0.1]))
        except RaftbatchError:
            pass  # it was refused at once: nothing was done
        if self.rng.random() < 0.5:
            self.scene.turn()

    def heal(self) -> None:
        """Let this node lead, and everything land."""
        scene = self.scene
        scene.log.refusal = None
        if scene.log.leader != ME:
            scene.elect()
        scene.settle(100)
        scene.settle(100)
        assert scene.is_ready()

    def _admit(self) -> None:
        drawn: list[tuple[str, dict[str, object]]] = []
        for _ in range(self.rng.choice([1, 1, 3, 20])):
            again = self.names and self.rng.random() < 0.2
            name = f"r{self.rng.randrange(self.names) if again else self.names}"
            self.names += not again
            fields: dict[str, object] = {
                "rows": self.rng.choice([1, 1, 2]),
                "timeout_ms": self.rng.choice([0, 0, 30]),
                "content_hash": self.rng.choice([b"h", b"h", b"h", b"x"]),
                "payload": bytes(self.rng.choice([10, 10, 500])),
                "priority": self.rng.randrange(3),
            }
            drawn.append((name, fields))
        names = [name for name, _ in drawn]
        together = self.scene.admit_all(drawn) if self.rng.random() < 0.5 else None
        if together is not None:
            self.requests += zip(names, together, strict=True)
            return
        for name, fields in drawn:
            self.requests.append((name, self.scene.admit(name, **fields)))

    def _executors(self) -> None:
        scene, name = self.scene, self.rng.choice(EXECUTORS)
        live = scene.replica.state.executors.get(name)
        if live is None:
            scene.propose(r.Join(name, 0, self.rng.choice([1, 2]), (("m", "1"),), b""))
            return
        held = [
            Holding(each.batch, each.fence, self.rng.random() < 0.7)
            for each in live.held
            if self.rng.random() < 0.9 and not (each.is_lapsed and self.rng.random() < 0.5)
        ]
        tailed = self.rng.choice([0, scene.replica.state.index])
        scene.beat(*held, executor=name, tailed_index=tailed)

    def _records(self) -> None:
        state, rng, scene = self.scene.replica.state, self.rng, self.scene
        running = [each for each in state.batches.values() if each.executor]
        draw = rng.random()
        if draw < 0.6 and running:
            batch = rng.choice(running)
            scene.propose(report(batch, kind=int(rng.random() < 0.2)))
        elif draw < 0.7 and self.names:
            scene.propose(r.Cancel(("t",), (f"r{rng.randrange(self.names)}",)))
        elif draw < 0.8:
            scene.propose(put(**self.settings))
        elif draw < 0.9 and state.executors:
            one = rng.choice(list(state.executors.values()))
            scene.propose(r.Drain(one.executor, one.incarnation, rng.random() < 0.3))
        elif state.executors:
            one = rng.choice(list(state.executors.values()))
            scene.propose(r.Leave(one.executor, one.incarnation, True, ()))

    def _trouble(self) -> None:
        scene, rng = self.scene, self.rng
        draw = rng.random()
        if draw < 0.4:
            errors = [NoSpace("full"), Overloaded("much"), Draining("moves")]
            scene.log.refusal = None if scene.log.refusal else rng.choice(errors)
        elif scene.log.leader != ME:
            if rng.random() < 0.5:
                scene.inherit(r.Lead("n2", 0, 1))
            scene.elect()
        else:
            scene.depose(tell=rng.random() < 0.7)
            if rng.random() < 0.6:
                first = rng.randrange(scene.log.applied, len(scene.log.entries) + 1) + 1
                if rng.random() < 0.5:
                    scene.lose(first)
                else:
                    del scene.log.entries[first - 1 :]


def _judge(drawn: Drawn) -> None:
    scene = drawn.scene
    state = scene.replica.state
    admitted: dict[str, None] = {}
    unknown: dict[str, None] = {}
    for asked in scene.asked:
        assert len(asked.answers) == 1, asked
    for name, asked in drawn.requests:
        (answer,) = asked.answers
        known = state.request("t", name)
        if isinstance(answer, Landed):
            if answer.verdict in (Verdict.OK, Verdict.KNOWN, Verdict.ENDED):
                assert known is not None
                assert known.ticket == answer.value
            if answer.verdict is Verdict.OK:
                assert name not in admitted
                admitted[name] = None
        elif isinstance(answer, OutcomeUnknown):
            unknown[name] = None
    for number in range(drawn.names):
        known = state.request("t", f"r{number}")
        if known is not None and known.ticket:
            assert f"r{number}" in {**admitted, **unknown}, "a request that never was is there"
    scene.check()


def _leaves_nothing(scene: Scene) -> None:
    """Expect that a leader that begins anew finds nothing to decide."""
    outlook = Outlook(scene.replica.state)
    for _ in outlook.build():
        pass
    flight = outlook.begin(scene.log_clock.now_ms())
    Decider(outlook).decide(flight, is_quiet=True)
    # But for full windows that may be sealed ahead of a slot: they lose nothing by waiting.
    ahead = [each for each in flight.records if isinstance(each, r.Seal)]
    assert flight.records == ahead
    assert all(each.reason in (Release.SIZE, Release.BYTES) for each in ahead)


@pytest.mark.parametrize("seed", range(60))
def test_drawn_history_of_a_leader(seed: int) -> None:
    with VirtualLoop() as loop:
        drawn = Drawn(seed, loop)
        for _ in range(4):
            for _ in range(STEPS // 4):
                drawn.step()
            drawn.heal()
            _leaves_nothing(drawn.scene)
        _judge(drawn)
