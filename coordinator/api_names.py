"""What clients say of many requests by their ids: cancel, acknowledge, forget.

Many ids are few records, and each id has its own answer. What lives here: those calls.
What must never live here: a message's form, or a decision. Called by: doors, as a part
of `api`. One thread: the loop's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cached_property

from coordinator.answers import error_of
from coordinator.api_base import ApiBase, Name
from coordinator.cancelling import Cancelling
from coordinator.core.admission import ids_after_ms, retry_after_ms
from coordinator.core.effects import Verdict, Verdicts
from coordinator.core.room import has_ids
from coordinator.proposer import copy_of
from coordinator.submission import check_names
from raftbatch import records as r
from raftbatch.errors import InvalidRequest, RaftbatchError

_NAMES = 1024
"""Ids of one record: an entry is applied in one turn of the loop."""

_NO_OUTCOME = "the request has no outcome yet"


class NamesApi(ApiBase):
    """See the module's docstring."""

    @cached_property
    def _cancelling(self) -> Cancelling:
        return Cancelling()

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
        self._check_names(names)
        self._check_open()
        if names and not self._leader.is_ready:
            await self._leader.ready()
        answers = (Verdict.OK, Verdict.ENDED, Verdict.UNKNOWN_REQUEST)
        with self._cancelling.taken(self._replica.state, names) as refused:
            rest = [name for place, name in enumerate(names) if place not in refused]
            done = iter(await self._for_each(r.Cancel, rest, answers))
        return [refused.get(place) or next(done) for place in range(len(names))]

    async def acknowledge(self, names: Sequence[Name]) -> list[Verdict | RaftbatchError]:
        """Note that outcomes were read: their bytes go, the ids stay known.

        Returns:
            for each: OK; or UnknownRequest, or InvalidRequest: it has no outcome yet.

        Raises:
            InvalidRequest: definite; a name is none, or there are too many.
            RaftbatchError: the leader's.
        """
        return await self._drop(r.Acknowledge, names)

    async def forget(self, names: Sequence[Name]) -> list[Verdict | RaftbatchError]:
        """Purge outcomes, as operators may; else as `acknowledge`."""
        return await self._drop(r.Forget, names)

    async def _drop(
        self, kind: type[r.Acknowledge | r.Forget], names: Sequence[Name]
    ) -> list[Verdict | RaftbatchError]:
        """Have outcomes dropped; what has nothing to drop is answered without an entry.

        Else whoever says so for nothing, over and over, would fill the log. Nothing is said of
        them before a barrier: a client may have read on another node what is not applied here.
        """
        self._check_names(names)
        if self._are_kept(names):  # as mostly
            return await self._for_each(kind, names, (Verdict.OK,))
        answers = [self._without_drop(name) for name in names]
        if any(answer is not None for answer in answers):
            self._check_open()
            if not self._leader.is_ready:
                await self._leader.ready()
            await self._log.barrier()
            self._check_open()  # it may have erred meanwhile
            answers = [self._without_drop(name) for name in names]
        rest = [name for name, answer in zip(names, answers, strict=True) if answer is None]
        dropped = iter(await self._for_each(kind, rest, (Verdict.OK,)))
        return [next(dropped) if answer is None else answer for answer in answers]

    def _are_kept(self, names: Sequence[Name]) -> bool:
        """Return whether there is an outcome to drop of each."""
        state = self._replica.state
        ended = state.ended
        known = map(state.dedupe.get, map("\0".join, names))
        return all(each is not None and each < 0 and ended[~each].is_kept for each in known)

    def _without_drop(self, name: Name) -> Verdict | RaftbatchError | None:
        """Return what is said of an id where nothing is kept of it here; None: there is."""
        state = self._replica.state
        known = state.dedupe.get("\0".join(name))
        if known is None:
            return error_of(Verdict.UNKNOWN_REQUEST)
        if known >= 0:
            return InvalidRequest(_NO_OUTCOME)
        return None if state.ended[~known].is_kept else Verdict.OK

    async def _for_each(
        self,
        kind: type[r.Cancel | r.Acknowledge | r.Forget],
        names: Sequence[Name],
        answers: tuple[Verdict, ...],
    ) -> list[Verdict | RaftbatchError]:
        """Return what was done with each name, which are checked; few records stand for many names.

        Raises:
            RaftbatchError: the leader's; where some were done, it is the others' answer.
        """
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

    def _check_names(self, names: Sequence[Name]) -> None:
        if len(names) > self._config.names_max:
            raise InvalidRequest(f"{len(names)} ids at once, at most {self._config.names_max}")
        check_names("tenant", list({tenant: None for tenant, _ in names}))
        check_names("request id", [request_id for _, request_id in names])

    def _retry_ms(self, verdict: Verdict) -> int:
        """Return when to come back with what was refused; 0: never, by itself."""
        state = self._replica.state
        if verdict is Verdict.OVERLOADED and not has_ids(state, 1):
            return ids_after_ms(state, state.now_ms)
        for_load = (Verdict.OVERLOADED, Verdict.QUOTA_EXCEEDED)
        return retry_after_ms(state) if verdict in for_load else 0

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
        if not any(landed.verdicts):
            return [Verdict.OK] * len(names)
        said = dict(landed.messages)
        found: list[Verdict | RaftbatchError] = []
        for place, number in enumerate(landed.verdicts):
            verdict = Verdict(number)
            if verdict in answers:
                found.append(verdict)
            elif verdict is Verdict.VOID:
                found.append(InvalidRequest(_NO_OUTCOME))
            else:
                message = said.get(place, "")
                found.append(error_of(verdict, message, self._retry_ms(verdict)))
        return found
