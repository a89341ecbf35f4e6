"""What the demo does, in its order: start, ask, kill, kill, restart, go on, count, show.

What lives here: the acts. What must never live here: what counts as wrong (`audit`), wording of
results (`report`). Called by: `__main__`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coordinator.offline import read_directory
from demo import report
from demo.audit import Seen, Told, Verdict, audit, fold
from demo.screen import Screen
from demo.search import cosines, nearest
from demo.sentences import Sentence
from demo.traffic import MODEL, Probe, Traffic, place_of
from executor.examples.embedder import Embedder
from executor.model import Context
from raftbatch.client import AsyncClient, ClientOptions
from raftbatch.errors import CannotStart
from raftbatch.local import LocalCluster
from raftbatch.realworld import RealWorld

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "cluster_configs" / "local-3.toml"
MODELS = Path(__file__).with_name("models.toml")

KILL_LEADER, KILL_EXECUTOR, RESTART = 0.25, 0.45, 0.6
"""After which share of the answers."""

QUESTIONS = (
    "How do I catch an error?",
    "What runs when an object is destroyed?",
    "How do I make my own container?",
)

_IN_FLIGHT_MAX = 256
_SAMPLE = 64
_HITS = 3
_LOOK_S = 0.1
_READY_S = 120.0
_TRAFFIC_S = 300.0  # some ten times what two cores need
_CAUGHT_UP_S = 20.0
_STOP_S = 15.0


@dataclass(frozen=True, slots=True)
class Settings:
    """What the demo is told.

    Attributes:
        corpus: what to embed.
        directory: a temporary one.
        keeps: whether the cluster stays up afterwards.
    """

    corpus: Sequence[Sentence]
    directory: Path
    keeps: bool


class Scenario:
    """One run of the demo.

    Args:
        settings: what it is told.
        screen: where to show it.
        now: a clock, in seconds.
    """

    def __init__(self, settings: Settings, screen: Screen, now: Callable[[], float]) -> None:
        self._settings = settings
        self._screen = screen
        self._now = now
        self._texts = [each.text for each in settings.corpus]
        self._seen = Seen()
        self._cluster = LocalCluster(
            settings.directory, config=configuration(settings.directory), executors=2
        )

    async def run(self) -> Verdict:
        """Do it, and return what came of it. The cluster is left as it is: see `close`.

        Raises:
            CannotStart: a process did not start, or did not come back.
        """
        await self._start()
        options = ClientOptions(patience_s=_READY_S)
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(AsyncClient(self._cluster.addresses, options))
            vectors = await self._embed(client)
            answers = await self._ask(client)
        await self._ready()
        similarities = await self._compare(vectors)
        survivor = next(each for each in self._cluster.nodes if each != self._seen.leader)
        told = await self._count(survivor)
        verdict = audit(told, self._seen, similarities, MODEL)
        self._show(verdict, survivor, vectors, answers)
        if self._settings.keeps:
            self._cluster.restart(survivor)
            await self._ready()
            self._say_what_to_look_at(verdict, survivor)
        return verdict

    def close(self) -> None:
        """End all processes. Harmless when repeated."""
        self._cluster.close(_STOP_S)

    async def _start(self) -> None:
        cluster = self._cluster
        nodes, executors = report.joined(cluster.nodes), report.joined(cluster.executors)
        self._screen.say(f"start coordinators {nodes}, executors {executors}")
        await asyncio.to_thread(cluster.start)
        await self._ready()
        leader = await asyncio.to_thread(cluster.leader)
        self._screen.say(f"{leader} leads; each executor has loaded all-MiniLM-L6-v2")

    async def _embed(self, client: AsyncClient) -> dict[int, Any]:
        """Have all sentences embedded, and kill meanwhile; return the vectors by place."""
        count = len(self._texts)
        in_flight = max(1, min(_IN_FLIGHT_MAX, count // 4))
        self._screen.say(f"embed {count:,} sentences of Python's reference, {in_flight} in flight")
        with self._screen.progress("sentences", count) as advance:
            traffic = Traffic(client, self._texts, in_flight, self._now, self._seen, advance)
            probe = Probe(client, self._now, self._seen)
            try:
                async with asyncio.timeout(_TRAFFIC_S), asyncio.TaskGroup() as group:
                    group.create_task(traffic.run())
                    group.create_task(self._kill(traffic, probe))
            except TimeoutError:
                said = f"{traffic.done:,} of {count:,} sentences are done after {_TRAFFIC_S:.0f} s"
                raise TimeoutError(said) from None
        self._screen.say(f"all {count:,} are done")
        await probe.outcomes()
        return traffic.vectors

    async def _kill(self, traffic: Traffic, probe: Probe) -> None:
        cluster, seen, screen = self._cluster, self._seen, self._screen
        await traffic.reached(KILL_LEADER)
        begun = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            probing = group.create_task(probe.until_told(begun))
            await begun.wait()
            leader = await asyncio.to_thread(cluster.leader)
            seen.leader, seen.in_flight = leader, traffic.in_flight
            known = [each.entry for each in seen.answers.values()]
            seen.entry_known = max([*known, *[index for _, index in seen.tickets]])
            seen.leader_killed_s = self._now()
            await asyncio.to_thread(cluster.kill, leader)
            waiting = report.plural(len(seen.in_flight), "sentence")
            screen.say(f"SIGKILL {leader}, the leader, with {waiting} in flight", "bold red")
            await probing
        screen.say("requests are committed again")
        await traffic.reached(KILL_EXECUTOR)
        seen.executor, seen.executor_killed_s = cluster.executors[0], self._now()
        await asyncio.to_thread(cluster.kill, seen.executor)
        screen.say(f"SIGKILL {seen.executor}, an executor, and what it was running", "bold red")
        await traffic.reached(RESTART)
        seen.restarted_s = self._now()
        for name in (leader, seen.executor):
            await asyncio.to_thread(cluster.restart, name)
        screen.say(f"start {leader} and {seen.executor} again", "bold green")

    async def _ask(self, client: AsyncClient) -> list[Any]:
        """Return the vectors of the questions."""
        found = []
        for number, question in enumerate(QUESTIONS):
            name = f"question-{number}"
            self._seen.asked.add(name)
            result = await client.infer(MODEL, question, request_id=name)
            found.append(result.value)
        return found

    async def _compare(self, vectors: dict[int, Any]) -> list[float]:
        """Return the cosines of a sample to what the model gives here, without the cluster."""
        places = sorted(vectors)[:: max(1, len(vectors) // _SAMPLE)]
        self._screen.say(f"run the model on {len(places)} of the sentences, without the cluster")
        if not places:
            return []
        texts = [self._texts[place] for place in places]
        direct = await asyncio.to_thread(run_directly, texts)
        return cosines(np.stack([vectors[place] for place in places]), direct)

    async def _count(self, survivor: str) -> Told:
        """Stop a node that was not killed, and return what its log tells."""
        await self._caught_up(survivor)
        self._screen.say(f"stop {survivor}, and count in its log")
        await asyncio.to_thread(self._cluster.terminate, survivor, _STOP_S)
        return await asyncio.to_thread(told_by, self._cluster.data_dir(survivor))

    async def _caught_up(self, survivor: str) -> None:
        """Wait until a node has applied what any has applied by now."""
        statuses = await asyncio.to_thread(self._cluster.statuses)
        wanted = max([each.applied for each in statuses.values()], default=0)

        async def caught_up() -> str:
            found = await asyncio.to_thread(self._cluster.statuses)
            is_there = survivor in found and found[survivor].applied >= wanted
            return "" if is_there else f"{survivor} has not applied entry {wanted}"

        await self._wait(caught_up, _CAUGHT_UP_S)

    async def _ready(self) -> None:
        """Wait until all processes are there."""

        async def missing() -> str:
            return await asyncio.to_thread(self._cluster.missing)

        await self._wait(missing, _READY_S)

    async def _wait(self, missing: Callable[[], Any], limit_s: float) -> None:
        """Wait, in short looks: whoever interrupts the demo does not wait for it."""
        end_s = self._now() + limit_s
        while what := await missing():
            if self._now() > end_s:
                raise CannotStart(f"not ready after {limit_s:.0f} s: {what}")
            await asyncio.sleep(_LOOK_S)

    def _show(
        self, verdict: Verdict, survivor: str, vectors: dict[int, Any], answers: list[Any]
    ) -> None:
        lines = self._screen.lines
        lines()
        lines(report.counted(verdict, self._seen, survivor))
        lines()
        shown = verdict.shown
        text = self._texts[place_of(shown.request_id)] if shown is not None else ""
        lines(report.story(shown, verdict, self._seen, text))
        lines()
        lines(["What the vectors are good for: the sentences that are nearest to a question."])
        places = sorted(vectors)
        if places:
            rows = np.stack([vectors[place] for place in places])
            corpus = [self._settings.corpus[place] for place in places]
            for question, vector in zip(QUESTIONS, answers, strict=True):
                lines(report.found(question, nearest(vector, rows, _HITS), corpus))
        lines()
        if verdict.problems:
            lines(report.problems(verdict), "bold red")

    def _say_what_to_look_at(self, verdict: Verdict, survivor: str) -> None:
        cluster = self._cluster
        example = verdict.shown.request_id if verdict.shown is not None else "sentence-00000"
        logs = str(cluster.log_file(survivor).parent)
        self._screen.lines(report.look_around(str(cluster.config), survivor, example, logs))
        self._screen.lines()


def configuration(directory: Path) -> Path:
    """Write the configuration of the repository's example with the embedder in it."""
    path = directory / "demo.toml"
    path.write_text(CONFIG.read_text("utf-8") + MODELS.read_text("utf-8"), "utf-8")
    return path


def run_directly(texts: list[str]) -> Any:
    """Return the model's vectors, `[rows, width]`, from the same class in this process."""
    import torch

    torch.set_num_threads(os.cpu_count() or 1)
    model = Embedder()
    with torch.inference_mode():
        model.load(Context(MODEL, "1", "cpu", 0, 1, "", {}))
        return model.embed(texts).numpy()


def told_by(directory: Path) -> Told:
    """Return what the log in a data directory tells."""
    log = read_directory(RealWorld(), str(directory))
    return fold(log, log.first_index)
