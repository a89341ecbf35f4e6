"""Clients of the scheduler suite: they submit, wait, cancel and acknowledge, and try again.

As a careful client does, each asks anew with the same id until it knows, whatever
node answers, and whatever was lost. Some ask twice, some take an id that is taken,
some ask for what can never be.

What lives here: the clients. What must never live here: what their answers must be
(`chaos.checkers.scheduler_history`). Called by: `chaos.suites.scheduler`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from random import Random

from chaos.checkers.scheduler_history import Answer, ClientHistory, Operation
from chaos.suites.scheduler_calling import AGAIN, Caller, may_have_happened
from chaos.suites.scheduler_options import Work
from chaos.suites.scheduler_requests import POISON, Kind, payload
from chaos.worlds.calls import Calls, Lost
from chaos.worlds.loop import VirtualLoop
from coordinator.answers import Ticket, Waiting
from coordinator.api import Api
from coordinator.core.effects import Verdict
from coordinator.core.values import Outcome
from coordinator.submission import Submission
from raftbatch.errors import OutcomeForgotten, RaftbatchError, UnknownRequest
from raftbatch.ids import NodeId
from raftbatch.kinds import OutcomeKind
from raftbatch.settings import Model

_NAME = "clients"
_GIVES_UP = 0.2  # chance, at each refusal for load
_AT_LEADER = 0.3  # chance that an outcome is asked of who seems to lead
_WAIT_MS = (50, 800)  # of one call for an outcome
_CANCEL_S = (0.0, 0.4)
_TWICE_S = (0.0, 0.3)
_LOADED = ("overloaded", "quota_exceeded", "no_space")


@dataclass(eq=False, slots=True)
class Asked:
    """A request as one client asks for it.

    Attributes:
        submission: what is sent.
        operation: as the checker knows it.
        is_unsure: whether a try may have taken effect without its client knowing.
    """

    submission: Submission
    operation: Operation
    is_unsure: bool = False


class Clients:
    """See the module's docstring.

    Args:
        loop: of the run.
        calls: of the run.
        nodes: of the cluster.
        history: told what is asked and answered.
        models: there are from the beginning.
        work: what to ask for.
        rng: all is drawn from it.

    Attributes:
        models: that may be asked for.
        counts: what became of it.
        known: outcomes that were read and not acknowledged, by tenant and id.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        calls: Calls[Api],
        nodes: Sequence[NodeId],
        history: ClientHistory,
        models: Sequence[Model],
        work: Work,
        rng: Random,
    ) -> None:
        self.models = list(models)
        self.counts: Counter[str] = Counter(asked=0, tickets=0, outcomes=0, loaded=0)
        self.known: dict[tuple[str, str], Answer] = {}
        self._loop = loop
        self._history = history
        self._work = work
        self._rng = rng
        self._caller = Caller(calls, _NAME, nodes, rng)
        self._process = loop.spawn(_NAME)
        self._doing: dict[asyncio.Task[None], str] = {}
        self._asked_last: dict[str, None] = {}
        self._is_over = False

    def begin(self) -> None:
        """Ask from now on."""
        self._burst_later()

    def end(self) -> None:
        """Ask for nothing new; what was asked for is followed to its end."""
        self._is_over = True

    def left(self) -> str | None:
        """Return what is still under way; None: nothing."""
        for what in self._doing.values():
            return f"{len(self._doing)} clients wait, one to {what}"
        return None

    def ask_one(self) -> None:
        """Ask for one plain request, also after `end`: does anybody answer?"""
        one = self._right(Kind.WELL)
        self._asked_last[one.request_id] = None
        self._process.call(self._ask_for, [one])

    def read_all(self) -> None:
        """Ask again for every outcome that is known."""
        for tenant, request_id in list(self.known):
            self._process.call(
                self._begin, self._read(tenant, request_id, 0), f"read {request_id} again"
            )

    # Bursts.

    def _burst_later(self) -> None:
        self._loop.after(self._rng.expovariate(self._work.bursts_per_s), self._burst)

    def _burst(self) -> None:
        if self._is_over or self.counts["asked"] >= self._work.requests_max:
            return
        count = self._rng.randint(1, self._work.burst)
        drawn = [self._draw(self._draw_kind()) for _ in range(count)]
        self._process.call(self._ask_for, drawn)
        self._burst_later()

    def _draw_kind(self) -> Kind:
        rng, work = self._rng, self._work
        if rng.random() < work.poison:
            kinds = POISON if work.kills else POISON[:2]
            return rng.choices(kinds, (4, 1, 1)[: len(kinds)])[0]
        if rng.random() < work.bad:
            return rng.choice((Kind.FAILS, Kind.FAILS, Kind.LARGE))
        return Kind.WELL

    def _draw(self, kind: Kind) -> Submission:
        """Return a request of a kind; now and then one that can never be taken."""
        rng, submission = self._rng, self._right(kind)
        if rng.random() >= self._work.wrong:
            return submission
        return rng.choice(
            (
                submission._replace(model="nobody"),
                submission._replace(rows=1000),
                submission._replace(priority=16),
                submission._replace(payload=payload(kind, submission.request_id, 5000)),
            )
        )

    def _right(self, kind: Kind) -> Submission:
        rng, work = self._rng, self._work
        self.counts["asked"] += 1
        number = self.counts["asked"]
        model = rng.choice(self.models)
        rows = rng.randint(1, model.rows_max) if rng.random() < 0.3 else 1
        return Submission(
            tenant=rng.choice(work.tenants),
            request_id=f"r{number}",
            model=model.name,
            version=model.version,
            signature=rng.choice(("a", "a", "b")),
            rows=rows,
            priority=rng.randrange(model.priority_levels),
            timeout_ms=rng.choice(work.timeouts_ms),
            payload=payload(kind, str(number), rng.choice(work.sizes)),
            parameters=b"",
            traceparent="",
        )

    def _ask_for(self, drawn: Sequence[Submission]) -> None:
        """Submit, and what goes with it."""
        rng, work = self._rng, self._work
        self._begin(self._submit(list(drawn)), f"submit {drawn[0].request_id}")
        for one in drawn:
            request_id = one.request_id
            if rng.random() < work.twice:
                self._begin(self._submit([one], rng.uniform(*_TWICE_S)), f"submit {request_id}")
            if rng.random() < work.conflict:
                other = one._replace(payload=payload(Kind.WELL, f"not {request_id}", 30))
                self._begin(self._submit([other], rng.uniform(*_TWICE_S)), f"take {request_id}")
            if rng.random() < work.cancels:
                self._begin(self._cancel(one.tenant, request_id), f"cancel {request_id}")

    # What they do.

    async def _submit(self, drawn: list[Submission], wait_s: float = 0.0) -> None:
        """Ask until each is taken in, or refused for good."""
        if wait_s:
            await asyncio.sleep(wait_s)
        left = []
        for one in drawn:
            operation = self._history.invoke("submit", one.tenant, one.request_id, one.payload)
            left.append(Asked(one, operation))
        while left:
            asked = left
            for each in asked:
                traceparent = self._history.tries(each.operation)
                each.submission = each.submission._replace(traceparent=traceparent)
            answers = await self._send([each.submission for each in asked])
            left = [
                each
                for each, answer in zip(asked, answers, strict=True)
                if self._is_left(each, answer)
            ]
            if left:
                self.counts["retries"] += 1
                errors = [each for each in answers if isinstance(each, RaftbatchError | Lost)]
                self._caller.learn(errors[0])
                await asyncio.sleep(self._caller.wait_s(errors[0]))

    async def _send(
        self, submissions: Sequence[Submission]
    ) -> Sequence[Ticket | RaftbatchError | Lost]:
        try:
            return await self._caller.ask(
                "submit", lambda api: api.submit(submissions), node=self._drawn_node()
            )
        except (RaftbatchError, Lost) as error:
            return [error] * len(submissions)

    def _is_left(self, asked: Asked, answer: Ticket | RaftbatchError | Lost) -> bool:
        """Take in an answer to a submission; return whether it is to be sent again."""
        history, operation = self._history, asked.operation
        is_load = isinstance(answer, RaftbatchError) and answer.slug in _LOADED
        if operation.request_id in self._asked_last:
            self.counts["answered"] += is_load or isinstance(answer, Ticket)
        if isinstance(answer, Ticket):
            self.counts["tickets"] += 1
            # One that was cancelled before it came has no ticket, and its outcome.
            cancelled = Answer(0, OutcomeKind.CANCELLED, "", "", b"")
            history.ok(operation, answer.index or cancelled)
            one = asked.submission
            self._begin(self._read(one.tenant, one.request_id, answer.index), "read its outcome")
            return False
        asked.is_unsure = asked.is_unsure or may_have_happened(answer)
        if isinstance(answer, Lost):
            return True
        history.refused(operation, answer)
        if isinstance(answer, AGAIN) and not self._gives_up(answer):
            return True
        self.counts[answer.slug] += 1
        if asked.is_unsure:
            history.info(operation)
        else:
            history.fail(operation, answer)
        return False

    async def _read(self, tenant: str, request_id: str, ticket: int) -> None:
        """Ask any node until the outcome is known; perhaps once more; perhaps acknowledge it."""
        answer = await self._outcome(tenant, request_id, ticket)
        if answer is None:
            return
        self.known[tenant, request_id] = answer
        self.counts["outcomes"] += 1
        self.counts[answer.kind.name.lower()] += 1
        if self._rng.random() < self._work.reads_again:
            await self._outcome(tenant, request_id, ticket)
        if self._rng.random() < self._work.acknowledges and not self._is_over:
            self.known.pop((tenant, request_id), None)
            await self._acknowledge(tenant, request_id)

    async def _outcome(self, tenant: str, request_id: str, ticket: int) -> Answer | None:
        operation = self._history.invoke("outcome", tenant, request_id)
        while True:
            try:
                outcome = await self._wait(tenant, request_id, ticket)
            except (OutcomeForgotten, UnknownRequest) as error:
                self._history.fail(operation, error)
                self.counts[error.slug] += 1
                return None
            except (RaftbatchError, Lost) as error:
                await asyncio.sleep(self._caller.wait_s(error))
                continue
            if isinstance(outcome, Waiting):
                continue
            answer = Answer(
                outcome.ticket, outcome.kind, outcome.code, outcome.message, outcome.result
            )
            self._history.ok(operation, answer)
            return answer

    async def _wait(self, tenant: str, request_id: str, ticket: int) -> Outcome | Waiting:
        timeout_ms = self._rng.randint(*_WAIT_MS)
        return await self._caller.ask(
            "outcome",
            lambda api: api.outcome(tenant, request_id, index=ticket, timeout_ms=timeout_ms),
            node=None if self._rng.random() < _AT_LEADER else self._caller.any_node(),
            timeout_s=timeout_ms / 1000 + 0.3,
        )

    async def _cancel(self, tenant: str, request_id: str) -> None:
        await asyncio.sleep(self._rng.uniform(*_CANCEL_S))
        operation = self._history.invoke("cancel", tenant, request_id)
        self.counts["cancels"] += 1
        is_unsure = False
        while True:
            answer = await self._one_of("cancel", lambda api: api.cancel([(tenant, request_id)]))
            if isinstance(answer, Verdict):
                self._history.ok(operation, answer is not Verdict.ENDED)
                return
            is_unsure = is_unsure or may_have_happened(answer)
            is_final = isinstance(answer, RaftbatchError) and not isinstance(answer, AGAIN)
            if is_final or self._gives_up(answer):
                if is_unsure or isinstance(answer, Lost):
                    self._history.info(operation)
                else:
                    self._history.fail(operation, answer)
                return
            await asyncio.sleep(self._caller.wait_s(answer))

    async def _acknowledge(self, tenant: str, request_id: str) -> None:
        operation = self._history.invoke("acknowledge", tenant, request_id)
        names = [(tenant, request_id)]
        while True:
            answer = await self._one_of("acknowledge", lambda api: api.acknowledge(names))
            if isinstance(answer, Verdict):
                self._history.ok(operation, True)
                return
            if isinstance(answer, UnknownRequest):  # its id is not known any more
                self._history.fail(operation, answer)
                return
            await asyncio.sleep(self._caller.wait_s(answer))

    async def _one_of(
        self, what: str, act: Callable[[Api], Awaitable[Sequence[Verdict | RaftbatchError]]]
    ) -> Verdict | RaftbatchError | Lost:
        """Ask for one of many; return what is answered for it, or for all."""
        try:
            answers = await self._caller.ask(what, act, node=self._drawn_node())
        except (RaftbatchError, Lost) as error:
            answer: Verdict | RaftbatchError | Lost = error
        else:
            answer = answers[0]
        if isinstance(answer, RaftbatchError | Lost):
            self._caller.learn(answer)
        return answer

    # Inside.

    def _gives_up(self, error: RaftbatchError | Lost) -> bool:
        """Return whether to ask no more, after a refusal for load."""
        is_load = isinstance(error, RaftbatchError) and error.slug in _LOADED
        self.counts["loaded"] += is_load
        return is_load and self._rng.random() < _GIVES_UP

    def _drawn_node(self) -> NodeId | None:
        return self._caller.any_node() if self._rng.random() < self._work.astray else None

    def _begin(self, doing: Coroutine[None, None, None], what: str) -> None:
        task = self._loop.create_task(doing)
        self._doing[task] = what
        done: Callable[[asyncio.Task[None]], None] = self._done
        task.add_done_callback(done)

    def _done(self, task: asyncio.Task[None]) -> None:
        del self._doing[task]
