"""`raftbatch serve`: run one coordinator.

Imports of `coordinator` are inside the function: no other command needs them.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from raftbatch.cli.failing import USAGE, note_json, say

_EXIT_FAILED = 1
_EXIT_USAGE = 2

HELP = """\
Run one coordinator of the cluster that a configuration file describes.

An empty data directory starts with --bootstrap or --join alone, since a node that has lost
its disk has forgotten what it promised, and looks like a new one. --bootstrap begins a new
cluster: every node of the file is started with it, and all wait until each has said that it
is empty. --join adds this node to a cluster that runs, or adds it again after it has lost its
disk. On a directory that is not empty both do nothing, and may stay where they are.

SIGTERM, SIGINT and SIGHUP stop it: a leader hands over first. A second one ends it at once. A
hangup that was ignored when it was started, as by nohup, stays ignored.

Without certificates in the file it listens on loopback alone. --insecure says that the network is
trusted as it is: whoever reaches a port may do anything there.

Exit status: 0 stopped as it was told, 1 it could not start or had to stop, and standard error
says why, 2 wrong usage or a wrong configuration file.
"""


def serve(
    node: Annotated[
        str, typer.Option("--node", metavar="NAME", help="Which node of the file this is.")
    ],
    config: Annotated[
        str, typer.Option("--config", metavar="FILE", help="The cluster's configuration file.")
    ],
    bootstrap: Annotated[
        bool, typer.Option("--bootstrap", help="Begin a new cluster, if the directory is empty.")
    ] = False,
    join: Annotated[
        bool, typer.Option("--join", help="Join a cluster that runs, if the directory is empty.")
    ] = False,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure", help=r"Listen where other machines reach it, though there is no \[tls]."
        ),
    ] = False,
    as_json: Annotated[  # noqa: ARG001 - its callback takes it in
        bool,
        typer.Option("--json", callback=note_json, help="Why it failed as an object, too."),
    ] = False,
) -> None:
    """Run it, and exit with what came of it; see `HELP`."""
    from raftbatch.realworld.process import quiet_grpc

    quiet_grpc()
    from coordinator.config import load_node
    from coordinator.server import Server
    from coordinator.starting import Mode
    from raftbatch import logs
    from raftbatch.errors import Fatal, InvalidRequest
    from raftbatch.realworld import GivenFiles, RealProcess, RealWorld

    if bootstrap and join:
        raise typer.BadParameter("give --bootstrap or --join, not both")
    process, world = RealProcess(), RealWorld()
    try:
        told = load_node(GivenFiles(), config, node, is_insecure=insecure)
    except InvalidRequest as error:
        raise _failed(error.message, _EXIT_USAGE) from None
    logs.begin(sys.stderr)
    mode = Mode.BOOTSTRAP if bootstrap else Mode.JOIN if join else Mode.NEITHER
    try:
        tls, for_clients = _certificates(told)

        async def run() -> None:
            await Server(world, process, told, mode, tls, for_clients).run()

        process.run(run())
    except Fatal as error:
        raise _failed(str(error), _EXIT_FAILED) from None


def _certificates(told: Any) -> tuple[Any, Any]:
    """Return what the node shows on its peer port and HTTP port, and on its client port.

    Raises:
        CannotStart: a certificate is no use, or another node's.
    """
    from coordinator.rpc.port import credentials
    from raftbatch.realworld.tls import load_own, read_pem

    found = told.certificates
    if found is None:
        return None, None
    tls = load_own(found, told.node_id)
    pems = map(read_pem, (found.ca, found.cert, found.key))
    return tls, credentials(*pems, asks_clients=told.cluster.asks_clients)


def _failed(message: str, status: int) -> typer.Exit:
    """Say why; return what to raise."""
    say(message, USAGE if status == _EXIT_USAGE else "failed")
    return typer.Exit(status)
