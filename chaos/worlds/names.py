"""The directories of a simulated disk: a tree of names, each level with its own cache.

What lives here: names, finding a path among them, and which of them a power
loss may take. What must never live here: bytes (`chaos.worlds.content`), hooks
and descriptors (`chaos.worlds.disk`). Called by: `chaos.worlds.disk`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import NoReturn

from chaos.worlds.content import Fate, Inode


@dataclass(frozen=True, slots=True)
class NameChange:
    """A name taken away, a name given to a node, or both in one step."""

    operation: int
    removed: str | None
    added: str | None
    node: Node | None

    def apply(self, names: dict[str, Node]) -> None:
        """Change a table of names."""
        if self.removed is not None:
            names.pop(self.removed, None)
        if self.added is not None and self.node is not None:
            names[self.added] = self.node


@dataclass(eq=False, slots=True)
class Directory:
    """Names as every process sees them, as they surely are on disk, and the changes between."""

    names: dict[str, Node] = field(default_factory=dict)
    durable: dict[str, Node] = field(default_factory=dict)
    pending: list[NameChange] = field(default_factory=list)

    def change(
        self,
        operation: int,
        *,
        removed: str | None = None,
        added: str | None = None,
        node: Node | None = None,
    ) -> None:
        """Change the cache."""
        change = NameChange(operation, removed, added, node)
        change.apply(self.names)
        self.pending.append(change)

    def sync(self) -> None:
        """Make all pending changes durable."""
        for change in self.pending:
            change.apply(self.durable)
        self.pending.clear()

    def lose_power(self, fate: Fate, rng: Random) -> None:
        """Leave the names that are durable and those that survive."""
        self.pending = fate.survivors(rng, self.pending)
        self.sync()
        self.names = dict(self.durable)

    def nodes(self, *, every: bool) -> Iterator[Node]:
        """Yield what has a name; or `every` node that may have one after a power loss.

        Each node may come more than once; the order depends on nothing but history.
        """
        yield from self.names.values()
        if every:
            yield from self.durable.values()
            yield from (change.node for change in self.pending if change.node is not None)


Node = Inode | Directory


def walk(root: Directory, *, every: bool) -> list[Node]:
    """Return `root` and the nodes below it, each once, see `Directory.nodes`."""
    found: dict[int, Node] = {id(root): root}
    waiting = [root]
    while waiting:
        for node in waiting.pop().nodes(every=every):
            if id(node) not in found:
                found[id(node)] = node
                if isinstance(node, Directory):
                    waiting.append(node)
    return list(found.values())


def find(root: Directory, path: str) -> tuple[Directory, str, Node | None]:
    """Return the directory that holds the last part of `path`, that part, and what it names.

    The root is named "" in itself, as is the empty path, which names nothing.

    Raises:
        OSError: ENOENT or ENOTDIR, where a directory on the way is missing or none.
    """
    parts = [part for part in path.split("/") if part not in ("", ".")]
    directory = root
    for part in parts[:-1]:
        match directory.names.get(part):
            case Directory() as below:
                directory = below
            case None:
                fail(errno.ENOENT, path)
            case Inode():
                fail(errno.ENOTDIR, path)
    if not parts:
        return root, "", root if path else None
    return directory, parts[-1], directory.names.get(parts[-1])


def fail(number: int, path: str) -> NoReturn:
    """Raise the OSError of an errno, in the words of the system."""
    raise OSError(number, os.strerror(number), path)
