"""A leader whose clients, executors and entries do as they like: it never errs, all is answered."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from coordinator.core.outlook import Outlook
from raftbatch import records as r
from raftbatch.kinds import Key, LapseReason, Ran
from raftbatch.settings import Model, Policy
from tests.unit.core.leading import Leading, started

MODELS = [
    Model("m", "1", max_batch_size=8, max_batch_bytes=200, attempts_max=2, backoff_initial_ms=3),
    Model("m", "2", max_batch_size=4, preferred_batch_size=(2, 3), seal_when_idle=True),
    Model("n", "1", max_batch_size=0, priority_levels=1, default_priority_level=0),
]


class Drawn:
    """A drawn run."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        names = ("gpu-1", "gpu-2", "gpu-3")
        self.leading = started(*map(r.PutModel, MODELS), executors=names, slots=2)
        self._id = 0

    def step(self) -> None:
        """Do one thing."""
        draw, leading = self.draw, self.leading
        leading.at_ms += draw.choice((0, 0, 1, 1, 2, 5, 30))
        if draw.random() < 0.02:
            leading.lead(lose=draw.randint(0, len(leading.log)))
        if leading.outlook is None:
            leading.apply(1)
            return
        if len(leading.log) > 2 or draw.random() < 0.3:
            leading.apply(1)
            return
        records: list[r.Record] = []
        if draw.random() < 0.6:
            records.append(self._admit())
        if draw.random() < 0.6:
            records += self._reports()
        if draw.random() < 0.1:
            ids = tuple(f"r{draw.randint(0, self._id)}" for _ in range(2))
            records.append(draw.choice((r.Cancel, r.Acknowledge))(("t", "t"), ids))
        if draw.random() < 0.15:
            records += self._executor()
        if draw.random() < 0.05:
            records.append(self._operator())
        leading.propose(*records, is_quiet=draw.random() < 0.5)
        self.expect_sound()

    def expect_sound(self) -> None:
        """The outlook has not erred; and where nothing is in flight, it is the state's."""
        outlook = self.leading.outlook
        assert outlook is not None
        assert not outlook.is_stale, self.leading.trace[-12:]
        if not outlook.flying.flights:
            fresh = Outlook(self.leading.state)
            fresh.now_ms = outlook.now_ms
            for _ in fresh.build():
                pass
            assert _seen(fresh) == _seen(outlook)
            assert not outlook.flying.busy
            assert not outlook.flying.taken
            assert not outlook.flying.uses

    def finish(self) -> None:
        """Let everything go well from now on."""
        for _ in range(3000):
            self.leading.at_ms += 50
            self.leading.apply()
            if self.leading.outlook is None:
                continue
            if not self.leading.state.requests and not self.leading.state.batches:
                return
            self.leading.propose(*self._reports(well=True))
        pytest.fail(f"left: {self.leading.state.requests} {self.leading.state.batches}")

    def _admit(self) -> r.Record:
        draw = self.draw
        model = draw.choice(MODELS)
        key: Key = (model.name, model.version, draw.choice("ab"))
        self._id += 1
        ids = [f"r{self._id + n}" for n in range(draw.choice((1, 1, 2, 5, 12)))]
        if draw.random() < 0.1:
            ids.append(f"r{draw.randint(0, self._id)}")
        self._id += len(ids)
        return self.leading.admit(
            *ids,
            key=key,
            rows=draw.choice((1, 1, 1, 3)) if model.max_batch_size > 0 else 1,
            priority=draw.randrange(model.priority_levels),
            timeout_ms=draw.choice((0, 0, 0, 20, 100)),
            size=draw.choice((0, 10, 60, 300)),
        )

    def _reports(self, *, well: bool = False) -> list[r.Record]:
        draw, state = self.draw, self.leading.state
        found: list[r.Record] = []
        for executor, running in self.leading.running.items():
            for number, fence in list(running.items()):
                batch = state.batches.get(number)
                if batch is None or batch.fence != fence or batch.executor != executor:
                    continue
                if well:
                    found.append(self.leading.complete(number))
                elif draw.random() < 0.5:
                    found.append(self._report(number, batch.assigned, fence))
        for name, one in sorted(state.executors.items()):
            lapsed = [each for each in one.held if each.is_lapsed]
            if lapsed and (well or draw.random() < 0.3):
                batches = tuple(each.batch for each in lapsed)
                fences = tuple(each.fence for each in lapsed)
                found.append(r.Free(name, one.incarnation, batches, fences))
            if one.is_suspended and (well or draw.random() < 0.2):
                found.append(r.Probe(name, one.incarnation, True))
            ready = tuple((model.name, model.version) for model in MODELS)
            if well and one.models != ready:
                found.append(r.Ready(name, one.incarnation, ready))
            if well and one.is_draining:
                found.append(r.Drain(name, one.incarnation, False))
        if well and not state.executors:
            ready = tuple((model.name, model.version) for model in MODELS)
            found.append(r.Join("gpu-9", 0, 2, ready, b""))
        return found

    def _report(self, number: int, attempt: int, fence: int) -> r.Record:
        draw = self.draw
        if draw.random() < 0.6:
            return self.leading.complete(number, int(draw.random() < 0.1), last=draw.random() < 0.8)
        reason, ran = draw.choice(
            [
                (LapseReason.FAILED, Ran.YES),
                (LapseReason.FAILED, Ran.YES),
                (LapseReason.TIMED_OUT, Ran.YES),
                (LapseReason.REFUSED, Ran.NO),
                (LapseReason.DRAINED, Ran.NO),
            ]
        )
        return r.Lapse(number, attempt, fence, reason, ran, draw.random() < 0.5, "x", "y")

    def _operator(self) -> r.Record:
        draw = self.draw
        model = draw.choice(MODELS)
        match draw.randrange(5):
            case 0:
                return r.DeleteModel(model.name, model.version)
            case 1:
                most = draw.choice((15, 40, 1000))
                return r.PutPolicy(Policy(requests_waiting_max=most, executor_failures_max=2))
            case 2:
                larger = model.max_batch_size + draw.randint(0, 3) if model.max_batch_size else 0
                return r.PutModel(replace(model, max_batch_size=larger))
            case _:
                return r.PutModel(model)

    def _executor(self) -> list[r.Record]:
        draw, state = self.draw, self.leading.state
        name = f"gpu-{draw.randint(1, 4)}"
        live = state.executors.get(name)
        ready = tuple((m.name, m.version) for m in MODELS if draw.random() < 0.8)
        if live is None:
            return [r.Join(name, 0, draw.randint(1, 3), ready, b"")]
        match draw.randrange(4):
            case 0:
                return [r.Ready(name, live.incarnation, ready)]
            case 1:
                return [r.Drain(name, live.incarnation, draw.random() < 0.3)]
            case 2:
                return [r.Join(name, live.incarnation, 2, ready, b"")]
            case _:
                running = tuple(each.batch for each in live.held if draw.random() < 0.5)
                return [r.Leave(name, live.incarnation, True, tuple(dict.fromkeys(running)))]


