"""Lines and columns of plain ASCII, for what commands print for a person.

What lives here: how numbers, times, bytes and tables look. What must never live
here: what they mean. Called by: the commands. Everything that comes from a disk
is made printable: a terminal must show it, never obey it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta

import typer

_EXIT_PIPE = 141  # what a shell reports of a program that SIGPIPE ended
_PREVIEW_BYTES = 16
_GATHERED_ROWS = 64  # how many rows of a table set the widths of its columns

Write = Callable[[str, str], None]
"""Told a line and the style it has on a terminal."""


def paragraphs(text: str) -> str:
    """Return a command's help with its lines joined, else each is broken as it is written.

    Typer reads help as rich's markup, in which `[nodes]` would be a style, and not be shown.
    """
    return re.sub(r"(?<!\n)\n(?!\n)", " ", text).replace("[", r"\[")


class Table:
    """Rows under a title, in columns as wide as the widest cell so far.

    The first rows are held back, so that they set the widths; after them each is
    printed at once, and a wider one widens its column from there on.
    """

    def __init__(self, title: str, columns: list[str], write: Write) -> None:
        self.title = title
        self._write = write
        # A column whose name begins with a space is one of numbers.
        self._right = [column.startswith(" ") for column in columns]
        self._widths = [0] * len(columns)
        self._rows: list[tuple[list[str], str]] = []
        self._gathering = True
        if title:
            self._rows.append(([title], "bold"))
            self._rows.append(([column.strip() for column in columns], "dim"))

    def add(self, cells: list[str], style: str) -> None:
        """Add a row; one of a single cell is a line across all columns."""
        self._rows.append((cells, style))
        if not self._gathering or len(self._rows) >= _GATHERED_ROWS:
            self.flush()
            self._gathering = False

    def flush(self) -> None:
        """Print what is held back."""
        for cells, _ in self._rows:
            if len(cells) > 1:
                self._widths = list(map(max, self._widths, map(len, cells)))
        for cells, style in self._rows:
            self._write(self._line(cells), style)
        self._rows = []

    def _line(self, cells: list[str]) -> str:
        if len(cells) > 1:
            aligned = zip(cells, self._widths, self._right, strict=True)
            cells = [c.rjust(width) if right else c.ljust(width) for c, width, right in aligned]
        return "  ".join(cells).rstrip()


def terminal() -> Write:
    """Return what writes a line to standard output: in colours where that is a terminal."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, markup=False, emoji=False)

    def write(line: str, style: str) -> None:
        if console.is_terminal:
            console.print(Text(line, style), soft_wrap=True)
        else:
            sys.stdout.write(line + "\n")

    return write


@contextmanager
def printing() -> Iterator[None]:
    """End a command quietly where nobody reads what it prints any more, as in `... | head`."""
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        with suppress(OSError):
            sys.stdout.close()  # else Python complains when it flushes it at its end
        raise typer.Exit(_EXIT_PIPE) from None


def hex_lines(data: bytes) -> Iterator[str]:
    """Yield all of the data, 16 bytes a line."""
    for start in range(0, len(data), 16):
        part = data[start : start + 16]
        yield f"    {start:08x}  {part.hex(' '):<47}  |{ascii_text(part)}|"


def ascii_text(data: bytes) -> str:
    """Return the bytes as characters, a dot for each that is not printable."""
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data)


def printable(text: str | None) -> str:
    """Return text from a disk or a command line so that a terminal shows it and obeys nothing."""
    return "".join(c if " " <= c <= "~" else ascii(c)[1:-1] for c in text or "")


def number_text(number: int | None) -> str:
    """Return a number; `-` for none."""
    return "-" if number is None else str(number)


def counted(number: int, noun: str) -> str:
    """Return `1 node`, `3 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def span(first: int | None, last: int | None) -> str:
    """Return `3..7`; `-` for none; `3..?` where only the first is known."""
    if first is None or (last is not None and last < first):
        return "-"
    return f"{first}..{'?' if last is None else last}"


def time_text(wall_ms: int | None) -> str:
    """Return a time; `-` for none."""
    return "-" if wall_ms is None else iso_time(wall_ms)


def iso_time(wall_ms: int) -> str:
    """Return milliseconds since 1970 as UTC, `2023-11-14T22:13:20.000Z`.

    The number itself for a year that `datetime` does not know. Total. Deterministic.
    """
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=wall_ms)
    except OverflowError:
        return str(wall_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def log_time(at_ms: int) -> str:
    """Return log time as `hours:minutes:seconds.milliseconds` since the cluster began."""
    seconds, ms = divmod(at_ms, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}.{ms:03}"


def preview(data: bytes) -> str:
    """Return the beginning of the data, and how many bytes more there are."""
    start, more = data[:_PREVIEW_BYTES], len(data) - _PREVIEW_BYTES
    return f"{start.hex()} |{ascii_text(start)}|{f' +{more}' if more > 0 else ''}" if start else ""
