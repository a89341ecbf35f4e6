"""Damage to a stopped node's files, under the whole program: it starts whole, or says why not.

    python -m chaos.disk_damage --seed 7 --samples 500

A cluster works for a moment and is killed. Then, for each sample, one node's directory is put back
as it was, one file of it is cut at a drawn place or has a drawn bit flipped, and the node is
started, alone. Either it ends at once, with a line that names the file and the offset and no
traceback; or it serves the state that it had, and its log has every entry that it had, byte by
byte, and no other. Now and then the whole cluster is started, one node damaged: then all come to
the same state, or the damaged one refuses.

Every kind of file is damaged: segments of the journal, its mark, snapshots, the note of log time,
the lock; and the note of a first start, of a node that was not born yet.

What lives here: that. What must never live here: how files are laid out. Called by: a person,
tests. Linux only.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

import grpc

from chaos.damaged_files import Broken, Damage, difference, draw, kind_of, read_kept
from chaos.worlds.forked import Forked, Forks
from chaos.worlds.processes import ProcessWorld
from coordinator.note import NAME as FOUNDING
from coordinator.note import Note
from coordinator.note import encode as encode_note
from coordinator.raft.membership import Member, Membership, Rank
from coordinator.raft.snapshot_format import parse_name
from coordinator.time_note import NAME as LOG_TIME
from coordinator.time_note import encode as encode_time
from raftbatch.client import Client, ClientOptions
from raftbatch.ids import NodeId
from raftbatch.realworld import RealWorld
from raftbatch.v1.admin_pb2 import StatusReply, StatusRequest
from raftbatch.v1.admin_pb2_grpc import AdminStub

CONFIG = Path(__file__).parents[1] / "cluster_configs" / "chaos-3.toml"
LIMIT_S = 60.0
"""Nothing takes so long, on a machine however busy."""

_HIT = "n3"
_SMALL = {
    "segment_bytes = 4_194_304": "segment_bytes = 65_536",
    "log_retention_bytes = 1_073_741_824": "log_retention_bytes = 1_048_576",
    "snapshot_bytes_min = 1_048_576": "snapshot_bytes_min = 65_536\nstagger_bytes = 1_024",
}
"""Of the configuration: so that a few requests make many segments, and snapshots."""
_REQUESTS = 150
_FILLER_BYTES = 1500
_LOOK_S = 0.05
_STARTED = '"event": "node.started"'
_TOGETHER_EVERY = 25  # samples for one of the whole cluster


@dataclass
class Damages:
    """A cluster that was killed, and what starts on its files.

    Args:
        folder: of all of it; the copies of the directories are there.
        world: whose processes have ended.
        forks: starts others.
        seed: draws the damage.
        say: told of what came of it.
        kinds: of files that are damaged; none: all.

    Attributes:
        found: broken promises, in words.
        counts: what came of how many.
    """

    folder: Path
    world: ProcessWorld
    forks: Forks
    seed: int
    say: Callable[[str], None]
    kinds: Sequence[str] = ()
    found: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._real = RealWorld()
        for node in self.world.nodes:
            shutil.copytree(self.world.data_dir(node), self._copy(node))
        self._addresses = dict(zip(self.world.nodes, self.world.addresses, strict=True))
        self._kept = read_kept(self._real, self._copy(_HIT))
        copy = self._copy(_HIT)
        self._files = {
            str(path.relative_to(copy)): path for path in sorted(copy.rglob("*")) if path.is_file()
        }
        if self.kinds:
            self._files = {x: y for x, y in self._files.items() if kind_of(x) in self.kinds}

        names = (path.name for path in copy.rglob("snapshot-*"))
        self._snapshot = max((found[0] for name in names if (found := parse_name(name))), default=0)

    def play(self, count: int) -> None:
        """Try so many, the intact directory first; or until a promise breaks."""
        self._put_back([_HIT])
        node = self._start(_HIT)
        if (status := node.wait_for(_STARTED, LIMIT_S)) is not None:
            raise Broken(f"the intact node ends with {status}: {node.said}")
        self._state = self._state_of(node)
        node.kill()
        for number in range(count):
            rng = Random(f"{self.seed} sample {number}")
            damage = draw(rng, self._files)
            together = number % _TOGETHER_EVERY == _TOGETHER_EVERY - 1
            try:
                came = (self._together if together else self._alone)(damage)
            except (Broken, TimeoutError) as error:
                self.found.append(f"sample {number}, {damage}: {error}")
                self.say(self.found[-1])
                return
            self.counts[f"{kind_of(damage.name)} {came}"] += 1
            self.counts[came] += 1
        for at in (0, 1, 40, 100):
            self._unborn(at)

    # One node.

    def _alone(self, damage: Damage) -> str:
        """Start the damaged node alone; return what came of it."""
        self._put_back([_HIT])
        damage.do(self.world.data_dir(_HIT))
        node = self._start(_HIT)
        status = node.wait_for(_STARTED, LIMIT_S)
        if status is not None:
            self._check_refusal(node.said, status, damage)
            return "refused"
        state = self._state_of(node)
        node.kill()
        if state != self._state:
            raise Broken(f"it serves {state}, and had {self._state}")
        kept = read_kept(self._real, self.world.data_dir(_HIT))
        if kept.entries != self._kept.entries:
            raise Broken(difference(self._kept, kept))
        if kept.hard_state != self._kept.hard_state:
            raise Broken(f"it is in {kept.hard_state}, and was in {self._kept.hard_state}")
        return "whole"

    def _check_refusal(self, said: str, status: int, damage: Damage) -> None:
        last = said.splitlines()[-1] if said else ""
        if status != 1 or not last.startswith("Error: ") or "Traceback" in said:
            raise Broken(f"it ended with {status}: {said}")
        if damage.name not in last or " at offset " not in last:
            raise Broken(f"it names neither file nor offset: {last}")

    def _unborn(self, at: int) -> None:
        """Start a node that had noted its first start, and no more; the note is damaged."""
        directory = self.world.data_dir(_HIT)
        shutil.rmtree(directory)
        directory.mkdir()
        members = [Member(NodeId(node), 1, "127.0.0.1:1", Rank.VOTER) for node in self.world.nodes]
        note = Note(NodeId(_HIT), Membership(tuple(members)), bytes(range(16)))
        path = directory / FOUNDING
        path.write_bytes(encode_note(note))
        damage = Damage(FOUNDING, at, at % 8)
        damage.do(directory)
        node = self._start(_HIT, "--bootstrap")
        try:
            status = node.wait_for("founding.begun", LIMIT_S)
            if status is None:
                raise Broken("it goes on with it")
            self._check_refusal(node.said, status, damage)
        except (Broken, TimeoutError) as error:
            self.found.append(f"{damage}: {error}")
            self.say(self.found[-1])
        self.counts["founding refused"] += 1

    # All nodes.

    def _together(self, damage: Damage) -> str:
        """Start all, one damaged: it refuses, or all come to the same state."""
        nodes = self.world.nodes
        self._put_back(nodes)
        damage.do(self.world.data_dir(_HIT))
        processes = {node: self._start(node) for node in nodes}
        try:
            status = processes[_HIT].wait_for(_STARTED, LIMIT_S)
            if status is not None:
                self._check_refusal(processes[_HIT].said, status, damage)
            serving = [node for node in nodes if node != _HIT or status is None]
            options = ClientOptions(patience_s=LIMIT_S)
            with Client([self._addresses[node] for node in serving], options) as client:
                ticket = client.submit("echo", "fresh|ok|")
            self._wait_for_equal(serving, processes, ticket.index)
            return "together" if status is None else "refused"
        finally:
            for process in processes.values():
                process.kill()

    def _wait_for_equal(
        self, nodes: list[str], processes: Mapping[str, Forked], index: int
    ) -> None:
        end_s = time.monotonic() + LIMIT_S
        while True:
            found = {node: self._status(node) for node in nodes}
            for node in nodes:
                if processes[node].status is not None:
                    raise Broken(f"{node} has ended: {processes[node].said}")
            states = {(each.applied, each.digest) for each in found.values() if each is not None}
            applied = {applied for applied, _ in states}
            if len(applied) == 1 and min(applied) >= index and None not in found.values():
                if len(states) > 1:
                    raise Broken(f"nodes applied the same and differ: {states}")
                return
            if time.monotonic() > end_s:
                raise Broken(f"they do not come to the same: {states}")
            time.sleep(_LOOK_S)

    # Files and processes.

    def _copy(self, node: str) -> Path:
        return self.folder / "copies" / node

    def _put_back(self, nodes: list[str] | tuple[str, ...]) -> None:
        for node in nodes:
            shutil.rmtree(self.world.data_dir(node))
            shutil.copytree(self._copy(node), self.world.data_dir(node))

    def _start(self, node: str, *flags: str) -> Forked:
        return self.forks.start(
            ["serve", "--node", node, "--config", str(self.world.config), *flags]
        )

    def _status(self, node: str) -> StatusReply | None:
        try:
            with grpc.insecure_channel(self._addresses[node]) as channel:
                reply: StatusReply = AdminStub(channel).Status(StatusRequest(), timeout=5.0)
                return reply
        except grpc.RpcError:
            return None

    def _state_of(self, node: Forked) -> tuple[int, bytes]:
        """Return what a node has applied that can commit nothing: what its snapshot holds."""
        end_s = time.monotonic() + LIMIT_S
        while (status := self._status(_HIT)) is None or status.applied < self._snapshot:
            if node.status is not None:
                raise Broken(f"it ends once it has started: {node.said}")
            if time.monotonic() > end_s:
                raise Broken(f"it does not come to serve {self._snapshot}: {status}")
            time.sleep(_LOOK_S)
        return status.applied, status.digest


def _note_log_time(world: ProcessWorld) -> None:
    """Write the note that a node writes every ten seconds, where it did not live so long."""
    for node in world.nodes:
        path = world.data_dir(node) / LOG_TIME
        wall_ms = time.time_ns() // 1_000_000
        path.write_bytes(encode_time(wall_ms, 1).ljust(512, b"\0") + encode_time(wall_ms, 2))


def run(
    folder: Path,
    seed: int,
    count: int,
    *,
    broken: str = "",
    kinds: Sequence[str] = (),
    say: Callable[[str], None] = print,
) -> Damages:
    """Let a cluster work, kill it, and damage its files so often; return what came of it.

    Args:
        folder: for all files.
        seed: draws the damage.
        count: how often.
        broken: a known bug of the nodes that start on damaged files, see `chaos.broken`.
        kinds: of files that are damaged; none: all.
        say: told of what broke.

    Raises:
        CannotStart: the cluster could not be founded.
        Broken: it does not start on intact files.
    """
    text = CONFIG.read_text("utf-8").replace('"../', f'"{CONFIG.parents[1]}/')
    for old, new in _SMALL.items():
        assert old in text, old
        text = text.replace(old, new)
    config = folder / "small.toml"
    config.write_text(text, "utf-8")
    with ProcessWorld(folder / "world", config, seed=seed, network=False, executors=1) as world:
        world.start()
        with Forks(folder / "forks", broken) as forks:
            world.wait_ready(LIMIT_S)
            with Client(world.addresses) as client:
                texts = [f"{n}|ok|{'.' * (_FILLER_BYTES + n)}" for n in range(_REQUESTS)]
                for each in [client.submit("echo", text) for text in texts]:
                    client.ticket(each.request_id, each.index).result()
            for name in world.everyone:
                world.kill(name)
            _note_log_time(world)
            damages = Damages(folder, world, forks, seed, say, kinds)
            damages.play(count)
            return damages


def main() -> int:
    """Damage, in a folder that goes, unless something was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--samples", type=int, default=500)
    parser.add_argument("--broken", default="", help="a known bug: see `python -m chaos list`")
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)
    begun_s = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="raftbatch-damage-"))
    damages = run(
        folder, asked.seed, asked.samples, broken=asked.broken, say=partial(print, flush=True)
    )
    told = {
        "seed": asked.seed,
        "samples": asked.samples,
        "violations": len(damages.found),
        "seconds": int(time.monotonic() - begun_s),
        **dict(sorted(damages.counts.items())),
    }
    print(json.dumps(told))
    if damages.found:
        print(f"all of it is in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
