"""A leader, its feed and the executor's machine, with all that can happen between them drawn.

No time, no processes, no calls: what the machine asks for is remembered, and happens when
it is drawn to happen, or is lost.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

from coordinator.core.effects import Applied, Reply, Verdict
from coordinator.core.values import Request
from coordinator.core.watch import Holding, Watch
from coordinator.rpc.dispatch import _record
from coordinator.rpc.pieces import pieces
from coordinator.tail import Tail
from executor.core.instances import At
from executor.core.machine import Machine
from executor.core.pieces import Joiner
from executor.core.values import Action, Answer, Due, Failure, Kill, Outcome, Run, Stage, WarmUp
from executor.core.values import Verdict as Settled
from raftbatch import records as r
from raftbatch.errors import StaleIncarnation
from raftbatch.kinds import LapseReason
from raftbatch.v1 import dispatch_pb2 as pb
from tests.unit.core.leading import Leading, put
from tests.unit.lagging_node import Node
from tests.unit.replica_scene import poll

NAME = "gpu-1"
MODEL = ("m", "1")
PREFETCH = 1


class Scene:
    """See the module's docstring.

    Attributes:
        leading: the leader.
        machine: the executor.
        counts: what happened.
    """

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.counts: Counter[str] = Counter()
        model = put(
            max_batch_size=4,
            attempts_max=2,
            backoff_initial_ms=1,
            execution_timeout_microseconds=60_000,
        )
        self.leading = Leading()
        self._entries: list[tuple[int, bytes]] = []
        self.nodes = [Node("n1", self._entries), Node("n2", self._entries)]
        self.node = self.nodes[0]
        self.instances = self.draw.choice((1, 2))
        self.slots = self.instances + PREFETCH
        self._fails = self.draw.choice((0.3, 0.7))
        self.machine = Machine(NAME, [MODEL] * self.instances)
        self.runs: dict[int, Run | WarmUp] = {}
        self.ran: set[tuple[int, int]] = set()
        self.open: list[Due] = []
        self.tail: Tail | None = None
        self._joiner = Joiner()
        self._now_ns = 0
        self._asked = 0
        self._watch: Watch | None = None
        self._watched: object = None
        self._late: dict[int, int] = {}
        self.leading.lead()
        self.apply()
        self.leading.propose(model)
        self.apply()
        for number in range(self.instances):
            self.do(self.machine.up(number, 0))
        self.join(0)

    # The leader.

    def say(self, record: r.Record) -> Verdict:
        """Propose a record and apply all; return what was done with it."""
        self.apply()
        self.leading.propose(record)
        applied = self.apply()
        reply = applied[-1].replies[0]
        return reply.verdict if isinstance(reply, Reply) else Verdict.OK

    def apply(self, entries: int = 1 << 30) -> list[Applied]:
        """Apply entries, for nodes to apply later."""
        done: list[Applied] = []
        while self.leading.log and len(done) < entries:
            self._entries.append(self.leading.log[0])
            done += self.leading.apply(1)
        return done

    def decide(self) -> None:
        """Let the leader decide, time having passed."""
        self.leading.at_ms += self.draw.choice((0, 1, 6, 20))
        self.apply()
        for record in self.watch().overdue(self.leading.at_ms):
            self.counts["overdue"] += 1
            self.leading.propose(record)
        self.leading.propose(r.Advance(), is_quiet=True)

    def watch(self) -> Watch:
        """Return what the leader of this term knows."""
        if self._watched is not self.leading.outlook or self._watch is None:
            self._watched = self.leading.outlook
            assert self.leading.outlook is not None
            self._watch = Watch(self.leading.outlook)
        return self._watch

    def ask(self) -> None:
        """Let clients ask for something, or cancel something."""
        draw = self.draw
        if draw.random() < 0.3 and self._asked:
            names = tuple([f"r{draw.randint(1, self._asked)}" for _ in range(2)])
            self.leading.propose(r.Cancel(("t",) * 2, names))
            return
        names = tuple([f"r{self._asked + n}" for n in range(1, draw.randint(2, 6))])
        self._asked += len(names)
        self.leading.propose(self.leading.admit(*names))

    # The executor.

    def join(self, replaces: int) -> None:
        """Begin a life."""
        ready = self.machine.ready
        assert self.say(r.Join(NAME, replaces, self.slots, ready, b"")) is Verdict.OK
        self.machine.begin(self.leading.state.executors[NAME].incarnation, ready)
        self.tail = None
        self.open.clear()

    def lose(self) -> None:
        """Let the leader find the executor lost, which joins anew."""
        incarnation = self.machine.incarnation
        self.say(r.Leave(NAME, incarnation, True, ()))
        self.do(self.machine.end())
        self.counts["lost"] += 1
        self.join(incarnation)

    def do(self, actions: list[Action]) -> None:
        """Remember what is asked for."""
        for action in actions:
            instance = self.machine.instances[action.instance]
            if isinstance(action, Kill):
                assert instance.at is At.KILLED
                late = self.runs.pop(action.instance, None)
                if late is not None:
                    self._late[action.instance] = late.run
                self.counts["killed"] += 1
                continue
            assert action.instance not in self.runs, "one batch at a time"
            self.runs[action.instance] = action
            if isinstance(action, Run):
                name = action.given.batch, action.given.fence
                assert name not in self.ran, "an assignment runs once"
                self.ran.add(name)
                assert action.places
        self.check()

    def check(self) -> None:
        """Make sure that the machine is whole."""
        held = self.machine.holdings.held
        assert len(held) <= self.slots, "a slot is credit"
        for each in self.machine.instances:
            assert (each.at is At.RUNNING) == isinstance(self.runs.get(each.number), Run)
        running = [each for each in held.values() if each.stage is Stage.RUNNING]
        assert len(running) == sum(each.at is At.RUNNING for each in self.machine.instances)
        for waiting in held.values():
            if waiting.stage is Stage.WAITING:
                assert all(at.at is not At.IDLE for at in self.machine.instances)

    async def read(self) -> None:
        """Read a message of the feed, or open it."""
        if self.tail is None:
            asked = self.machine.tail()
            names = [(each.batch, each.fence) for each in asked.held]
            fences = [fence for _, fence in names]
            self.node = self.draw.choice(self.nodes)
            self.node.apply(max([asked.seen_index, asked.incarnation, *fences]))
            self.tail = await self.node.feed.open(NAME, asked.incarnation, names, asked.seen_index)
            self._joiner = Joiner()
        if self.node is self.nodes[0]:
            self.node.apply(self.node.replica.index + self.draw.randint(0, 4))
        else:
            self.node.apply(len(self._entries))
        try:
            message = poll(self.tail.next())
        except StaleIncarnation:
            self.tail = None
            return
        if message is None:
            return
        told = None
        for piece in pieces(message, piece_bytes=self.draw.choice((1, 90, 1 << 20))):
            assert told is None
            told = self._joiner.add(pb.FeedMessage.FromString(piece.SerializeToString()))
            self.counts["more" if piece.more else "message"] += 1
        assert told is not None
        self._now_ns += 1
        self.do(self.machine.take(told, self._now_ns))
        self.agrees()

    def agrees(self) -> None:
        """Make sure that it would run and report what the state of its node says."""
        state = self.node.replica.state
        live = state.executors[NAME]
        wanted = {
            (each.batch, each.fence): [
                number for number in state.batches[each.batch].members if number in state.requests
            ]
            for each in live.held
            if not each.is_lapsed
        }
        held = self.machine.holdings.held
        own = {
            name: [each.given.numbers[place] for place in each.places]
            for name, each in held.items()
            if each.stage is not Stage.STOPPING or name in wanted
        }
        assert own == wanted
        lapsed = {(each.batch, each.fence) for each in live.held if each.is_lapsed}
        now = self.leading.state.executors[NAME]  # it may have confirmed what this node has not
        lapsed &= {(each.batch, each.fence) for each in now.held}
        stopping = {name for name, each in held.items() if each.stage is Stage.STOPPING}
        assert lapsed <= stopping | set(self.machine.holdings.frees), "a slot would never return"

    def happen(self, number: int, *, well: bool = False) -> None:
        """Let something happen to an instance, if there is something to happen."""
        machine, draw = self.machine, self.draw
        at, action = machine.instances[number].at, self.runs.get(number)
        self._now_ns += 1
        if at is At.KILLED:
            late = self._late.pop(number, None)
            if late is not None and draw.random() < 0.5:
                outcome = Outcome((Answer(b"late"),))
                assert machine.ended(number, late, outcome, self._now_ns) == []
            self.do(machine.down(number, Failure("child_died", ""), self._now_ns))
        elif at is At.DOWN:
            if draw.random() < 0.3:
                self.counts["slow"] += 1
                self.do(machine.slow(number, self._now_ns))
            if draw.random() < 0.4 and not well:
                self.do(machine.down(number, Failure("child_not_up", ""), self._now_ns))
            else:
                self.do(machine.up(number, self._now_ns))
        elif action is not None:
            chance = 1.0 if well else draw.random()
            if chance < 0.1 and isinstance(action, Run):
                self.do(machine.overdue(number, action.run))
                return
            del self.runs[number]
            if chance < 0.2:
                self.do(machine.down(number, Failure("child_died", ""), self._now_ns))
                return
            found: Outcome | Failure | None = None
            if chance < self._fails:
                found = Failure("model_failed", "x")
            elif isinstance(action, Run):
                codes = ["bad" if draw.random() < 0.1 else "" for _ in action.places]
                found = Outcome(tuple([Answer(b"result", code) for code in codes]))
            self.do(machine.ended(number, action.run, found, self._now_ns))

    def report(self, *, well: bool = False) -> None:
        """Send reports; requests and answers get lost."""
        self.open += self.machine.due()
        self.open = [due for due in self.open if self.machine.is_open(due)]
        told = [due.names for due in self.open if not due.report.HasField("free")]
        assert len(told) == len(set(told)), "a report is under way once"
        for due in list(self.open):
            chance = 1.0 if well else self.draw.random()
            if chance < 0.3:
                continue  # the request is lost
            verdict = self.say(_record(pb.Report.FromString(due.report.SerializeToString())))
            self.counts[f"reported {due.report.WhichOneof('report')} {verdict.name}"] += 1
            if 0.3 <= chance < 0.5:
                continue  # the answer is lost
            settled = {Verdict.OK: Settled.TAKEN, Verdict.STALE_FENCE: Settled.STALE}
            assert verdict in settled, verdict
            self.machine.answered(due, settled[verdict])
            self.open.remove(due)
        self.check()

    def beat(self) -> None:
        """Send a heartbeat, which contradicts nothing."""
        self.apply()
        beat = self.machine.heartbeat()
        listed = [Holding(each.batch, each.fence, each.running) for each in beat.holdings]
        found = self.watch().heard(
            NAME, beat.incarnation, beat.tailed_index, listed, self.leading.at_ms
        )
        for record in found:
            assert isinstance(record, r.Free), record
            self.leading.propose(record)

    def tell(self) -> None:
        """Say what it has to say of itself."""
        wish = self.machine.wish()
        match wish:
            case pb.ReadyRequest():
                models = tuple([(each.name, each.version) for each in wish.models])
                self.say(r.Ready(NAME, wish.incarnation, models))
            case pb.Probe():
                self.say(r.Probe(NAME, wish.incarnation, wish.succeeded))
                self.counts["probe"] += 1
            case pb.DrainRequest():
                self.say(r.Drain(NAME, wish.incarnation, wish.on))
            case _:
                self.do(self.machine.probe())
                return
        self.machine.said(wish)

    # A run of it all.

    async def step(self) -> None:
        """Let one thing happen."""
        draw = self.draw
        what = draw.random()
        if what < 0.12:
            self.ask()
        elif what < 0.3:
            self.decide()
        elif what < 0.4:
            self.apply(draw.randint(1, 3))
        elif what < 0.6:
            await self.read()
        elif what < 0.78:
            self.happen(draw.randrange(self.instances))
        elif what < 0.88:
            self.report()
        elif what < 0.93:
            self.beat()
        elif what < 0.97:
            self.tell()
        elif what < 0.985:
            if self.tail is not None:
                self.tail.close()
            self.tail = None
        elif what < 0.995:
            self.apply()
            self.leading.lead()
            self.apply()
        else:
            self.lose()

    async def settle(self) -> None:
        """Let all go well, until nothing is left to do."""
        for _ in range(400):
            self.decide()
            self.apply()
            for _ in range(3):
                await self.read()
            for number in range(self.instances):
                self.happen(number, well=True)
            self.report(well=True)
            self.beat()
            self.tell()
            waiting = any(
                isinstance(each, Request) for each in self.leading.state.requests.values()
            )
            if not waiting and not self.leading.log and self.machine.is_empty:
                break
        state = self.leading.state
        assert not state.requests, "each has its outcome"
        assert state.executors[NAME].held == (), "each slot has returned"
        assert self.machine.is_empty

    def play(self, steps: int) -> Counter[str]:
        """Run it all."""

        async def run() -> None:
            for _ in range(steps):
                await self.step()
            await self.settle()

        asyncio.run(run())
        self.counts.update(_reasons(self.leading))
        return self.counts


def _reasons(leading: Leading) -> Counter[str]:
    """Count lapses, by why."""
    lapses: list[Any] = [each for each in leading.trace if isinstance(each, r.Lapse)]
    return Counter([f"lapse {LapseReason(each.reason).name}" for each in lapses])
