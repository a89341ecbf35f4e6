"""The term of every entry of the log.

What lives here: `Terms`. What must never live here: an entry. Called by: the
journal, replay. Total. Deterministic.
"""

from __future__ import annotations

from bisect import bisect_right


class Terms:
    """The term of every entry, as runs: one pair per change of term."""

    def __init__(self, base_index: int, base_term: int) -> None:
        self._firsts = [base_index]
        self._terms = [base_term]

    @property
    def newest(self) -> int:
        """The term of the last entry."""
        return self._terms[-1]

    @property
    def base(self) -> int:
        """The lowest index whose term is known."""
        return self._firsts[0]

    def of(self, index: int) -> int:
        """Return the term at an index that is at or above the base and not above the last."""
        if index >= self._firsts[-1]:  # nearly always
            return self._terms[-1]
        return self._terms[bisect_right(self._firsts, index) - 1]

    def append(self, index: int, term: int) -> None:
        """Note the entry after the last."""
        if term != self._terms[-1]:
            self._firsts.append(index)
            self._terms.append(term)

    def keep(self, index: int, term: int) -> None:
        """Forget entries above `index`, whose term is `term`."""
        while len(self._firsts) > 1 and self._firsts[-1] > index:
            del self._firsts[-1], self._terms[-1]
        if self._firsts[0] > index:
            self.reset(index, term)

    def reset(self, index: int, term: int) -> None:
        """Forget all: the log begins behind `index`."""
        self._firsts, self._terms = [index], [term]

    def forget_below(self, index: int) -> None:
        """Forget the terms of entries below `index`, which is at most the last."""
        at = bisect_right(self._firsts, index) - 1
        if at < 0:
            return  # the log begins behind it already
        del self._firsts[:at], self._terms[:at]
        self._firsts[0] = index
