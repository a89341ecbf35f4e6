"""A run over real processes: a workload and nemeses in a safety phase, heal, a liveness phase.

    begin     the cluster is founded, executors join
    safety    clients do their work, nemeses theirs
    heal      all faults are undone, whoever is down is started
    liveness  requests are answered again, at once; clients go on, then end; all waits end
    judgement the nodes are stopped, and their files held against what clients saw

What lives here: this order, and the evidence that it gathers. What must never live here: a fault
(nemeses), what is asked for (workloads), a rule (checkers), the command line. Called by:
`chaos.__main__`, tests.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

from chaos.checkers.process_members import memberships
from chaos.checkers.process_values import Evidence, Finding
from chaos.checkers.processes import judge
from chaos.gathering import Watch, ends_of, evidence_of, idle
from chaos.history import History
from chaos.limits import Limits
from chaos.nemeses import NEMESES, Heal, Planned
from chaos.workloads import Workload
from chaos.workloads.scene import Caller, Scene
from chaos.worlds.owners import Unable
from chaos.worlds.processes import ProcessWorld
from raftbatch.client import AsyncClient, ClientOptions
from raftbatch.errors import CannotStart

READY_S = 120.0
"""How long a cluster may take to be founded."""

_CALLERS = 4
_HASTY = 2
_PATIENCE_S = 60.0
_HASTE_S = 1.5
_LOOK_S = 0.5
_CALM_S_MAX = 15.0
_STARTS_MAX = 4
_STEP_S = 0.2
_MORE_S_MAX = 30.0
_TELL_S = 5.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run.

    Attributes:
        workload: what clients do.
        strikes: what goes wrong, and when.
        time_s: length of the safety phase.
        seed: all else is drawn from it.
        width: how much is under way at one time.
        harms_executors: whether a strike makes batches fail that are well.
        stops_nodes: whether a strike makes nodes stop by themselves.
        limits: how long it waits for what may never come.
    """

    workload: Workload
    strikes: Sequence[Planned]
    time_s: float
    seed: int
    width: int = 16
    harms_executors: bool = False
    stops_nodes: bool = False
    limits: Limits = field(default_factory=Limits)


@dataclass(slots=True)
class Verdict:
    """What came of it.

    Attributes:
        findings: broken promises.
        counts: what came of all calls, and of strikes.
        figures: rates and times, for people.
    """

    findings: list[Finding]
    counts: Counter[str]
    figures: dict[str, float] = field(default_factory=dict)


