"""What the demo shows while it runs: lines with the time, and how far it is.

On a terminal there is a bar below the lines; elsewhere a line for each tenth, so that a log
file can be read. What lives here: that. Called by: `scenario`, `__main__`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

_PARTS = 10  # lines, where there is no bar


class Screen:
    """See the module's docstring.

    Args:
        console: where to.
        now: a clock, in seconds.
    """

    def __init__(self, console: Console, now: Callable[[], float]) -> None:
        self._console = console
        self._now = now
        self._begun_s = now()

    def say(self, text: str, style: str = "") -> None:
        """Print a line with the time since the beginning."""
        self._print(f"{self._now() - self._begun_s:6.1f} s  {text}", style)

    def lines(self, lines: Sequence[str] = (), style: str = "") -> None:
        """Print lines as they are; none: an empty one."""
        for line in lines or ("",):
            self._print(line, style)

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[Callable[[], None]]:
        """Show how far something is; yield what counts one more."""
        if self._console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
            )
            with Progress(*columns, console=self._console, transient=True) as bar:
                task = bar.add_task(what, total=total)
                yield lambda: bar.advance(task)
            return
        done = 0

        def advance() -> None:
            nonlocal done
            done += 1
            if done * _PARTS // total > (done - 1) * _PARTS // total:
                self.say(f"{done:,} of {total:,} {what}")

        yield advance

    def _print(self, line: str, style: str) -> None:
        self._console.print(
            line, style=style or None, markup=False, highlight=False, soft_wrap=True, emoji=False
        )
