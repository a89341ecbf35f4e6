"""The directory of a local cluster: its configuration, and who uses it.

    cluster.toml    the configuration that is used
    founded.json    what of it counted when the cluster was founded
    lock            who uses the directory
    logs, data      of the processes

What lives here: choosing and writing the configuration. What must never live here: a process.
Called by: `cluster`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any

from raftbatch.config import load, parse, tables_of
from raftbatch.errors import CannotStart, InvalidRequest
from raftbatch.local import configuration, ports
from raftbatch.local.configuration import Addresses
from raftbatch.realworld import GivenFiles, RealEntropy, RealFiles

NODES = 3

_FILE = "cluster.toml"
_FOUNDED = "founded.json"


class ClusterDirectory:
    """See the module's docstring. Made with the configuration chosen, and claimed until `release`.

    Args:
        path: of the directory.
        config, nodes, keeps_ports, check: as of `LocalCluster`.

    Attributes:
        path: of the directory.
        config: the configuration file in it.
        source: the file that people know it by.
        file: what it says, as all read it.
        values: all that it says.
        has_other_ports: whether the addresses were to be kept, and were in use.

    Raises:
        InvalidRequest: the configuration is wrong, or not that of the cluster in the directory.
        CannotStart: another process uses the directory, or it cannot be used.
    """

    def __init__(
        self,
        path: Path,
        config: Path | None,
        nodes: int | None,
        keeps_ports: bool,
        check: Callable[[str], object] | None = None,
    ) -> None:
        self._check = check or (lambda _path: None)
        self.path = path
        self.config = path / _FILE
        self.source = str(config or self.config)
        self.has_other_ports = False
        if config is not None and config.absolute() == self.config.absolute():
            raise InvalidRequest(
                f"{config} is what this directory uses: leave it out, or name another directory"
            )
        given = None if config is None else _read(config)
        self._files = RealFiles()
        is_new = not path.exists()
        try:
            (path / "logs").mkdir(parents=True, exist_ok=True)
            self._lock = self._files.lock(str(path / "lock"))
        except BlockingIOError as error:
            raise CannotStart(
                f"{path} is in use, {error.strerror}: stop that one, or name another directory"
            ) from None
        except OSError as error:
            raise CannotStart(f"{path} cannot be used: {error.strerror or error}") from None
        try:
            text = self._chosen(config, given, nodes, keeps_ports)
            self.values = _read(self.config) if text is None else self._parsed(text)
            self._check_founded()
            if text is not None:
                self._write(text)
            else:
                self._check(str(self.config))
            self.file = load(self._files, str(self.config))
        except BaseException:
            self._lock.release()
            if is_new:  # whatever is wrong, nothing is left of the try
                self._vanish()
            raise

    def data_dir(self, node: str) -> Path:
        """Return the data directory of a node."""
        return self.path / configuration.data_dir(self.values, node)

    def log_file(self, name: str) -> Path:
        """Return the log file of a process."""
        return self.path / "logs" / f"{name}.log"

    def note_founding(self) -> None:
        """Note what the cluster is founded with, if it is not yet."""
        if not self._has_data():
            told = json.dumps(configuration.founding(self.values), default=str)
            (self.path / _FOUNDED).write_text(told, "utf-8")

    def release(self) -> None:
        """Give the directory free. Harmless when called twice."""
        self._lock.release()

    def _vanish(self) -> None:
        """Remove the directory, which holds what `__init__` has made and nothing else."""
        with suppress(OSError):
            for name in (_FILE, "lock"):
                (self.path / name).unlink(missing_ok=True)
            (self.path / "logs").rmdir()
            self.path.rmdir()

    def _chosen(
        self,
        config: Path | None,
        given: dict[str, Any] | None,
        nodes: int | None,
        keeps_ports: bool,
    ) -> str | None:
        """Return the configuration to be written; None: what is there is to be used."""
        earlier: Addresses = {}
        if self.config.exists():
            earlier = configuration.addresses_of(_read(self.config), str(self.config))
        if config is None or given is None:
            if earlier:
                self._check_same(earlier, nodes or len(earlier))
                return None
            template = resources.files("raftbatch.local").joinpath(_FILE).read_text("utf-8")
            addresses = configuration.built_in_addresses(nodes or NODES)
            return configuration.built_in(template, self._placed(addresses, keeps_ports))
        addresses = configuration.addresses_of(given, str(config))
        if addresses and nodes is not None:
            raise InvalidRequest(f"{config} names its nodes itself: leave their number out")
        addresses = addresses or configuration.built_in_addresses(nodes or len(earlier) or NODES)
        if earlier and earlier.keys() != addresses.keys():
            raise InvalidRequest(
                f"{self.path} holds a cluster of the nodes {', '.join(earlier)}, not of "
                f"{', '.join(addresses)}: name another directory"
            )
        chosen = earlier or self._placed(addresses, keeps_ports)
        heading = f"Made from {config}, anew at each start with that file."
        return configuration.placed(given, str(config.absolute().parent), chosen, heading)

    def _write(self, text: str) -> None:
        """Write the configuration, if it is right."""
        new = self.config.with_suffix(".new")
        try:
            new.write_text(text, "utf-8")
            load(self._files, str(new)).operator()  # as we will be asked to show it
            self._check(str(new))
            new.replace(self.config)
        except InvalidRequest as error:
            new.unlink()
            raise InvalidRequest(error.message.replace(str(new), self.source)) from None
        except OSError as error:
            raise CannotStart(f"{new} cannot be written: {error.strerror or error}") from None

    def _check_founded(self) -> None:
        """Refuse what would count at the founding alone, and is not what it was then."""
        file = self.path / _FOUNDED
        if not file.exists() or not self._has_data():
            return
        then = json.loads(file.read_text("utf-8"))
        now = json.loads(json.dumps(configuration.founding(self.values), default=str))
        changed = [key for key in {**then, **now} if then.get(key) != now.get(key)]
        if changed:
            raise InvalidRequest(
                f"{self.source}: {', '.join(changed)}: not as when the cluster in {self.path} was "
                "founded, and read only then: name another directory, or remove "
                f"{self.path / 'data'} and with it all that is in the cluster"
            )

    def _check_same(self, earlier: Addresses, nodes: int) -> None:
        if len(earlier) != nodes:
            raise InvalidRequest(
                f"{self.path} holds a cluster of {len(earlier)}, not of {nodes}: leave the "
                "number out, name another directory, or remove this one and all that is in it"
            )

    def _has_data(self) -> bool:
        nodes = configuration.addresses_of(self.values, self.source)
        return any(self.data_dir(node).exists() for node in nodes)

    def _placed(self, wanted: Addresses, keeps_ports: bool) -> Addresses:
        """Return where the nodes of a new cluster are to be."""
        if keeps_ports:
            all_wanted = [each for keys in wanted.values() for each in keys.values()]
            if not ports.taken(all_wanted):
                return wanted
            self.has_other_ports = True
        free = ports.free_ports(sum(map(len, wanted.values())), RealEntropy())
        return {
            node: {key: f"127.0.0.1:{free.pop()}" for key in keys} for node, keys in wanted.items()
        }

    def _parsed(self, text: str) -> dict[str, Any]:
        return parse(text, self.source)


def _read(path: Path) -> dict[str, Any]:
    return tables_of(GivenFiles(), str(path))
