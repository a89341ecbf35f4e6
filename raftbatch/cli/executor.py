"""`raftbatch executor`: run one executor.

Imports of `executor` are inside the function: no other command needs them.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Annotated

import typer

from raftbatch.cli.failing import USAGE, note_json, say

_EXIT_FAILED = 1
_EXIT_USAGE = 2

HELP = """\
Run one executor: it takes batches from the cluster that a configuration file describes, and
runs them on the models that have a table models.NAME.executor there.

Each instance of a model is a process of its own, which ends with this one. Models are loaded
and warmed up before it joins, so a model that cannot be loaded is told at once.

SIGTERM and SIGINT let it drain: it takes nothing new, ends what runs, and leaves. A second one
ends it at once: what it held is run elsewhere.

Exit status: 0 stopped as it was told, 1 it could not start or had to stop, and standard error
says why, 2 wrong usage or a wrong configuration file.
"""


def executor(
    executor_id: Annotated[
        str, typer.Option("--id", metavar="NAME", help="Its id: no two executors have the same.")
    ],
    config: Annotated[
        str, typer.Option("--config", metavar="FILE", help="The cluster's configuration file.")
    ],
    model: Annotated[
        list[str] | None,
        typer.Option("--model", metavar="NAME", help="Run this model alone; may be repeated."),
    ] = None,
    join: Annotated[
        float,
        typer.Option("--join", metavar="S", min=0.1, help="How long it tries to join at first."),
    ] = 30.0,
    drain: Annotated[
        float,
        typer.Option("--drain", metavar="S", min=0.0, help="How long what runs may take at last."),
    ] = 30.0,
    as_json: Annotated[  # noqa: ARG001 - its callback takes it in
        bool,
        typer.Option("--json", callback=note_json, help="Why it failed as an object, too."),
    ] = False,
) -> None:
    """Run it, and exit with what came of it; see `HELP`."""
    from raftbatch.realworld.process import quiet_grpc

    quiet_grpc()
    import grpc

    from coordinator.config import check_as_node
    from executor.children import RealChildren, cpus
    from executor.config import executor_config
    from executor.server import ExecutorServer
    from raftbatch import logs
    from raftbatch.config import load
    from raftbatch.errors import Fatal, InvalidRequest
    from raftbatch.realworld import GivenFiles, RealProcess, RealWorld
    from raftbatch.realworld.tls import read_shown

    process, world = RealProcess(), RealWorld()
    try:
        cluster = load(GivenFiles(), config)
        check_as_node(GivenFiles(), cluster)
        told = executor_config(cluster, executor_id, cpus(), model or ())
    except InvalidRequest as error:
        raise _failed(error.message, _EXIT_USAGE) from None
    told = replace(told, join_s=join, drain_s=drain)
    logs.begin(sys.stderr)
    try:
        credentials = None
        if told.certificates is not None:
            ca, cert, key = read_shown(told.certificates)
            credentials = grpc.ssl_channel_credentials(ca, key or None, cert or None)
        process.run(ExecutorServer(world, process, told, RealChildren(), credentials).run())
    except Fatal as error:
        raise _failed(str(error), _EXIT_FAILED) from None


def _failed(message: str, status: int) -> typer.Exit:
    """Say why; return what to raise."""
    say(message, USAGE if status == _EXIT_USAGE else "failed")
    return typer.Exit(status)
