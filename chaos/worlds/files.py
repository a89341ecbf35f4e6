"""The configuration files of a world, and the commands that its processes are started with.

Who founds the cluster is named in one file, as everybody has it. A node that joins has a file of
its own, which names it beside the founders, as docs/OPERATIONS.md has an operator write it.

What lives here: those. What must never live here: a process. Called by: `chaos.worlds.processes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from raftbatch.config import parse
from raftbatch.local import configuration, toml
from raftbatch.local.configuration import Addresses

_JOIN_S = 120
_DRAIN_S = 5
_KEYS = ("peer", "client")


class Files:
    """See the module's docstring.

    Args:
        directory: where they are written.
        config: of which they are made.
        values: what that holds.
        addresses: of all nodes there can be.
        founders: those that found the cluster.

    Attributes:
        config: the founders' file.
        whole: one that names everybody: the harness's own.
    """

    def __init__(
        self,
        directory: Path,
        config: Path,
        values: Mapping[str, Any],
        addresses: Addresses,
        founders: Sequence[str],
    ) -> None:
        self._directory = directory
        self._heading = f"Made from {config}."
        self._folder = str(config.absolute().parent)
        self._values = values
        self._addresses = addresses
        self._founders = tuple(founders)
        self.config = self._write("cluster.toml", self._founders)
        self.whole = self._write("cluster-whole.toml", tuple(addresses))

    def peer(self, node: str) -> str:
        """Return where other nodes reach a node."""
        return self._addresses[node]["peer"]

    def node(self, node: str, flags: Sequence[str] | None = None) -> list[str]:
        """Return what starts a node, after the program; as a unit file would, without `flags`."""
        config = self.config
        if node not in self._founders:
            config = self._write(f"cluster-{node}.toml", (*self._founders, node))
        # On a directory that is not empty this flag does nothing.
        given = ["--bootstrap"] if flags is None else flags
        return ["serve", "--node", node, "--config", str(config), *given]

    def executor(self, name: str) -> list[str]:
        """Return what starts an executor, after the program."""
        patience = ["--join", str(_JOIN_S), "--drain", str(_DRAIN_S)]
        return ["executor", "--id", name, "--config", str(self.config), *patience]

    def _write(self, name: str, nodes: Sequence[str]) -> Path:
        addresses = {node: self._addresses[node] for node in nodes}
        text = configuration.placed(self._values, self._folder, addresses, self._heading)
        values = parse(text, "the configuration made")
        values["storage"]["data_dir"] = "disks/{node}/data"
        path = self._directory / name
        path.write_text(text.partition("\n")[0] + "\n\n" + toml.document(values), "utf-8")
        return path


def spares(given: Addresses, count: int) -> Addresses:
    """Return so many more nodes, each with the kinds of addresses that all need."""
    free = (f"n{number}" for number in range(1, len(given) + count + 1))
    names = [name for name in free if name not in given][:count]
    return {name: dict.fromkeys(_KEYS, "") for name in names}
