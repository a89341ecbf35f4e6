"""A loop on virtual time that somebody looks at after each event.

What lives here: that loop. What must never live here: what is looked at. Called by:
the raft suites.
"""

from __future__ import annotations

from collections.abc import Callable

from chaos.worlds.loop import VirtualLoop


class WatchedLoop(VirtualLoop):
    """See the module's docstring.

    Attributes:
        watch: called after each event; what it raises ends the run.
    """

    watch: Callable[[], None] | None = None

    def _advance(self, deadline_ns: int | None) -> bool:
        ran = super()._advance(deadline_ns)
        if ran and self.watch is not None:
            self.watch()
        return ran