def _seen(outlook: Outlook) -> object:
    """Return what matters of an outlook."""
    windows = {
        key: (
            view.requests,
            view.rows,
            view.size,
            {
                priority: [n for n in lane if outlook.look(n) is not None]
                for priority, lane in view.lanes.items()
                if any(outlook.look(n) is not None for n in lane)
            },
        )
        for key, view in outlook.windows.items()
        if view.requests
    }
    models = {
        model_id: (
            sorted(view.waiting),
            {name: (e.free, e.rows, e.incarnation) for name, e in view.able.views.items()},
        )
        for model_id, view in outlook.models.items()
    }
    waiting = {number for view in outlook.models.values() for number in view.waiting}
    in_backoff = {number for _, number in outlook.backoff} - waiting
    state = outlook.state
    in_backoff = {n for n in in_backoff if n in state.batches and state.batches[n].not_before_ms}
    return windows, models, sorted(outlook.spent), outlook.next_request, outlook.next_batch


@pytest.mark.parametrize("seed", [*range(15), 125, 138, 147])
def test_leader_never_errs_and_all_is_answered(seed: int) -> None:
    drawn = Drawn(seed)
    for _ in range(250):
        drawn.step()
    drawn.finish()
    state: Leading = drawn.leading
    assert state.state.counters.admitted > 30
