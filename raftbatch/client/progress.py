"""A bar for many requests, where somebody watches.

What lives here: that. Called by: `mapping`. rich is imported only for a bar.
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from types import TracebackType
from typing import Any, Self


class Progress:
    """See the module's docstring. Entering it begins, leaving it ends.

    Args:
        is_wanted: whether there is to be a bar, if standard error is a terminal.
        items: what is worked on; its length is shown, where it has one.
    """

    def __init__(self, is_wanted: bool, items: Iterable[Any]) -> None:
        self._is_wanted = is_wanted
        self._total = len(items) if isinstance(items, Sized) else None
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        """Show the bar."""
        if self._is_wanted:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeRemainingColumn,
            )

            console = Console(stderr=True)
            if console.is_terminal:
                columns = (
                    TextColumn("{task.description}"),
                    BarColumn(),
                    MofNCompleteColumn(),
                    TimeRemainingColumn(),
                )
                self._bar = Progress(*columns, console=console)
                self._bar.start()
                self._task = self._bar.add_task("requests", total=self._total)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it; it stays to be read."""
        if self._bar is not None:
            self._bar.stop()

    def advance(self) -> None:
        """Count one more."""
        if self._bar is not None:
            self._bar.advance(self._task)
