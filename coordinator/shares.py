"""Fair shares of what is bounded for all callers together: none may take all of it.

A caller may have half of what others leave: half of all where it is alone. So whoever comes finds
room, however much others would like, and nothing is kept aside for callers that are not there.
Callers are told apart by their certificates; where nobody shows one, by connection, and all
connections of a machine may have three quarters of what other machines leave.

Whose call it is stands in the context of its task (`CALLER`), which all tasks made for it inherit:
it concerns nobody between the door and what is counted.

What lives here: that count. What must never live here: who somebody is (`rpc.callers`). Called by:
waits, the forwarder. One thread: the loop's.
"""

from __future__ import annotations

from collections import Counter
from contextvars import ContextVar

from raftbatch.errors import Overloaded

Caller = tuple[str, ...]
"""What a caller is called by: in the end itself, and before that what it is one of. Nothing: it is
no caller's, as within a node."""

CALLER: ContextVar[Caller] = ContextVar("caller", default=())


class Shares:
    """Counts what callers have of something.

    Args:
        most: of all together.
        what: they have or do, in the plural, as in "9 calls wait".
        setting: the name of `most`.
        retry_ms: when to come again.
        first_is_free: whether one who has nothing may have whatever there is room for.
    """

    def __init__(
        self, most: int, what: str, setting: str, retry_ms: int, *, first_is_free: bool = False
    ) -> None:
        self._most, self._what, self._setting = most, what, setting
        self._retry_ms = retry_ms
        self._first_is_free = first_is_free
        self._of: Counter[str] = Counter()
        self.total = 0

    def check(self, count: int) -> None:
        """Refuse so much more for the caller of this task.

        Raises:
            Overloaded: definite; it is more than may be, of all or of this caller.
        """
        total, most = self.total, self._most
        if total + count > most:
            raise Overloaded(
                f"{total} {self._what} already, of {most} that may ({self._setting})",
                retry_after_ms=self._retry_ms,
            )
        caller = CALLER.get()
        for who in caller:
            own = self._of[who]
            left = most - (total - own)
            share, said = (left // 2, "half") if who == caller[-1] else (left * 3 // 4, "3/4")
            if own + count > max(1, share) and (own or not self._first_is_free):
                raise Overloaded(
                    f"{own} {self._what} already for {who}, and {total - own} for others: one "
                    f"caller may have {said} of what others leave of {self._setting} = {most}",
                    retry_after_ms=self._retry_ms,
                )

    def take(self, count: int = 1) -> Caller:
        """Count so much more, which was checked; return what `give` takes."""
        caller = CALLER.get()
        self.total += count
        for who in caller:
            self._of[who] += count
        return caller

    def give(self, caller: Caller, count: int = 1) -> None:
        """Count so much less."""
        self.total -= count
        for who in caller:
            self._of[who] -= count
            if not self._of[who]:
                del self._of[who]
