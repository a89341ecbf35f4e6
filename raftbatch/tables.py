"""Tables of a configuration file, and what may stand in them.

What lives here: reading a key as what it should be; what is wrong is said with file, table and
key. What must never live here: which keys there are. Called by: whoever reads the file
(`raftbatch.config`, `coordinator.config`, `executor.config`). Total but for InvalidRequest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import PurePosixPath

from raftbatch.errors import InvalidRequest


class Table:
    """One table of the file, and where it stands: what is wrong with it is said with both.

    Args:
        path: the file.
        name: the table's, dotted; empty for the file's top.
        values: what it holds.
    """

    def __init__(self, path: str, name: str, values: Mapping[str, object]) -> None:
        self.path = path
        self.name = name
        self.values = values

    def wrong(self, key: str, problem: str) -> InvalidRequest:
        """Return the error to raise about a key; about the whole table where it is empty."""
        place = ".".join(part for part in (self.name, key) if part)
        return InvalidRequest(f"{self.path}: {place}{' ' if key else ': '}{problem}")

    def check_known(self, known: Iterable[str]) -> None:
        """Refuse keys that are not among these.

        Raises:
            InvalidRequest: there is one; the message names the nearest.
        """
        names = list(known)
        for key in self.values:
            if key not in names:
                nearest = get_close_matches(key, names, 1, 0.0)[0]
                raise self.wrong(key, f"is unknown: the nearest is {nearest}")

    def text(self, key: str, default: str | None = None) -> str:
        """Return a string that is not empty.

        Raises:
            InvalidRequest: it is none, or is missing and has no default.
        """
        value = self.values.get(key, default)
        if value is None:
            raise self.wrong(key, "is missing")
        if not isinstance(value, str) or not value:
            raise self.wrong(key, f"is {value!r}, which is no text")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false.

        Raises:
            InvalidRequest: it is neither.
        """
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, f"is {value!r}, which is neither true nor false")
        return value

    def whole(self, key: str, default: int) -> int:
        """Return a whole number; what it may be is the limits' own business.

        Raises:
            InvalidRequest: it is none.
        """
        value = self.values.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.wrong(key, f"is {value!r}, which is no whole number")
        return value

    def table(self, key: str) -> Table:
        """Return a table within; an empty one where there is none.

        Raises:
            InvalidRequest: it is no table.
        """
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, f"is {value!r}, which is no table")
        return Table(self.path, f"{self.name}.{key}" if self.name else key, value)

    def file(self, key: str, default: str | None = None) -> str:
        """Return a path, made absolute by the file's own folder.

        Raises:
            InvalidRequest: it is none, or is missing.
        """
        folder = PurePosixPath(self.path).parent
        return _normal(folder / self.text(key, default))


def _normal(path: PurePosixPath) -> str:
    """Return a path without `..` between its parts, as far as that is plain text."""
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts and parts[-1] not in ("..", "/"):
            parts.pop()
        else:
            parts.append(part)
    return str(PurePosixPath(*parts)) if parts else "."
