"""`raftbatch up`: a cluster on this machine, in one command.

What lives here: starting it, telling what happens to it, and stopping it. What must never live
here: how that is done (`raftbatch.local`). Called by: the command line.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from raftbatch.cli.calls import EXIT_FAILED, JsonOption, usage
from raftbatch.cli.text import printable

if TYPE_CHECKING:
    from raftbatch.cli.up_view import View
    from raftbatch.local import LocalCluster
    from raftbatch.world import Process

HELP = """\
Run a cluster on this machine: coordinators and executors, each a process, until Ctrl-C.

Without CONFIG it runs a model that gives back the text that it gets. CONFIG is a cluster's
configuration, of which a copy with addresses of this machine is used; it may leave out [nodes]
and [cluster], so that models alone are enough: `raftbatch models check FILE --toml` writes them.

Data, logs and the configuration that is used are in the folder raftbatch-data, or --directory. The
first start founds the cluster there; later ones go on with what it holds, at the same addresses.
A new cluster's nodes listen at the addresses of CONFIG, or from 127.0.0.1:8001 on; where one of
them is in use, all get free ones instead, and that is said.

What dies is started again, after a pause that grows while it keeps dying. Ctrl-C, SIGTERM and
SIGHUP stop all, and keep the data; a second one ends all at once. Nothing outlives this command.

Exit status: 0 stopped as it was told, 1 it could not start, and standard error says why, 2 wrong
usage or a wrong configuration file.
"""

_NODES = (1, 3, 5)
_EXECUTORS_MAX = 32
_LOOK_S = 0.5
_STOP_MS = 20_000  # all in all; the cluster's own bound is below it


def up(
    config: Annotated[
        str | None, typer.Argument(metavar="CONFIG", help="A cluster's configuration, or models.")
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option("--nodes", metavar="1|3|5", help="Coordinators; 3, where CONFIG names none."),
    ] = None,
    executors: Annotated[
        int | None,
        typer.Option("--executors", metavar="N", min=0, max=_EXECUTORS_MAX, help="Executors; 2."),
    ] = None,
    directory: Annotated[
        str, typer.Option("--directory", metavar="DIR", help="Where its data is, or will be.")
    ] = "raftbatch-data",
    temporary: Annotated[
        bool, typer.Option("--temporary", help="A new directory, removed at the end.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run it; see `HELP`."""
    if nodes is not None and nodes not in _NODES:
        raise usage(f"--nodes {nodes}: it is 1, 3 or 5; of an even number no more may die")
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from raftbatch.cli.checking import checked
    from raftbatch.cli.up_view import view
    from raftbatch.errors import CannotStart, InvalidRequest
    from raftbatch.local import LocalCluster
    from raftbatch.realworld import RealProcess

    process = RealProcess()
    with ExitStack() as stack:
        if temporary:
            directory = stack.enter_context(TemporaryDirectory(prefix="raftbatch-"))
        try:
            cluster = LocalCluster(
                Path(directory),
                config=None if config is None else Path(config),
                nodes=nodes,
                executors=executors,
                keeps_ports=True,
                check=checked,
            )
            stack.enter_context(cluster)
            shown = view(cluster, is_kept=not temporary, as_json=as_json)
            process.run(_run(process, cluster, shown))
        except InvalidRequest as error:
            raise usage(error.message) from None
        except CannotStart as error:
            for number, line in enumerate(str(error).splitlines()):
                typer.echo(printable(line if number else f"Error: {line}"), err=True)
            raise typer.Exit(EXIT_FAILED) from None


async def _run(process: Process, cluster: LocalCluster, view: View) -> None:
    """Start all, tell what happens, and stop all when a signal comes."""
    stopped = asyncio.Event()
    process.on_stop(lambda _signal: stopped.set(), _STOP_MS)
    await asyncio.to_thread(cluster.start)
    view.started()
    try:
        while not stopped.is_set() and (missing := await asyncio.to_thread(cluster.missing)):
            view.waiting(missing)
            await _pause(stopped, _LOOK_S / 2)
    finally:
        view.waiting("")
    if not stopped.is_set():
        await _watch(cluster, view, stopped)
    view.stopping()
    await asyncio.to_thread(cluster.close)
    view.stopped()


async def _watch(cluster: LocalCluster, view: View, stopped: asyncio.Event) -> None:
    """Tell who leads and who dies, and start those again, until a signal comes."""
    from raftbatch.local.supervisor import Supervisor
    from raftbatch.realworld import RealClock

    supervisor = Supervisor(cluster, RealClock())
    view.ready(await asyncio.to_thread(cluster.look_for_leader))
    while not stopped.is_set():
        for event in await asyncio.to_thread(supervisor.look):
            view.happened(event)
        view.leads(await asyncio.to_thread(cluster.look_for_leader))
        await _pause(stopped, _LOOK_S)


async def _pause(stopped: asyncio.Event, pause_s: float) -> None:
    try:
        async with asyncio.timeout(pause_s):
            await stopped.wait()
    except TimeoutError:
        pass
