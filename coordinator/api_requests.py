"""What clients ask of a node, whichever door they come through.

What is known of an id is answered from the applied state, on any node: once applied
it is true for ever. The rest goes to the leader, by callbacks: a request costs no
task here. A wait for an outcome is answered by any node that knows the request; it
never cancels the request when it runs out.

    submit -> known here? its ticket : may it be? -> the leader's Admit -> ticket
    outcome -> known here? its outcome, or a wait for it
            : the ticket's index applied here, or a barrier on the leader -> unknown

What lives here: clients' calls. What must never live here: a message's form, or a
decision. Called by: doors, as a part of `api`. One thread: the loop's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from coordinator.answers import Ticket, Waiting, error_of, outcome_or_error
from coordinator.api_base import ApiBase, Name
from coordinator.core.admission import answer_known
from coordinator.core.effects import Verdict, Verdicts
from coordinator.core.values import Outcome, Request
from coordinator.proposer import Admission, Landed, copy_of
from coordinator.submission import Submission, check, check_name, content_hash
from coordinator.waits import Wait
from raftbatch import records as r
from raftbatch.errors import (
    InvalidRequest,
    Invariant,
    NoLeader,
    RaftbatchError,
)
from raftbatch.kinds import Key

_RETRY_AFTER_MS = 1000

_A_TURN = 256
"""Requests of a call that are taken in one turn of the loop: some ten milliseconds."""

_NAMES = 1024
"""Ids of one record: an entry is applied in one turn of the loop."""

Answer = Ticket | RaftbatchError


class RequestsApi(ApiBase):
    """See the module's docstring."""

    async def submit(self, submissions: Sequence[Submission]) -> list[Answer]:
        """Take requests in; return for each its ticket, or why not, in their order.

        Those that are refused do not keep the others from being taken. Asking again with
        the same id is harmless, and the only way to learn what became of an
        `outcome_unknown`.

        Raises:
            InvalidRequest: definite; too many at once.
            Draining: definite; the node stops.
        """
        self._check_open()
        count = len(submissions)
        if count > self._config.submissions_max:
            most = self._config.submissions_max
            raise InvalidRequest(f"{count} requests at once, at most {most}")
        call = _Submitting(count)
        for first in range(0, count, _A_TURN):
            if first:
                await asyncio.sleep(0)
            fresh = [
                (place, submission, hashed)
                for place, submission in enumerate(submissions[first : first + _A_TURN], first)
                if (hashed := self._meet(call, place, submission)) is not None
            ]
            if fresh:
                await self._admit(call, fresh)
        return await call.all_answered()

    async def _admit(
        self, call: _Submitting, fresh: Sequence[tuple[int, Submission, bytes]]
    ) -> None:
        """Hand requests, by place and with their hashes, to the leader, once it is ready."""
        try:
            if not self._leader.is_ready:
                await self._leader.ready()
            self._check_open()
        except RaftbatchError as error:
            # Each by itself: others of the call may be on their way.
            for place, _submission, _hashed in fresh:
                call.answer(place, copy_of(error))
            return
        admit = self._leader.admit
        for place, submission, hashed in fresh:
            done = partial(call.landed, place, submission.request_id)
            try:
                admit(self._admission(submission, hashed), done)
            except RaftbatchError as error:
                call.answer(place, error)

    def _meet(self, call: _Submitting, place: int, submission: Submission) -> bytes | None:
        """Answer for a request that cannot be, or is known; else return its content hash."""
        try:
            check(submission)
        except RaftbatchError as error:
            call.answer(place, error)
            return None
        hashed = content_hash(submission)
        state = self._replica.state
        known = state.dedupe.get(f"{submission.tenant}\0{submission.request_id}")
        if known is None:
            return hashed
        verdict, ticket = answer_known(state, known, hashed)
        is_same = verdict in (Verdict.KNOWN, Verdict.ENDED)
        call.answer(place, Ticket(submission.request_id, ticket) if is_same else error_of(verdict))
        return None

    def _admission(self, submission: Submission, hashed: bytes) -> Admission:
        """Return what the leader is asked, which judges it by the model's settings."""
        version = submission.version or self._newest_version(submission.model)
        key: Key = (submission.model, version, submission.signature)
        priority = submission.priority
        if priority is None:
            model = self._replica.state.models.get(key[:2])
            priority = 0 if model is None else model.default_priority_level
        return Admission(
            key,
            submission.tenant,
            submission.request_id,
            hashed,
            submission.rows,
            priority,
            submission.timeout_ms,
            submission.payload,
            submission.parameters,
            submission.traceparent,
        )

    def _newest_version(self, model: str) -> str:
        """Return the newest version that is not being deleted; empty: there is none."""
        if self._newest is None:
            state = self._replica.state
            versions = sorted(
                (int(version) if version.isdecimal() else -1, version, name)
                for name, version in state.models
                if (name, version) not in state.deleting
            )
            self._newest = {name: version for _, version, name in versions}
        return self._newest.get(model, "")

    async def outcome(
        self, tenant: str, request_id: str, *, index: int = 0, timeout_ms: int
    ) -> Outcome | Waiting:
        """Return what became of a request, or, when the wait has run out, that it goes on.

        Args:
            tenant: whose it is.
            request_id: the client's id.
            index: of its ticket; 0: there is none. With it, any node gives every answer.
            timeout_ms: how long to wait for the outcome; 0: not at all.

        Raises:
            UnknownRequest: definite; no such id is known, at the ticket's index or, without
                one, on the leader now.
            OutcomeForgotten: definite; it had its outcome.
            NotLeader: definite; this node does not know it: the leader does, or nobody.
            NoLeader: definite; the same, and no leader is known, or this node is behind.
            InvalidRequest, Overloaded, Draining: definite.
        """
        self._check_open()
        check_name("tenant", tenant)
        check_name("request id", request_id)
        if not 0 <= timeout_ms <= self._config.timeout_ms_max:
            raise InvalidRequest(f"timeout_ms is not in 0 .. {self._config.timeout_ms_max}")
        known = self._replica.state.request(tenant, request_id)
        if known is None:
            known = await self._find(tenant, request_id, index)
            self._check_open()  # who begins to wait after `close` is told by nobody
        if isinstance(known, Request):
            ended = await self._ended(known, timeout_ms)
            if ended is None:
                return Waiting(Ticket(request_id, known.ticket))
        else:
            ended = outcome_or_error(known)
        if isinstance(ended, RaftbatchError):
            raise ended
        return ended

    def watch(
        self, tenant: str, request_id: str, told: Callable[[Outcome | RaftbatchError], None]
    ) -> Wait | None:
        """Have somebody told what becomes of a request that this node knows; for many at once.

        Args:
            tenant: whose it is.
            request_id: the client's id.
            told: called once, with the outcome, or OutcomeForgotten or Draining: at once, or
                on the loop while the entry is applied that ends it.

        Returns:
            what `unwatch` takes; None: it was told.

        Raises:
            NoLeader: definite; this node does not know the id: see `outcome`.
            Overloaded, Draining: definite.
        """
        self._check_open()
        known = self._replica.state.request(tenant, request_id)
        if known is None:
            raise self._behind(request_id)
        if isinstance(known, Outcome):
            told(outcome_or_error(known))
            return None
        return self._waits.add(known.name, told)

    def unwatch(self, wait: Wait) -> None:
        """Tell somebody nothing any more. Harmless when it was told already."""
        self._waits.drop(wait)

    async def _find(self, tenant: str, request_id: str, index: int) -> Request | Outcome:
        """Return a request that this node does not know yet."""
        if index > self._replica.index:
            if not await self._index_waits.wait(index, self._config.find_ms):
                raise self._behind(request_id)
        elif not index:
            try:
                async with asyncio.timeout(self._config.find_ms / 1000):
                    await self._log.barrier()
            except TimeoutError:
                raise self._behind(request_id) from None
        known = self._replica.state.request(tenant, request_id)
        if known is None:
            raise error_of(Verdict.UNKNOWN_REQUEST)
        return known

    async def _ended(self, request: Request, timeout_ms: int) -> Outcome | RaftbatchError | None:
        """Wait for what becomes of a request; None: the time is over."""
        if not timeout_ms:
            return None
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Outcome | RaftbatchError | None] = loop.create_future()
        tell = partial(_tell, found)
        wait = self._waits.add(request.name, tell)
        timer = loop.call_later(timeout_ms / 1000, tell, None)
        try:
            return await found
        finally:
            timer.cancel()
            self._waits.drop(wait)

    def _behind(self, request_id: str) -> NoLeader:
        return NoLeader(
            f"{self._node} has applied {self._replica.index} and does not know {request_id!r}: "
            "ask another node, or again",
            retry_after_ms=_RETRY_AFTER_MS,
        )

    # Many ids at once: one record, and for each id its own answer.

    async def cancel(self, names: Sequence[Name]) -> list[Verdict | RaftbatchError]:
        """Give requests the outcome `cancelled`, unless they have one.

        Returns:
            for each: OK, it is cancelled now; ENDED, it has an outcome, perhaps another;
            UNKNOWN_REQUEST, nobody knows it, and if it comes, it is cancelled; or
            OutcomeForgotten, Overloaded, QuotaExceeded.

        Raises:
            InvalidRequest: definite; a name is none, or there are too many.
            RaftbatchError: the leader's.
        """
        answers = (Verdict.OK, Verdict.ENDED, Verdict.UNKNOWN_REQUEST)
        return await self._for_each(r.Cancel, names, answers)

    async def acknowledge(self, names: Sequence[Name]) -> list[Verdict | RaftbatchError]:
        """Note that outcomes were read: their bytes go, the ids stay known.

        Returns:
            for each: OK; or UnknownRequest, or InvalidRequest: it has no outcome yet.

        Raises:
            InvalidRequest: definite; a name is none, or there are too many.
            RaftbatchError: the leader's.
        """
        return await self._for_each(r.Acknowledge, names, (Verdict.OK,))

    async def forget(self, names: Sequence[Name]) -> list[Verdict | RaftbatchError]:
        """Purge outcomes, as operators may; else as `acknowledge`."""
        return await self._for_each(r.Forget, names, (Verdict.OK,))

    async def _for_each(
        self,
        kind: type[r.Cancel | r.Acknowledge | r.Forget],
        names: Sequence[Name],
        answers: tuple[Verdict, ...],
    ) -> list[Verdict | RaftbatchError]:
        """Return what was done with each name; few records stand for many names.

        Raises:
            InvalidRequest: definite; a name is none, or there are too many.
            RaftbatchError: the leader's; where some were done, it is the others' answer.
        """
        if len(names) > self._config.names_max:
            raise InvalidRequest(f"{len(names)} ids at once, at most {self._config.names_max}")
        for tenant, request_id in names:
            check_name("tenant", tenant)
            check_name("request id", request_id)
        parts = [names[first : first + _NAMES] for first in range(0, len(names), _NAMES)]
        if len(parts) <= 1:
            return await self._for_part(kind, names, answers) if parts else []
        asked = [self._for_part(kind, part, answers) for part in parts]
        landed = await asyncio.gather(*asked, return_exceptions=True)
        errors = [each for each in landed if isinstance(each, BaseException)]
        errors.sort(key=lambda error: getattr(error, "definite", False))
        if errors and (len(errors) == len(parts) or not isinstance(errors[0], RaftbatchError)):
            raise errors[0]
        found: list[Verdict | RaftbatchError] = []
        for part, each in zip(parts, landed, strict=True):
            if isinstance(each, RaftbatchError):
                found += [copy_of(each) for _ in part]
            elif not isinstance(each, BaseException):
                found += each
        return found

    async def _for_part(
        self,
        kind: type[r.Cancel | r.Acknowledge | r.Forget],
        names: Sequence[Name],
        answers: tuple[Verdict, ...],
    ) -> list[Verdict | RaftbatchError]:
        """Have one record for names proposed, and return what was done with each."""
        record = kind(
            tuple([tenant for tenant, _ in names]), tuple([request_id for _, request_id in names])
        )
        landed = await self._propose(record)
        if not isinstance(landed, Verdicts):
            raise error_of(landed.verdict, landed.message, landed.retry_after_ms)
        said = dict(landed.messages)
        found: list[Verdict | RaftbatchError] = []
        for place, number in enumerate(landed.verdicts):
            verdict = Verdict(number)
            if verdict in answers:
                found.append(verdict)
            elif verdict is Verdict.VOID:
                found.append(InvalidRequest("the request has no outcome yet"))
            else:
                message = said.get(place, "")
                found.append(error_of(verdict, message, landed.retry_after_ms))
        return found


