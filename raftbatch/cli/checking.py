"""What is wrong with a configuration, as far as it can be found before anything is started.

What lives here: reading it as nodes and executors do, and a look at this machine. What must never
live here: what a setting may be. Called by: `raftbatch config check`, `raftbatch up`. Imports of
`coordinator` and `executor` are inside functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def checked(file: str, *, is_insecure: bool = False) -> list[Any]:
    """Return what each node is told, once all of it is right, and what executors are told too.

    Raises:
        InvalidRequest: something is wrong; the message names file and key.
    """
    from coordinator.config import load_all
    from executor.config import executor_config
    from raftbatch.realworld import GivenFiles

    nodes = load_all(GivenFiles(), file, is_insecure=is_insecure)
    cluster = nodes[0].cluster
    models = cluster.rest["models"]
    if any(models.table(name).table("executor").values for name in models.values):
        executor_config(cluster.without_tls(), "any", cpus=1)  # certificates are each one's own
    return nodes


def unready(node: Any) -> list[str]:
    """Return why a node could not start on this machine, as it is now; nothing is changed.

    Args:
        node: a `coordinator.config.NodeConfig`.
    """
    return [*_certificates(node), *_ports(node), *_directory(node)]


def _certificates(node: Any) -> Iterator[str]:
    from raftbatch.errors import CannotStart
    from raftbatch.realworld.tls import load_own

    if node.certificates is not None:
        try:
            load_own(node.certificates, node.node_id)
        except CannotStart as error:
            yield str(error)


def _ports(node: Any) -> Iterator[str]:
    from raftbatch.local.ports import taken

    at = node.addresses
    for each in taken([at.peer_listen, at.client_listen, *filter(None, [at.http_listen])]):
        yield (
            f"nobody can listen at {each}: somebody does, perhaps this node, which runs already, "
            "or the address is not this machine's"
        )


def _directory(node: Any) -> Iterator[str]:
    from coordinator.raft.datadir import DataDirectory, journal_directory, snapshots_directory
    from raftbatch.errors import Fatal
    from raftbatch.realworld import RealWorld

    world, folder = RealWorld(), node.data_dir
    for part in (folder, journal_directory(folder), snapshots_directory(folder)):
        if why := world.files.obstacle(part):
            yield f"{folder} cannot be used: {why}"
            return
    try:
        if world.files.exists(folder) and DataDirectory.is_initialised(world, folder):
            identity = DataDirectory.whose(world, folder)
            if identity.node_id != node.node_id:
                yield f"{folder} is the data directory of {identity}"
        while not world.files.exists(folder):
            folder = folder.rpartition("/")[0] or ("/" if folder.startswith("/") else ".")
        left, low = world.files.space_left(folder), node.storage.journal.disk_low_bytes
    except Fatal as error:
        yield str(error)
    except OSError as error:
        yield f"{folder} cannot be used: {error.strerror or error}"
    else:
        if left < low:
            yield (
                f"{folder} has room for {left} bytes, and below storage.disk_low_bytes = {low} "
                "nothing is taken in"
            )
