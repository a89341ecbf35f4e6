"""What the effects of an entry have to be, collected by the model, and what they are.

What lives here: the comparison. What must never live here: who notes what. Called
by: `chaos.checkers.scheduler_model`, `scheduler_batches`. Deterministic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from chaos.checkers.scheduler_stories import Complain
from coordinator.core import effects as e


class Facts:
    """See the module's docstring.

    Args:
        complain: takes a broken promise.
    """

    def __init__(self, complain: Complain) -> None:
        self._complain = complain
        self._index = 0
        self._facts: Counter[tuple[object, ...]] = Counter()
        self._shed: dict[tuple[int, int], list[int]] = {}

    def begin(self, index: int) -> None:
        """Begin an entry."""
        self._index = index
        self._facts = Counter()
        self._shed = {}

    def note(self, *fact: object) -> None:
        """Note an effect that the entry must have."""
        self._facts[fact] += 1

    def shed(self, batch: int, fence: int, number: int) -> None:
        """Note a row that an executor must be told not to run."""
        self._shed.setdefault((batch, fence), []).append(number)

    def compare(self, effects: Sequence[e.Effect]) -> None:
        """Judge an entry's effects: those that its records had, and no others."""
        found: Counter[tuple[object, ...]] = Counter()
        shed: dict[tuple[int, int], list[int]] = {}
        for effect in effects:
            match effect:
                case e.Placed():
                    found["placed", *_where(effect)] += 1
                case e.Revoked():
                    found["revoked", *_where(effect)] += 1
                case e.Finished():
                    found["finished", *_where(effect)] += 1
                case e.Shed():
                    shed.setdefault((effect.batch, effect.fence), []).extend(effect.numbers)
                case e.BatchGone():
                    found["gone", effect.batch] += 1
                case e.BatchWaits():
                    found["waits", effect.batch] += 1
                case e.ExecutorChanged():
                    found["executor", effect.executor, effect.incarnation, effect.change] += 1
                case _:
                    pass
        if found != self._facts:
            more, less = found - self._facts, self._facts - found
            self._complain(
                f"entry {self._index} has the effects {[*more]}, which it must not, and lacks "
                f"{[*less]}"
            )
        if _sorted(shed) != _sorted(self._shed):
            self._complain(f"entry {self._index} sheds {shed}, not {self._shed}")


def _where(effect: e.Placed | e.Revoked | e.Finished) -> tuple[object, ...]:
    return effect.executor, effect.incarnation, effect.batch, effect.fence


def _sorted(shed: dict[tuple[int, int], list[int]]) -> dict[tuple[int, int], list[int]]:
    return {at: sorted(numbers) for at, numbers in shed.items()}