class Run:
    """One run.

    Args:
        plan: what to run.
        world: where; made, and not started.
        history: that is written.
        runs: folder in which executors note what they run.
        say: told how it goes.
    """

    def __init__(
        self,
        plan: Plan,
        world: ProcessWorld,
        history: History,
        runs: Path | None,
        say: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._world = world
        self._history = history
        self._runs = runs
        self._say = say
        self._counts: Counter[str] = Counter()
        self._watch = Watch(world, history)
        self._heals: dict[int, Heal] = {}
        self._begin_ns = time.monotonic_ns()
        self._phase = "begin"
        self._failed: list[Finding] = []
        self._is_healed = False

    def play(self) -> Verdict:
        """Do all of it. All processes have ended then; the world is not closed.

        Raises:
            CannotStart: the cluster could not be founded: nothing was found out.
            Unable: the machine could not do a fault, or undo it: the same.
        """
        self._enter("begin")
        self._world.start()
        self._world.wait_ready(READY_S)
        self._say(f"{self._now_s():5.0f} s  the cluster is there")
        asyncio.run(self._phases())
        ends = ends_of(self._world)
        self._watch.is_over = True
        self._stop()
        self._enter("judgement")
        evidence = evidence_of(
            self._world,
            self._history,
            ends,
            self._runs,
            is_healed=self._is_healed,
            harms_executors=self._plan.harms_executors,
            died={} if self._plan.stops_nodes else self._watch.died,
        )
        found = memberships(evidence, self._world.nodes if self._is_healed else ())
        findings = [*self._failed, *judge(evidence), *found]
        return Verdict(findings, self._counts, self._figures(evidence))

    def _stop(self) -> None:
        """Stop all in good order: executors first, since they leave through the nodes."""
        for names in (self._world.executors, self._world.nodes):
            running = [name for name in names if self._world.is_alive(name)]
            with ThreadPoolExecutor(len(names)) as pool:
                for name, hangs in zip(running, pool.map(self._stop_one, running), strict=True):
                    if hangs:
                        self._failed.append(Finding("hangs", f"{name} does not stop: {hangs}"))

    def _stop_one(self, name: str) -> str:
        try:
            self._world.terminate(name, self._plan.limits.stop_s)
        except TimeoutError as error:
            self._world.kill(name)
            return str(error)
        return ""

    async def _phases(self) -> None:
        """Go through the phases."""
        plan, counts = self._plan, self._counts
        over, calm = asyncio.Event(), asyncio.Event()
        callers = [self._caller(f"c{n}", n, _PATIENCE_S) for n in range(1, _CALLERS + 1)]
        hasty = [self._caller(f"h{n}", n, _HASTE_S) for n in range(1, _HASTY + 1)]
        scene = Scene(
            self._world,
            self._history,
            callers,
            hasty,
            Random(plan.seed),
            counts,
            plan.width,
            over,
            calm,
            findings=self._failed,
            limits=plan.limits,
        )
        helpers = [asyncio.create_task(each) for each in (self._looks(), self._tells())]
        load = asyncio.ensure_future(plan.workload.run(scene))
        try:
            self._enter("safety")
            await self._safety(load, scene)
            self._enter("heal")
            calm.set()
            self._is_healed = await self._heal()
            scene.whole.set()
            if self._is_healed:
                self._enter("liveness")
                await self._alive(scene)
                over.set()
                await self._end(load)
        finally:
            over.set()
            load.cancel()
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(load, *helpers, return_exceptions=True)
            await asyncio.gather(*[each.close() for each in (*callers, *hasty)])

    def _caller(self, name: str, number: int, patience_s: float) -> Caller:
        # Each begins at another node, and learns of the others.
        addresses = list(self._world.addresses)
        turn = number % len(addresses)
        options = ClientOptions(patience_s=patience_s, acknowledges=False, tls=self._world.tls)
        client = AsyncClient(addresses[turn:] + addresses[:turn], options)
        return Caller(name, client, self._history, self._counts)

    async def _safety(self, load: asyncio.Future[None], scene: Scene) -> None:
        """Let strikes and their heals come at their times."""
        plan = self._plan
        due: list[tuple[float, int, bool]] = []
        for place, strike in enumerate(plan.strikes):
            due.append((strike.at_s, place, True))
            due.append((min(strike.at_s + strike.for_s, plan.time_s), place, False))
        due.append((plan.time_s, len(plan.strikes), False))
        began = time.monotonic()
        for at_s, place, begins in sorted(due):
            while (left_s := began + at_s - time.monotonic()) > 0 and not scene.enough.is_set():
                await asyncio.sleep(min(left_s, _STEP_S))
                if load.done():
                    await load
                    raise CannotStart("the workload ended before its time")
            if begins:
                await self._strike(place, plan.strikes[place])
            else:
                await self._undo(place)
        end, least = time.monotonic() + _MORE_S_MAX, plan.limits.outcomes_min
        while self._outcomes() < least and time.monotonic() < end:  # noqa: ASYNC110 - it is told by none
            await asyncio.sleep(_STEP_S)

    async def _strike(self, place: int, strike: Planned) -> None:
        try:
            self._heals[place] = await asyncio.to_thread(
                NEMESES[strike.name].act, self._world, Random(strike.seed)
            )
        except Unable:
            raise  # half done: neither a fault nor none, and what comes of it is nobody's fault
        except (CannotStart, OSError, LookupError) as error:
            # Whoever was to be struck is down already, or nobody leads.
            self._history.note("fault", name=strike.name, missed=str(error))
            self._counts["missed"] += 1
            return
        self._history.note("fault", name=strike.name, place=place)
        self._counts["faults"] += 1
        self._counts[f"fault {strike.name}"] += 1

    async def _undo(self, place: int) -> None:
        heal = self._heals.pop(place, None)
        if heal is None:
            return
        await asyncio.to_thread(heal)
        self._history.note("heal", name=self._plan.strikes[place].name, place=place)

    async def _heal(self) -> bool:
        """Undo all faults, start whoever is down, and wait until all are there; return whether."""
        for place in list(self._heals):
            await self._undo(place)
        began, world, heal_s = time.monotonic(), self._world, self._plan.limits.heal_s
        for left in reversed(range(_STARTS_MAX)):
            for name in world.everyone:
                if not world.is_alive(name):
                    await asyncio.to_thread(world.restart, name)
            try:
                await asyncio.to_thread(world.wait_ready, heal_s)
                break
            except CannotStart as error:
                if left and time.monotonic() - began < heal_s:
                    await asyncio.sleep(_STEP_S)  # one has ended, perhaps of what it had before
                    continue
                ends = [f"{name}: {how}" for name in world.everyone if (how := world.ending(name))]
                self._failed.append(Finding("not-healed", f"after all faults: {error}", None, ends))
                return False
        self._counts["heal_ms"] = int((time.monotonic() - began) * 1000)
        return True

    async def _alive(self, scene: Scene) -> None:
        """A fresh request is answered; then the workload goes on for a while, in calm."""
        began = time.monotonic()
        request_id = scene.new_id()
        try:
            async with asyncio.timeout(self._plan.limits.answers_s):
                end = await scene.callers[0].infer("echo", scene.text(request_id), request_id)
        except TimeoutError:
            end = None
        if end is None or end.kind != "ok":
            said = end.value if end is not None else "nothing"
            self._failed.append(
                Finding("not-alive", f"a request after the heal was answered by {said}")
            )
        self._counts["alive_ms"] = int((time.monotonic() - began) * 1000)
        calm_s = self._plan.limits.calm_s
        if not scene.enough.is_set():
            calm_s = max(self._plan.time_s / 5, calm_s)
        await asyncio.sleep(min(calm_s, _CALM_S_MAX))

    async def _end(self, load: asyncio.Future[None]) -> None:
        """Wait until the workload has ended and all is idle; what does not is told by checkers."""
        _, waiting = await asyncio.wait([load], timeout=self._plan.limits.answers_s)
        if not waiting:
            await load
        is_idle = await asyncio.to_thread(partial(idle, self._world, self._plan.limits.idle_s))
        self._history.note("phase", name="idle", is_idle=is_idle, is_answered=not waiting)

    # Beside.

    async def _looks(self) -> None:
        while True:
            await asyncio.to_thread(self._watch.look)
            await asyncio.sleep(_LOOK_S)

    async def _tells(self) -> None:
        before: Counter[str] = Counter()
        while True:
            await asyncio.sleep(_TELL_S)
            counts = Counter(self._counts)
            ended = self._outcomes()
            was = sum(before[f"outcome_{each}"] for each in ("ok", "failed", "expired"))
            faults = ", ".join(self._plan.strikes[place].name for place in sorted(self._heals))
            self._say(
                f"{self._now_s():5.0f} s  {self._phase:9} {ended:6} outcomes, "
                f"{(ended - was) / _TELL_S:5.0f}/s, leader {self._watch.leader or '?'}"
                f"{f'  [{faults}]' if faults else ''}"
            )
            before = counts

    def _outcomes(self) -> int:
        return sum(self._counts[f"outcome_{each}"] for each in ("ok", "failed", "expired"))

    def _now_s(self) -> float:
        return (time.monotonic_ns() - self._begin_ns) / 1e9

    def _enter(self, phase: str) -> None:
        self._phase = phase
        self._history.note("phase", name=phase)

    def _figures(self, evidence: Evidence) -> dict[str, float]:
        counts = self._counts
        return {
            "outcomes": self._outcomes(),
            "heal_s": counts["heal_ms"] / 1000,
            "alive_s": counts["alive_ms"] / 1000,
            "entries": evidence.committed,
            "terms": max((each.term for each in evidence.ends.values()), default=0),
        }
