"""The feed: what each executor is to hold, told to those who tail it, from any node.

A tail has no history. It remembers what it last told its executor, and a message
is the difference to what the state says when the reader takes it: first the
executor's whole current set, held against what it says it holds (`Current`), then
whatever changed since (`Changes`). Entries only mark that there may be something to
say. So a slow reader never makes a node keep more, many entries become one message,
and after a snapshot was installed the next message is right by itself.

    opened -> Current -> Changes -> Changes -> ... -> StaleIncarnation, or Draining

An executor that applies messages in order holds, after each, exactly what the
state at the message's index says that it is to hold, with the same rows.

It forgets an assignment only when its feed says so. `stale_fence`, the answer to a
report, comes from a node that may be ahead of the one that it tails: it reports no
more, and holds on; else a tail of a node behind would give it the same to run again.

What lives here: which tails are open, and what wakes them. What must never live
here: what a tail says (`tail`), or how a message travels. Called by: `api`, on the
loop; the replica, as a listener.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coordinator.core.effects import (
    Applied,
    Ended,
    ExecutorChanged,
    Finished,
    Placed,
    Revoked,
    Shed,
)
from coordinator.replica import Replica
from coordinator.tail import Tail, live, stale
from coordinator.waits import IndexWaits
from raftbatch import records as r
from raftbatch.errors import (
    Draining,
    InvalidRequest,
    NoLeader,
    Overloaded,
)

_RETRY_AFTER_MS = 1000
_OF_EXECUTORS = (Placed, Revoked, Shed, Finished, ExecutorChanged)


@dataclass(frozen=True, slots=True)
class FeedConfig:
    """Bounds of a feed.

    Attributes:
        tails_max: tails open at one time. Each keeps some words for every slot of its
            executor. More than `executors_max`, since a new tail may come before the
            node has seen the end of the old one.
        holdings_max: assignments that an executor may say it holds: not less than the
            1024 slots that it may have.
        catch_up_ms: how long a tail that has seen more than this node waits for it. Short:
            another node is a better answer than a long wait.
    """

    tails_max: int = 2000
    holdings_max: int = 2048
    catch_up_ms: int = 500


class Feed:
    """See the module's docstring.

    Args:
        replica: whose state it is.
        node: this node's name, for messages.
        config: bounds.

    Attributes:
        config: the same.
    """

    def __init__(self, replica: Replica, node: str, config: FeedConfig | None = None) -> None:
        self._replica = replica
        self._node = node
        self.config = config or FeedConfig()
        self._waits = IndexWaits(self.config.tails_max)
        self._tails: dict[str, Tail] = {}
        self._is_closed = False

    @property
    def tails(self) -> int:
        """How many are open."""
        return len(self._tails)

    async def open(
        self, executor: str, incarnation: int, held: Sequence[tuple[int, int]], seen_index: int
    ) -> Tail:
        """Return a tail of an executor's feed; an older one of the same executor ends.

        Args:
            executor: its id.
            incarnation: of its life.
            held: batch and fence of each assignment that it holds, running or not.
            seen_index: the highest index that any message told it; 0: none.

        Raises:
            InvalidRequest: definite; it cannot hold so much.
            NoLeader: definite; this node is behind what the executor has seen, and did not
                catch up in time: go to another.
            StaleIncarnation: definite; that life is over.
            Overloaded: definite; too many tails are open.
            Draining: definite; the node stops.
        """
        config = self.config
        if len(held) > config.holdings_max:
            raise InvalidRequest(f"{len(held)} assignments are held, at most {config.holdings_max}")
        keys = [(batch, fence) for batch, fence in held]
        # What it names is in the log up to there, so what is not in the state then is over.
        needed = max([seen_index, incarnation, *[fence for _, fence in keys]])
        self._check_open()
        if self._replica.index < needed and not await self._waits.wait(needed, config.catch_up_ms):
            raise NoLeader(
                f"{self._node} has applied {self._replica.index}, and {executor} has seen "
                f"{needed}: try another node",
            )
        self._check_open()
        if live(self._replica.state, executor, incarnation) is None:
            raise stale(executor, incarnation)
        older = self._tails.get(executor)
        if older is not None:
            older.end(InvalidRequest(f"another tail of {executor} has taken this one's place"))
        elif len(self._tails) >= config.tails_max:
            raise Overloaded(
                f"{config.tails_max} tails are open already", retry_after_ms=_RETRY_AFTER_MS
            )
        tail = self._tails[executor] = Tail(
            self._replica, executor, incarnation, keys, self._forget
        )
        return tail

    def close(self) -> None:
        """End all tails, and take no more: the node stops."""
        self._is_closed = True
        error = self._draining()
        self._waits.end(error)
        for tail in list(self._tails.values()):
            tail.end(error)

    # As a listener of the replica.

    def applied(self, index: int, _term: int, _entry: r.Entry, applied: Applied) -> None:
        """Mark whom an entry concerns."""
        self._waits.reached(index)
        if not self._tails:
            return
        batches = self._replica.state.batches
        for effect in applied.effects:
            if isinstance(effect, _OF_EXECUTORS):
                tail = self._tails.get(effect.executor)
                if tail is not None:
                    tail.mark(effect)
            elif isinstance(effect, Ended) and effect.batch:
                # A part of a report: the executor learns that it has landed.
                batch = batches.get(effect.batch)
                tail = None if batch is None else self._tails.get(batch.executor)
                if tail is not None:
                    tail.mark_batch(effect.batch)

    def installed(self) -> None:
        """Let every tail look at everything."""
        self._waits.reached(self._replica.index)
        for tail in self._tails.values():
            tail.mark_all()

    def _check_open(self) -> None:
        if self._is_closed:
            raise self._draining()

    def _draining(self) -> Draining:
        return Draining(f"{self._node} stops: tail from another node")

    def _forget(self, tail: Tail) -> None:
        if self._tails.get(tail.executor) is tail:
            del self._tails[tail.executor]
