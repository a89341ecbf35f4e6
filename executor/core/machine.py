"""The executor as a machine: what happens goes in, what is to be done comes out.

    took a message -> start, shed, stop          ended    -> report, next batch
    instance up    -> next batch                 overdue  -> kill; dead -> give it up
    instance down  -> what ran there failed      answered -> next part, or settled
    slow to return -> what waits goes back

An instance runs one batch at a time, and is killed to stop one. A report is handed out
once (`due`) and is under way until it is `answered`: the shell sends it again and again
meanwhile, for as long as it `is_open`.

What lives here: that. What must never live here: time, calls, processes. Called by:
`executor.agent`, on the loop. Total. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from executor.core import reports
from executor.core.holdings import BUSY, Holdings
from executor.core.instances import At, Instance
from executor.core.proof import Probe, Proof
from executor.core.values import (
    Action,
    After,
    Due,
    Failure,
    Held,
    Kill,
    ModelId,
    Outcome,
    Run,
    Stage,
    Verdict,
    WarmUp,
    Wish,
)
from raftbatch.v1 import dispatch_pb2 as pb

DUES_MAX = 256
"""Reports of one call."""

_SLOW = Failure("child_not_up", "its process is being replaced, which takes a while")


class Machine:
    """See the module's docstring.

    Args:
        executor: its id.
        models: of each instance.

    Attributes:
        incarnation: of the life that it lives; 0: none.
        is_leaving: whether it is to end once it holds nothing.
        instances: in their order.
        holdings: what this life holds.
    """

    def __init__(self, executor: str, models: Sequence[ModelId]) -> None:
        self.executor = executor
        self.incarnation = 0
        self.is_leaving = False
        self.instances = [Instance(number, model) for number, model in enumerate(models)]
        self.holdings = Holdings()
        self._runs = 0
        self._said_models: tuple[ModelId, ...] | None = None
        self._proof = Proof()

    # Its lives.

    def begin(self, incarnation: int, models: Sequence[ModelId]) -> None:
        """Begin a life, which was joined with these models."""
        self.incarnation = incarnation
        self._said_models = tuple(models)

    def end(self) -> list[Action]:
        """Take in that this life is over; what runs is for nobody any more."""
        self.incarnation, self._said_models = 0, None
        self.holdings, self._proof = Holdings(), Proof()
        kill: list[Action] = []
        for each in self.instances:
            if each.at is At.RUNNING:
                kill.append(self._kill(each, "the executor was declared lost"))
            each.held = None
        return kill

    def leave(self) -> list[Action]:
        """Begin to drain: what waits is given back, what runs ends, then it leaves."""
        self.is_leaving = True
        return list(self._starts(0))

    # The feed.

    def take(self, message: pb.FeedMessage, now_ns: int) -> list[Action]:
        """Take in a message of the feed, all pieces joined."""
        actions: list[Action] = []
        for held in self.holdings.take(message, now_ns):
            actions.append(self._kill(self._runs_at(held), "its batch was taken back"))
            if held.after is After.FREE:  # it ran for too long, by the leader's clock
                self._proof.failed(held.model)
        if not self.holdings.is_suspended:
            self._proof.at = Probe.NONE
        return [*actions, *self._starts(now_ns)]

    # Instances.

    def up(self, number: int, now_ns: int) -> list[Action]:
        """Take in that an instance has come up, and ran its warm-up."""
        instance = self.instances[number]
        instance.at, instance.held, instance.out = At.IDLE, None, None
        if self.holdings.is_suspended:
            self._proof.warmed(instance.model)
        return list(self._starts(now_ns))

    def down(self, number: int, failure: Failure, now_ns: int) -> list[Action]:
        """Take in that an instance is dead, or did not come up: it will be replaced."""
        instance = self.instances[number]
        at, held = instance.at, instance.held
        instance.at, instance.held = At.DOWN, None
        if at is At.WARMING:
            self._proof.at = Probe.NONE
        if held is not None and at is At.RUNNING:
            self._fail(held, failure)
        elif held is not None and held.after is After.LAPSE:
            reason = pb.LAPSE_REASON_TIMED_OUT
            self._report(held, [reports.lapse(held, reason, pb.RAN_YES, "timed_out")])
        elif held is not None:
            self.holdings.dead(held)
        if at is At.DOWN:  # it did not come up
            instance.out = failure
            if instance.model not in self.ready:
                self._proof.excuse(instance.model)
        return list(self._starts(now_ns))

    def slow(self, number: int, now_ns: int) -> list[Action]:
        """Take in that an instance is not back yet: what waits may run elsewhere sooner."""
        instance = self.instances[number]
        if instance.at in (At.KILLED, At.DOWN):
            instance.out = instance.out or _SLOW
        return list(self._starts(now_ns))

    def ended(
        self, number: int, run: int, outcome: Outcome | Failure | None, now_ns: int
    ) -> list[Action]:
        """Take in what came of a run; None: a warm-up that went well."""
        instance = self.instances[number]
        if not instance.does(run, outcome):
            return []  # it is being killed: whatever it says comes too late
        if instance.at is At.WARMING:
            if isinstance(outcome, Failure):
                self._proof.at = Probe.NONE
                return [self._kill(instance, f"its warm-up failed: {outcome.message}")]
            instance.at, self._proof.at = At.IDLE, Probe.NONE
            self._proof.warmed(instance.model)
            return list(self._starts(now_ns))
        held, places = instance.held, instance.places
        assert held is not None
        instance.at, instance.held = At.IDLE, None
        if isinstance(outcome, Outcome) and len(outcome.answers) == len(places):
            numbers = [held.given.numbers[place] for place in places]
            told = reports.completes(held, self.executor, self.incarnation, numbers, outcome)
            self._report(held, told)
        elif isinstance(outcome, Failure):
            self._fail(held, outcome)
        else:
            self._fail(held, Failure("bad_output", "not one answer for each request came"))
        if isinstance(outcome, Failure) and outcome.is_lasting:
            kill = self._kill(instance, f"its batch broke it: {outcome.message}")
            return [kill, *self._starts(now_ns)]
        return list(self._starts(now_ns))

    def overdue(self, number: int, run: int) -> list[Action]:
        """Take in that a run takes longer than its model may."""
        instance = self.instances[number]
        held = instance.held
        if instance.run == run and instance.at is At.WARMING:
            self._proof.at = Probe.NONE
            return [self._kill(instance, "its warm-up ran for too long")]
        if instance.run != run or instance.at is not At.RUNNING or held is None:
            return []
        held.stage, held.after = Stage.STOPPING, After.LAPSE
        self._proof.failed(held.model)
        return [self._kill(instance, "its batch ran for too long")]

    # Reports.

    def due(self) -> list[Due]:
        """Return reports that are to be sent; they are under way from now on."""
        found: list[Due] = []
        names = tuple([name for name, is_told in self.holdings.frees.items() if not is_told])
        if names:
            self.holdings.frees.update(dict.fromkeys(names, True))
            report = reports.free(self.executor, self.incarnation, names)
            found.append(Due(self.incarnation, names, report))
        for held in self.holdings.held.values():
            if len(found) == DUES_MAX:
                break
            if held.reports and not held.is_told:
                held.is_told = True
                found.append(Due(self.incarnation, (held.name,), held.reports[0]))
        return found

    def is_open(self, due: Due) -> bool:
        """Return whether a report is still to be sent: the feed may have made it idle."""
        if due.incarnation != self.incarnation:
            return False
        if due.report.HasField("free"):
            return any(name in self.holdings.frees for name in due.names)
        held = self.holdings.held.get(due.names[0])
        return held is not None and bool(held.reports) and held.reports[0] is due.report

    def answered(self, due: Due, verdict: Verdict, why: str = "") -> None:
        """Take in the definite answer to a report."""
        if not self.is_open(due):
            return
        if due.report.HasField("free"):
            for name in due.names:
                self.holdings.frees.pop(name, None)
            return
        held = self.holdings.held[due.names[0]]
        held.is_told = False
        if verdict is Verdict.TAKEN:
            del held.reports[0]
        elif verdict is Verdict.STALE:
            held.reports.clear()
        elif verdict is Verdict.TOO_LARGE and due.report.HasField("complete"):
            self._report(held, [*reports.smaller(due.report, why), *held.reports[1:]])
        elif due.report.HasField("complete"):
            failed = pb.LAPSE_REASON_FAILED
            lapse = reports.lapse(held, failed, pb.RAN_YES, "report_rejected", why)
            self._report(held, [lapse])
        else:
            self.holdings.forget(held)

    # What it says of itself.

    @property
    def ready(self) -> tuple[ModelId, ...]:
        """Model versions that have an instance which runs, or can."""
        can = (At.IDLE, At.RUNNING, At.WARMING)
        return tuple(sorted({each.model for each in self.instances if each.at in can}))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is held, and nothing left to say of what was."""
        return not self.holdings.held and not self.holdings.frees

    def wish(self) -> Wish | None:
        """Return what it has to say of itself now; None: nothing."""
        name, incarnation, holdings = self.executor, self.incarnation, self.holdings
        if not incarnation:
            return None
        if self._said_models != self.ready:
            models = [pb.ModelVersion(name=each, version=version) for each, version in self.ready]
            return pb.ReadyRequest(executor=name, incarnation=incarnation, models=models)
        if self.is_leaving:
            if not holdings.is_draining:
                return pb.DrainRequest(executor=name, incarnation=incarnation, on=True)
            return self.farewell() if self.is_empty else None
        if self._proof.at is Probe.SUCCEEDED and holdings.is_suspended:
            return pb.Probe(executor=name, incarnation=incarnation, succeeded=True)
        return None

    def farewell(self) -> pb.LeaveRequest:
        """Return that it leaves now, whatever it holds."""
        held = self.holdings.held.values()
        running = [each.given.batch for each in held if each.stage in BUSY]
        return pb.LeaveRequest(
            executor=self.executor, incarnation=self.incarnation, running=running
        )

    def said(self, wish: Wish) -> None:
        """Take in that the leader has heard it."""
        if isinstance(wish, pb.ReadyRequest) and wish.incarnation == self.incarnation:
            self._said_models = tuple([(each.name, each.version) for each in wish.models])
        elif isinstance(wish, pb.Probe):
            self._proof.at = Probe.NONE

    def probe(self) -> list[Action]:
        """Begin to find out whether it works again, if it is suspended and can."""
        if not self.holdings.is_suspended or self._proof.at is not Probe.NONE:
            return []
        able = [each for each in self.instances if self._proof.is_by(each.model)]
        instance = next((each for each in able if each.at is At.IDLE), None)
        if instance is None:
            return []
        self._runs += 1
        instance.at, instance.run, self._proof.at = At.WARMING, self._runs, Probe.RUNNING
        return [WarmUp(instance.number, instance.run)]

    def heartbeat(self) -> pb.HeartbeatRequest:
        """Return that it lives, and all that it holds."""
        holdings = [
            pb.Holding(batch=batch, fence=fence, running=each.stage in BUSY)
            for (batch, fence), each in self.holdings.held.items()
        ]
        return pb.HeartbeatRequest(
            executor=self.executor,
            incarnation=self.incarnation,
            tailed_index=self.holdings.seen_index,
            holdings=holdings,
        )

    def tail(self) -> pb.TailRequest:
        """Return how to follow the feed from here on."""
        held = [pb.Slot(batch=batch, fence=fence) for batch, fence in self.holdings.held]
        return pb.TailRequest(
            executor=self.executor,
            incarnation=self.incarnation,
            held=held,
            seen_index=self.holdings.seen_index,
        )

    # Inside.

    def _starts(self, now_ns: int) -> Iterator[Action]:
        """Run what can run, and give back what will not."""
        for held in self.holdings.waiting():
            places = held.places
            if not places:  # the slot returns with a report of nothing
                told = reports.completes(held, self.executor, self.incarnation, [], Outcome(()))
                self._report(held, told)
            elif (out := self._out(held.model)) is not None:
                refused = pb.LAPSE_REASON_REFUSED
                lapse = reports.lapse(held, refused, pb.RAN_NO, out.code, out.message)
                self._report(held, [lapse])
            elif self.is_leaving:
                self._report(held, [reports.lapse(held, pb.LAPSE_REASON_DRAINED, pb.RAN_NO)])
            elif (instance := self._idle(held.model)) is not None:
                self._runs += 1
                held.stage, held.started_ns = Stage.RUNNING, now_ns
                instance.at, instance.held, instance.run = At.RUNNING, held, self._runs
                instance.places = tuple(places)
                yield Run(instance.number, instance.run, held.given, instance.places)

    def _idle(self, model: ModelId) -> Instance | None:
        idle = [each for each in self.instances if each.at is At.IDLE and each.model == model]
        return idle[0] if idle else None

    def _out(self, model: ModelId) -> Failure | None:
        """Return why a model takes nothing here, and will not soon; None: it does, or will."""
        out = [each.out for each in self.instances if each.model == model]
        absent = Failure("model_not_here", f"{self.executor} has no {model[0]}")
        return None if None in out else [absent, *out][-1]

    def _runs_at(self, held: Held) -> Instance:
        [instance] = [each for each in self.instances if each.held is held]
        return instance

    def _kill(self, instance: Instance, why: str) -> Kill:
        instance.at = At.KILLED
        return Kill(instance.number, why)

    def _fail(self, held: Held, failure: Failure) -> None:
        """Give up a batch that failed as a whole."""
        failed = pb.LAPSE_REASON_FAILED
        lapse = reports.lapse(held, failed, pb.RAN_YES, failure.code, failure.message)
        self._report(held, [lapse])

    def _report(self, held: Held, told: list[pb.Report]) -> None:
        held.stage, held.reports, held.is_told = Stage.REPORTING, told, False
        self._proof.reported(held.model, told)
        held.given.ClearField("payloads")  # it runs no more, but may be held for a while
