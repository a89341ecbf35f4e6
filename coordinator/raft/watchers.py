"""Whoever acts on what a node is in its cluster, and is told when that has changed.

What lives here: whom to tell, and whether there is something to tell. What must never
live here: what it means. Called by: `driver`.
"""

from __future__ import annotations

from collections.abc import Callable


class Watchers:
    """See the module's docstring."""

    def __init__(self) -> None:
        self._watchers: list[Callable[[], None]] = []
        self._seen: tuple[object, ...] = ()

    def add(self, told: Callable[[], None]) -> None:
        """Tell it from now on."""
        self._watchers.append(told)

    def look(self, *seen: object) -> None:
        """Tell all, if this differs from what was seen last."""
        if self._seen != seen:
            self._seen = seen
            self.tell()

    def tell(self) -> None:
        """Tell all."""
        for told in self._watchers:
            told()
