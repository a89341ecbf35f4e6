"""Whether deadlines are answered in time once all is healed.

What lives here: how late an outcome `expired` may be. What must never live here: whether
it was due (`scheduler_model`). Called by: `scheduler_model`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter

from chaos.checkers.scheduler_stories import Complain, Story
from raftbatch.settings import Policy


class Promptness:
    """See the module's docstring.

    Args:
        complain: told what is wrong.
        counts: what was counted.
        late_ms_max: by how much log time an outcome may follow its deadline, beside the time
            that those take which were due with it: an entry ends some, and one comes each tick.

    Attributes:
        healed_ms: log time since when deadlines are to be answered in time; None: not yet.
    """

    def __init__(self, complain: Complain, counts: Counter[str], late_ms_max: int) -> None:
        self.healed_ms: int | None = None
        self._complain = complain
        self._counts = counts
        self._late_ms_max = late_ms_max
        self._ended_ms: list[int] = []  # when each ended, in this order

    def expired(self, story: Story, now_ms: int, policy: Policy) -> None:
        """Judge an outcome `expired`."""
        self._ended_ms.append(now_ms)
        if self.healed_ms is None or story.deadline_ms <= self.healed_ms:
            return
        late_ms = now_ms - story.deadline_ms
        self._counts["late_ms_most"] = max(self._counts["late_ms_most"], late_ms)
        since = len(self._ended_ms) - bisect_right(self._ended_ms, story.deadline_ms)
        ticks = since // policy.expire_per_entry_max + 1
        if late_ms > self._late_ms_max + ticks * policy.tick_ms:
            self._complain(
                f"request {story.number} expires {late_ms} ms after its deadline, since when "
                f"{since} have expired, {policy.expire_per_entry_max} a tick of {policy.tick_ms} ms"
            )
