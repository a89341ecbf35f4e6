"""Tables that can be captured in no time, and written to while the capture is read.

In ordinary times a table is a plain dict. A capture freezes it: from then on an
`Overlay` stands in its place, which keeps what is written beside the frozen
dict, with tombstones for what is removed. Once the capture is released, what was
written moves into the dict in bounded steps; then the dict stands alone again.
What lives here: that mechanism. What must never live here: what a table holds.
Called by: `state`. Values in a table are immutable. Total. Deterministic, but
for the order of iteration, which nobody may use: `ordered` sorts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class _Gone:
    """Stands for a value that was removed."""

    __slots__ = ()


_GONE = _Gone()


class Overlay(MutableMapping[K, V], Generic[K, V]):
    """A frozen table and what was written since.

    Args:
        base: the table that is frozen; nobody else writes to it.

    Attributes:
        is_held: whether the capture that froze the base is still read.
    """

    __slots__ = ("_base", "_length", "_written", "is_held")

    def __init__(self, base: MutableMapping[K, V]) -> None:
        self._base = base
        self._written: dict[K, V | _Gone] = {}
        self._length = len(base)
        self.is_held = True

    def __getitem__(self, key: K) -> V:
        found = self._written.get(key)
        if found is None:
            return self._base[key]
        if isinstance(found, _Gone):
            raise KeyError(key)
        return found

    def __setitem__(self, key: K, value: V) -> None:
        if key not in self:
            self._length += 1
        if self.is_held:
            self._written[key] = value
        else:
            self._base[key] = value
            self._written.pop(key, None)

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._length -= 1
        if self.is_held:
            self._written[key] = _GONE
        else:
            self._base.pop(key, None)
            self._written.pop(key, None)

    def __contains__(self, key: object) -> bool:
        found = self._written.get(key)  # type: ignore[arg-type]
        return key in self._base if found is None else found is not _GONE

    def __iter__(self) -> Iterator[K]:
        for key in self._base:
            if self._written.get(key) is not _GONE:
                yield key
        for key, value in self._written.items():
            if value is not _GONE and key not in self._base:
                yield key

    def __len__(self) -> int:
        return self._length

    def merge(self, steps: int) -> MutableMapping[K, V]:
        """Move up to so many writes into the base; return what is to be used from now on.

        That may be another overlay, where this one was taken while that was being merged.
        """
        if self.is_held:
            return self
        while steps and self._written:
            key, value = self._written.popitem()
            if not isinstance(value, _Gone):
                self._base[key] = value
            else:
                self._base.pop(key, None)
            steps -= 1
        return self if self._written else self._base


def ordered(table: Mapping[K, V]) -> list[K]:
    """Return the keys in their order. Of numbers written in rising order: as fast as a copy."""
    keys = list(table)
    keys.sort()
    return keys
