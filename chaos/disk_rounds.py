"""Disks that lose power, fail and fill up under a whole cluster that works, again and again.

    python -m chaos.disk_rounds --seed 7 --rounds 100 --kinds power          (as root)

Clients submit all the while. Each round one disk, a majority of them or all suffer something at a
moment that is drawn; whoever ends by it is started again, and before that its files are read:

- what a client holds a ticket of is on the disks of a majority;
- what the leader believed to be durable on a node is on that node's disk;
- a node that ends by itself says which file it is about, and no traceback;
- all that ended start again, and apply what was acknowledged before;
- a disk that takes no writes for a while ends nobody.

In the end all replicas are equal, and the whole history is judged as that of any run
(`chaos.checkers`). Exit status 1: a promise broke; 2: nothing could run.

What lives here: the rounds and what must hold of each. What must never live here: how a disk does
it (`chaos.worlds`), what must hold of answers (`chaos.checkers`). Called by: a person, tests.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

from chaos.checkers.process_logs import read_log
from chaos.checkers.process_values import Finding
from chaos.checkers.processes import judge
from chaos.gathering import Watch, ends_of, evidence_of, idle
from chaos.history import History
from chaos.workloads import WORKLOADS
from chaos.workloads.scene import Caller, Scene
from chaos.worlds.mounts import missing
from chaos.worlds.preloaded import Faults
from chaos.worlds.processes import ProcessWorld
from raftbatch.client import AsyncClient, ClientOptions
from raftbatch.errors import CannotStart
from raftbatch.realworld import RealWorld

CONFIG = Path(__file__).parents[1] / "cluster_configs" / "chaos-3.toml"
KINDS = ("power", "kill-in-sync", "sync-fails", "write-fails", "write-no-space")
LIMIT_S = 300.0
"""Nothing takes so long, on a machine however busy."""

_DISK_BYTES = 1 << 30  # what is not written takes nothing
_WIDTH = 2
_CALLERS = 3
_OUTCOMES_MAX = 40  # between two rounds
_SYNCS_MAX = 30  # that are done before the one
_FAILURES_MAX = 10  # of each thread of a node one, and a few that were under way
_PAUSE_S = 0.05


class Broken(Exception):
    """What must hold does not."""


@dataclass
class Rounds:
    """A cluster, its clients, and what was found.

    Args:
        world: the cluster, with disks that can lose their power.
        history: of its clients.
        seed: draws the rounds.
        kinds: of them, of `KINDS`: each in turn.
        say: told of each round.

    Attributes:
        findings: promises that broke.
        counts: what happened.
    """

    world: ProcessWorld
    history: History
    seed: int
    kinds: Sequence[str]
    say: Callable[[str], None]
    findings: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._real = RealWorld()
        self._watch = Watch(self.world, self.history)
        self._seen = self._newest = 0  # events looked at, and the highest index of a ticket in them

    def play(self, count: int) -> None:
        """Play so many rounds, or until a promise breaks, and judge all of it."""
        world = self.world
        world.start()
        world.wait_ready(LIMIT_S)
        try:
            asyncio.run(self._play(count))
            ends = ends_of(world)
        except (Broken, CannotStart, TimeoutError) as error:
            self.findings.append(Finding("disk", str(error)))
            return
        world.stop()
        harmed = {"is_healed": True, "harms_executors": False}
        evidence = evidence_of(world, self.history, ends, None, died={}, **harmed)
        self.findings += judge(evidence)
        self.counts["entries"] = evidence.committed

    async def _play(self, count: int) -> None:
        over, calm = asyncio.Event(), asyncio.Event()
        addresses = list(self.world.addresses)
        callers = []
        for number in range(_CALLERS):
            turn = number % len(addresses)
            options = ClientOptions(patience_s=LIMIT_S, acknowledges=False)
            client = AsyncClient(addresses[turn:] + addresses[:turn], options)
            callers.append(Caller(f"c{number}", client, self.history, self.counts))
        rng = Random(f"{self.seed} clients")
        scene = Scene(
            self.world, self.history, callers, callers, rng, self.counts, _WIDTH, over, calm
        )
        load = asyncio.ensure_future(WORKLOADS["submit"].run(scene))
        try:
            for number in range(1, count + 1):
                kind = self.kinds[(number - 1) % len(self.kinds)]
                await self._round(number, kind, Random(f"{self.seed} round {number}"), load)
            over.set()
            await asyncio.wait_for(load, LIMIT_S)
            if not await asyncio.to_thread(idle, self.world, LIMIT_S):
                raise Broken("in the end not all replicas are equal and idle")
        finally:
            over.set()
            load.cancel()
            await asyncio.gather(load, return_exceptions=True)
            await asyncio.gather(*[each.close() for each in callers])

    async def _round(self, number: int, kind: str, rng: Random, load: asyncio.Future[None]) -> None:
        """Let clients get some answers, do it, and look what is left."""
        due = self._outcomes() + rng.randint(1, _OUTCOMES_MAX)
        end_s = time.monotonic() + LIMIT_S
        while self._outcomes() < due:
            if load.done():
                await load
            if time.monotonic() > end_s:
                raise Broken(f"before round {number} clients get no answers")
            await asyncio.sleep(_PAUSE_S)
        begun_s = time.monotonic()
        what = await asyncio.to_thread(self._do, kind, rng)
        took_s = time.monotonic() - begun_s
        self.counts[f"rounds {kind}"] += 1
        self.say(f"round {number}: {kind} of {what}; {self._acknowledged()} kept; {took_s:.1f} s")

    def _outcomes(self) -> int:
        return self.counts["outcome_ok"]

    def _acknowledged(self) -> int:
        """Return the highest index of which a client holds a ticket, or an outcome, by now."""
        events = self.history.events
        while self._seen < len(events):
            event = events[self._seen]
            self._seen += 1
            if event.kind == "ok":
                value = event.value
                newest = value.get("ended_index", value.get("index", 0))
                self._newest = max(self._newest, int(newest))
        return self._newest

    # Rounds.

    def _do(self, kind: str, rng: Random) -> str:
        world = self.world
        self._watch.look()  # what was committed by then is judged in the end
        nodes, skip = world.nodes, rng.randint(0, _SYNCS_MAX)
        if kind == "power":
            hit = rng.sample(nodes, _sizes(len(nodes))[self.counts["rounds power"] % 3])
            before = self._believed()
            acknowledged = self._acknowledged()
            world.power_loss(hit)
        else:
            hit = [rng.choice(nodes)]
            world.preloads[hit[0]].tell(_faults(kind, skip))
            if kind == "write-no-space":
                self._endures(hit[0])
                return f"{hit[0]}, after {skip}"
            self._ends(hit[0], kind)
            before, acknowledged = {}, 0  # it went on until then: what it has is read as it is
        self._look_at_disks(hit, before, acknowledged)
        for node in hit:
            world.preloads[node].tell(Faults())
            world.restart(node)
        self._wait_for_all(self._acknowledged())
        return ", ".join(hit) if kind == "power" else f"{hit[0]}, after {skip}"

    def _believed(self) -> dict[str, int]:
        """Return what the leader knows to be durable on each other node, and on itself by then."""
        found = self.world.statuses()
        leading = [each for each in found.values() if each.role == "leader"]
        if not leading:
            return {}
        newest = max(leading, key=lambda each: each.term)
        return {
            each.node_id: each.progress.match
            for each in newest.members
            if each.HasField("progress")
        }

    def _ends(self, node: str, kind: str) -> None:
        """Wait until a node has ended of a fault, and look how."""
        world = self.world

        def alive() -> str:
            told = world.preloads[node].told()
            if min(told.sync_skip, told.write_skip) < -_FAILURES_MAX:
                raise Broken(f"{node} goes on writing to a disk that fails")
            return f"the end of {node}" if world.is_alive(node) else ""

        world.wait_until(alive, LIMIT_S)
        if kind == "kill-in-sync":
            return
        said = world.ending(node)
        last = said.splitlines()[-1]
        if not said.startswith("exit status 1;") or not last.startswith("Error: "):
            raise Broken(f"{node} does not say why it ended: {said}")
        if str(world.data_dir(node).relative_to(world.directory)) not in last:
            raise Broken(f"{node} does not name the file that it is about: {last}")
        if "Traceback" in said:
            raise Broken(f"{node} ended with a traceback: {said}")

    def _endures(self, node: str) -> None:
        """Wait until a node was refused a write for want of room; then there is room again."""
        world, preload = self.world, self.world.preloads[node]

        def unmet() -> str:
            if not world.is_alive(node):
                raise Broken(f"{node} ended for want of room: {world.ending(node)}")
            return "" if preload.told().write_skip < 0 else f"a write of {node}"

        world.wait_until(unmet, LIMIT_S)
        preload.tell(Faults())
        self._wait_for_all(self._acknowledged())
        unmet()

    def _look_at_disks(
        self, hit: Sequence[str], believed: dict[str, int], acknowledged: int
    ) -> None:
        """Hold what is on the disks of nodes that have ended against what was said."""
        lacking = []
        for node in hit:
            log = read_log(self._real, str(self.world.data_dir(node)))
            if log.refusal:
                raise Broken(f"the files of {node} are damaged: {log.refusal}")
            if log.last_index < believed.get(node, 0):
                raise Broken(
                    f"{node} has said that it holds {believed[node]}, and holds {log.last_index}"
                )
            if log.last_index < acknowledged:
                lacking.append(f"{node} ends with {log.last_index}")
            self.counts["logs read"] += 1
        if len(lacking) > (len(self.world.nodes) - 1) // 2:
            raise Broken(f"{acknowledged} was acknowledged, but {', '.join(lacking)}")

    def _wait_for_all(self, acknowledged: int) -> None:
        """Wait until all nodes serve, and have applied what was acknowledged."""
        world = self.world

        def late() -> str:
            for node in world.nodes:
                if not world.is_alive(node):
                    raise Broken(f"{node} does not start again: {world.ending(node)}")
            found = world.statuses()
            behind = [
                f"{node} at {found[node].applied if node in found else '?'}"
                for node in world.nodes
                if node not in found or found[node].applied < acknowledged
            ]
            return f"{acknowledged} on all: {', '.join(behind)}" if behind else ""

        world.wait_until(late, LIMIT_S)


def _sizes(count: int) -> tuple[int, int, int]:
    """Return how many of so many nodes lose their power, in turn: one, a majority, all."""
    return 1, count // 2 + 1, count


def _faults(kind: str, skip: int) -> Faults:
    match kind:
        case "kill-in-sync":
            return Faults(sync_kills=1, sync_skip=skip)
        case "sync-fails":
            return Faults(sync_errno=errno.EIO, sync_skip=skip)
        case "write-fails":
            return Faults(write_errno=errno.EIO, write_skip=skip)
        case _:
            return Faults(write_errno=errno.ENOSPC, write_skip=skip)


def run(
    folder: Path,
    seed: int,
    count: int,
    kinds: Sequence[str] = KINDS,
    *,
    broken: str = "",
    say: Callable[[str], None] = print,
) -> Rounds:
    """Play rounds on a cluster of its own; return them, with what was found.

    Args:
        folder: for its files.
        seed: draws all of it.
        count: how many.
        kinds: of `KINDS`.
        broken: a known bug of the product, see `chaos.broken`.
        say: told of each round.

    Raises:
        CannotStart: the cluster could not be founded.
        OSError: the disks could not be made.
    """
    program = ("chaos.broken", broken) if broken else ("raftbatch.local.child",)
    with (
        History(folder / "history.jsonl") as history,
        ProcessWorld(
            folder,
            CONFIG,
            seed=seed,
            network=False,
            disks="loop",
            disk_bytes=_DISK_BYTES,
            executors=1,
            program=program,
        ) as world,
    ):
        rounds = Rounds(world, history, seed, kinds, say)
        rounds.play(count)
        return rounds


def main() -> int:
    """Play in a folder that goes, unless something was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--kinds", default=",".join(KINDS), help="by commas; each in turn")
    parser.add_argument("--broken", default="", help="a known bug: see `python -m chaos list`")
    asked = parser.parse_args()
    kinds = tuple(asked.kinds.split(","))
    if not set(kinds) <= set(KINDS):
        parser.error(f"kinds are {', '.join(KINDS)}")
    if why := missing():
        parser.error(f"disks cannot be made here: {why}")
    print(f"seed {asked.seed}", flush=True)
    begun_s = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="raftbatch-disks-"))
    try:
        rounds = run(
            folder,
            asked.seed,
            asked.rounds,
            kinds,
            broken=asked.broken,
            say=partial(print, flush=True),
        )
    except (CannotStart, OSError) as error:
        print(f"Error: {error}", file=sys.stderr)
        shutil.rmtree(folder)
        return 2
    for finding in rounds.findings:
        print(f"\n{finding}")
    told = {
        "seed": asked.seed,
        "rounds": asked.rounds,
        "violations": len(rounds.findings),
        "seconds": int(time.monotonic() - begun_s),
        **dict(sorted(rounds.counts.items())),
    }
    print(json.dumps(told))
    if rounds.findings:
        print(f"logs and history are in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
