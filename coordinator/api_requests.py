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
from coordinator.api_names import NamesApi
from coordinator.core.admission import answer_known
from coordinator.core.effects import Verdict
from coordinator.core.values import Outcome, Request
from coordinator.proposer import Admission, copy_of
from coordinator.submission import Submission, are_plain, check, check_name, content_hash
from coordinator.submitting import Answer, Submitting
from coordinator.waits import Wait
from raftbatch.errors import (
    InvalidRequest,
    NoLeader,
    RaftbatchError,
)
from raftbatch.kinds import Key

_RETRY_AFTER_MS = 1000

_A_TURN = 256
"""Requests of a call that are taken in one turn of the loop: some ten milliseconds."""


class RequestsApi(NamesApi):
    """See the module's docstring."""

    @property
    def is_leading(self) -> bool:
        """Whether this node leads, and takes requests in by itself."""
        return self._leader.is_ready

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
        call = Submitting(count, self.refused)
        for first in range(0, count, _A_TURN):
            if first:
                await asyncio.sleep(0)
            some = submissions[first : first + _A_TURN]
            is_fine = are_plain(some)
            fresh = [
                (place, submission, hashed)
                for place, submission in enumerate(some, first)
                if (hashed := self._meet(call, place, submission, is_fine)) is not None
            ]
            if fresh:
                await self._admit(call, fresh)
        return await call.all_answered()

    async def _admit(
        self, call: Submitting, fresh: Sequence[tuple[int, Submission, bytes]]
    ) -> None:
        """Hand requests, by place and with their hashes, to the leader, once it is ready."""
        try:
            if not self._leader.is_ready:
                await self._leader.ready()
            self._check_open()
        except RaftbatchError as error:
            # Each by itself: others of the call may be on their way.
            for place, _submission, _hashed in fresh:
                call.refuse(place, copy_of(error))
            return
        landed = call.landed
        dones = [partial(landed, place, each.request_id) for place, each, _ in fresh]
        admissions = self._admissions(fresh)
        if self._leader.admit_all(admissions, dones):
            return
        for (place, _, _), admission, done in zip(fresh, admissions, dones, strict=True):
            try:
                self._leader.admit(admission, done)
            except RaftbatchError as error:
                call.refuse(place, error)

    def _meet(
        self, call: Submitting, place: int, submission: Submission, is_fine: bool
    ) -> bytes | None:
        """Answer for a request that cannot be, or is known; else return its content hash."""
        try:
            if not is_fine:
                check(submission)
        except RaftbatchError as error:
            call.refuse(place, error)
            return None
        hashed = content_hash(submission)
        state = self._replica.state
        known = state.dedupe.get(f"{submission.tenant}\0{submission.request_id}")
        if known is None:
            return hashed
        verdict, ticket = answer_known(state, known, hashed)
        is_same = verdict in (Verdict.KNOWN, Verdict.ENDED)
        if is_same:
            call.answer(place, Ticket(submission.request_id, ticket))
        else:
            call.refuse(place, error_of(verdict))
        return None

    def _admissions(self, fresh: Sequence[tuple[int, Submission, bytes]]) -> list[Admission]:
        """Return what the leader is asked, which judges it by the models' settings."""
        keys: dict[tuple[str, str, str], tuple[Key, int]] = {}
        found: list[Admission] = []
        for _, submission, hashed in fresh:
            tenant, request_id, *named, rows, payload, priority, timeout_ms, more, trace = (
                submission
            )
            model, version, signature = named
            known = keys.get((model, version, signature))
            if known is None:
                key: Key = (model, version or self.newest_version(model), signature)
                settings = self._replica.state.models.get(key[:2])
                default = 0 if settings is None else settings.default_priority_level
                known = keys[model, version, signature] = key, default
            if priority is None:
                priority = known[1]
            one = known[0], tenant, request_id, hashed, rows, priority, timeout_ms
            found.append(Admission(*one, payload, more, trace))
        return found

    def newest_version(self, model: str) -> str:
        """Return a model's newest version that is not being deleted; empty: there is none."""
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
            timeout_ms: how long to wait for the outcome; 0: not at all, nor to find out
                whether a request that this node does not know is known to anybody.

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
        known, left_ms = self._replica.state.request(tenant, request_id), float(timeout_ms)
        if known is None:
            loop = asyncio.get_running_loop()
            due = loop.time() + timeout_ms / 1000
            find_ms = min(timeout_ms, self._config.find_ms)
            known = await self._find(tenant, request_id, index, find_ms)
            self._check_open()  # who begins to wait after `close` is told by nobody
            left_ms = max(0.0, (due - loop.time()) * 1000)
        if isinstance(known, Request):
            ended = await self._ended(known, left_ms)
            if ended is None:
                return Waiting(Ticket(request_id, known.ticket))
        else:
            ended = outcome_or_error(known)
        if isinstance(ended, RaftbatchError):
            raise ended
        return ended

    async def find(self, tenant: str, request_id: str, index: int) -> None:
        """Return once this node knows a request, so that it can be watched.

        Args:
            tenant, request_id, index: see `outcome`.

        Raises:
            RaftbatchError: it does not, for as long as `find_ms`: see `outcome`.
        """
        self._check_open()
        check_name("tenant", tenant)
        check_name("request id", request_id)
        if self._replica.state.request(tenant, request_id) is None:
            await self._find(tenant, request_id, index, self._config.find_ms)

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

    def is_awaited(self, tenant: str, request_id: str) -> bool:
        """Return whether somebody waits on this node for what becomes of a request."""
        return f"{tenant}\0{request_id}" in self._waits

    async def _find(
        self, tenant: str, request_id: str, index: int, limit_ms: int
    ) -> Request | Outcome:
        """Return a request that this node does not know yet."""
        if index > self._replica.index:
            if not await self._index_waits.wait(index, limit_ms):
                raise self._behind(request_id, limit_ms)
        elif not index:
            try:
                async with asyncio.timeout(limit_ms / 1000):
                    await self._log.barrier()
            except TimeoutError:
                raise self._behind(request_id, limit_ms) from None
        known = self._replica.state.request(tenant, request_id)
        if known is None:
            raise error_of(Verdict.UNKNOWN_REQUEST)
        return known

    async def _ended(self, request: Request, timeout_ms: float) -> Outcome | RaftbatchError | None:
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

    def _behind(self, request_id: str, limit_ms: int = 1) -> NoLeader:
        again = "again" if limit_ms else "with time to find out: a wait above 0"
        return NoLeader(
            f"{self._node} has applied {self._replica.index} and does not know {request_id!r}: "
            f"ask another node, or {again}",
            retry_after_ms=_RETRY_AFTER_MS,
        )


def _tell(
    found: asyncio.Future[Outcome | RaftbatchError | None], result: Outcome | RaftbatchError | None
) -> None:
    if not found.done():
        found.set_result(result)
