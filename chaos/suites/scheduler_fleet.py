"""All simulated executors of a run, and what befalls them.

What lives here: their processes, and the faults that strike executors alone. What must
never live here: what an executor does (`scheduler_executor`). Called by:
`chaos.suites.scheduler`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from chaos.checkers.scheduler import SchedulerChecker
from chaos.suites.scheduler_calling import Caller
from chaos.suites.scheduler_executor import Incarnation, ModelIds, Mood, Site
from chaos.suites.scheduler_options import Fleet
from chaos.worlds.calls import Calls, Lost
from chaos.worlds.ends import Heal
from chaos.worlds.loop import VirtualLoop
from chaos.worlds.process import Process
from coordinator.api import Api
from raftbatch import records as r
from raftbatch.errors import RaftbatchError
from raftbatch.ids import NodeId

_REFUSAL = 0.6
_CHANGE_S = 0.3  # until executors know of a model that was put


class SimExecutor:
    """One executor, through all its lives.

    Args:
        fleet: whose it is.
        name: its id.
        rng: its own.

    Attributes:
        executor: its id.
        mood: what befalls it.
        process: its present life; None: it is down.
        served: its present incarnation; None: it has none.
    """

    def __init__(self, fleet: Executors, name: str, rng: Random) -> None:
        self.executor = name
        self.mood = Mood(models=fleet.models)
        self.process: Process | None = None
        self.served: Incarnation | None = None
        self._fleet = fleet
        self._rng = rng
        self._last = 0

    @property
    def incarnation(self) -> int:
        """The one it lives under; 0: none."""
        return 0 if self.served is None else self.served.incarnation

    @property
    def holds(self) -> tuple[tuple[int, int], ...]:
        """Batch and fence of all that takes a slot of it."""
        return () if self.served is None else tuple(self.served.holdings.held)

    def start(self) -> None:
        """Begin a process."""
        fleet = self._fleet
        if self.process is not None:
            return
        if not self.mood.lives_on:
            self._last = 0
        self.process = process = fleet.loop.spawn(f"{self.executor}.{fleet.counts['lives']}")
        fleet.counts["lives"] += 1
        process.call(self._begin)

    def die(self, why: str) -> None:
        """End the process, and begin another in a while."""
        if self.process is None:
            return
        self._fleet.note(self.executor, f"DIED {why}")
        self.process.kill()
        self.process = self.served = None
        self._fleet.calls.hang_up(self.executor)
        self._fleet.loop.after(self._rng.uniform(*self._fleet.options.down_s), self.start)

    def _begin(self) -> None:
        self._fleet.loop.create_task(self._live())

    async def _live(self) -> None:
        fleet = self._fleet
        caller = Caller(fleet.calls, self.executor, fleet.nodes, self._rng)
        site = Site(
            fleet.loop,
            self.executor,
            fleet.options,
            caller,
            self._rng,
            fleet.checker.runs,
            self.mood,
            self._dies,
            fleet.checker.complain,
        )
        while True:
            models = self._ready_at_first()
            self._last = await self._join(caller, models)
            self.mood.is_draining = self.mood.leaves = False
            self.served = Incarnation(site, self._last, models)
            fleet.counts["joins"] += 1
            fleet.note(self.executor, f"is {self._last}")
            await self.served.live()
            fleet.note(self.executor, f"is {self._last} no more")
            self.served = None

    def _dies(self, why: str) -> None:
        """Die of what it runs: after the callback, which is its own."""
        self._fleet.counts["killed"] += 1
        self._fleet.loop.after(0.0, self.die, why)

    def _ready_at_first(self) -> ModelIds:
        models = self._fleet.models
        return models if self._rng.random() < 0.7 else models[: len(models) // 2]

    async def _join(self, caller: Caller, models: ModelIds) -> int:
        """Ask until somebody lets it in."""
        join = r.Join(self.executor, self._last, self._fleet.options.slots, models, b"")
        while True:
            try:
                return await caller.ask("join", lambda api: api.join(join))
            except (RaftbatchError, Lost) as error:
                await asyncio.sleep(caller.wait_s(error) + 0.01)


class Executors:
    """See the module's docstring.

    Args:
        loop: of the run.
        calls: of the run.
        nodes: of the cluster.
        checker: told what runs.
        options: what executors are like.
        models: versions there are from the beginning.
        rng: all is drawn from it.
        note: told what happens to whom.

    Attributes:
        loop, calls, nodes, checker, options, models, note: as above.
        each: all executors, by id.
        counts: what befell them.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        calls: Calls[Api],
        nodes: Sequence[NodeId],
        checker: SchedulerChecker,
        options: Fleet,
        models: ModelIds,
        rng: Random,
        note: Callable[[str, str], None],
    ) -> None:
        self.loop = loop
        self.calls = calls
        self.nodes = nodes
        self.checker = checker
        self.options = options
        self.models = models
        self.note = note
        self.counts: Counter[str] = Counter(lives=0, joins=0, killed=0)
        self._rng = rng
        self._lasting: dict[int, Heal] = {}
        self._is_healed = False
        self.each = {
            name: SimExecutor(self, name, Random(f"{rng.random()} {name}"))
            for name in [f"gpu-{number}" for number in range(1, options.count + 1)]
        }

    def begin(self) -> None:
        """Start all."""
        for executor in self.each.values():
            executor.start()

    def strike(self) -> None:
        """Let things befall them from now on."""
        if self.options.faults:
            self._strike_later()
        if self.options.drains_per_s:
            self._drain_later()

    def heal(self) -> None:
        """Let nothing befall them any more, and be well who is not."""
        self._is_healed = True
        for number in list(self._lasting):
            self._end(number)
        for executor in self.each.values():
            mood = executor.mood
            mood.is_broken = mood.is_slow = mood.is_draining = mood.leaves = False
            mood.refuses, mood.hangs, mood.models = 0.0, 0, self.models
            executor.start()

    def put_models(self, models: ModelIds) -> None:
        """Let executors have other model versions ready in a while."""
        self.models = models
        self.loop.after(_CHANGE_S, self._change_models)

    def _change_models(self) -> None:
        for executor in self.each.values():
            executor.mood.models = self.models

    # What befalls them.

    def _strike_later(self) -> None:
        self.loop.after(self._rng.expovariate(self.options.faults_per_s), self._strike_one)

    def _strike_one(self) -> None:
        if self._is_healed:
            return
        names = list(self.options.faults)
        name = self._rng.choices(names, list(self.options.faults.values()))[0]
        executor = self._rng.choice(list(self.each.values()))
        self.counts[name] += 1
        self.note(executor.executor, f"STRUCK {name}")
        heal = self._befall(name, executor)
        if heal is not None:
            number = sum(self.counts.values())
            self._lasting[number] = heal
            self.loop.after(self._rng.uniform(*self.options.lasts_s), self._end, number)
        self._strike_later()

    def _end(self, number: int) -> None:
        heal = self._lasting.pop(number, None)
        if heal is not None:
            heal()

    def _befall(self, name: str, executor: SimExecutor) -> Heal | None:
        mood = executor.mood
        match name:
            case "crash":
                mood.lives_on = self._rng.random() < 0.5
                executor.die("crash")
            case "hang":
                mood.hangs += 1
            case "pause":
                return _paused(executor)
            case "cut" | "deafen":
                return self._cut(executor.executor, name == "cut")
            case "break":
                mood.is_broken = True
                return lambda: setattr(mood, "is_broken", False)
            case "refuse":
                mood.refuses = _REFUSAL
                return lambda: setattr(mood, "refuses", 0.0)
            case "slow":
                mood.is_slow = True
                return lambda: setattr(mood, "is_slow", False)
            case "astray":
                self.calls.reset(executor.executor)
        return None

    def _cut(self, executor: str, is_mute: bool) -> Heal:
        """Cut an executor off from some nodes, or all: it hears nothing, or it is not heard too."""
        count = self._rng.randint(1, len(self.nodes))
        nodes = self._rng.sample(self.nodes, count)
        ways = [(str(node), executor) for node in nodes]
        if is_mute:
            ways += [(executor, str(node)) for node in nodes]
        return self.calls.cut(ways)

    # Drains.

    def _drain_later(self) -> None:
        self.loop.after(self._rng.expovariate(self.options.drains_per_s), self._drain_one)

    def _drain_one(self) -> None:
        """Let one drain, and either go on after a while, or leave and come again."""
        if self._is_healed:
            return
        mood = self._rng.choice(list(self.each.values())).mood
        mood.is_draining = True
        mood.leaves = self._rng.random() < 0.5
        self.counts["drains"] += 1
        if not mood.leaves:
            lasts_s = self._rng.uniform(*self.options.lasts_s)
            self.loop.after(lasts_s, setattr, mood, "is_draining", False)
        self._drain_later()


def _paused(executor: SimExecutor) -> Heal | None:
    process = executor.process
    if process is None or process.paused:
        return None
    process.pause()

    def resume() -> None:
        if process.alive and process.paused:
            process.resume()

    return resume