def _tell(
    found: asyncio.Future[Outcome | RaftbatchError | None], result: Outcome | RaftbatchError | None
) -> None:
    if not found.done():
        found.set_result(result)


class _Submitting:
    """One call to submit: the answers that have come, and how many have not."""

    def __init__(self, count: int) -> None:
        self._answers: list[Answer | None] = [None] * count
        self._left = count
        self._all: asyncio.Future[None] | None = None

    def answer(self, place: int, answer: Answer) -> None:
        """Answer one."""
        self._answers[place] = answer
        self._left -= 1
        if not self._left and self._all is not None and not self._all.done():
            self._all.set_result(None)

    def landed(
        self, place: int, request_id: str, result: Landed | Verdicts | RaftbatchError
    ) -> None:
        """Answer one by what became of its Admit."""
        if isinstance(result, RaftbatchError):
            self.answer(place, result)
            return
        if isinstance(result, Verdicts):
            raise Invariant("a request landed in columns")
        match result.verdict:
            case Verdict.OK:
                self.answer(place, Ticket(request_id, result.index))
            case Verdict.KNOWN | Verdict.ENDED:
                self.answer(place, Ticket(request_id, result.value))
            case verdict:
                error = error_of(verdict, result.message, result.retry_after_ms)
                self.answer(place, error)

    async def all_answered(self) -> list[Answer]:
        """Return all, once they are there."""
        if self._left:
            self._all = asyncio.get_running_loop().create_future()
            await self._all
        return [answer for answer in self._answers if answer is not None]
