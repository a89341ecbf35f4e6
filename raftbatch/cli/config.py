"""`raftbatch config`: look at a configuration file.

Commands import what they need of `coordinator` inside their function.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Any

import typer

from raftbatch.cli.calls import EXIT_FAILED, usage
from raftbatch.cli.failing import note_json
from raftbatch.cli.text import Table, printable, terminal

app = typer.Typer(name="config", no_args_is_help=True, help="Look at a configuration file.")


@app.callback()
def _group() -> None:
    """Look at a configuration file."""


@app.command()
def check(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A cluster's configuration.")],
    node: Annotated[
        str,
        typer.Option(
            "--node", metavar="NAME", help="Look at this machine too, for this node to start on."
        ),
    ] = "",
    insecure: Annotated[
        bool, typer.Option("--insecure", help="As nodes are to be started with it.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", callback=note_json, help="All that was found, as JSON.")
    ] = False,
) -> None:
    """Read a configuration file and print what it says, defaults included, or what is wrong.

    What executors are told is looked at too, and limits that can never be reached, since others
    always come first. With --node: the node's certificates, its ports, its data directory and
    the space there, on the machine that this runs on.

    Exit status: 0 it is right, 1 a limit can never be reached, or the node could not start here,
    2 the file is wrong.
    """
    from coordinator.limits import sustained, unreachable
    from raftbatch.cli.checking import checked, unready
    from raftbatch.errors import InvalidRequest

    try:
        nodes = checked(file, is_insecure=insecure)
        chosen = nodes[0].cluster.node(node) and node if node else ""
    except InvalidRequest as error:
        raise usage(error.message) from None
    found = unreachable(nodes[0])
    missing = [text for each in nodes if each.node_id == chosen for text in unready(each)]
    if as_json:
        told = {"cluster": nodes[0].cluster.name, "nodes": _nodes(nodes)} | _tables(nodes[0])
        typer.echo(
            json.dumps(
                told | {"notes": sustained(nodes[0]), "unreachable": found, "unready": missing}
            )
        )
    else:
        _print(file, nodes)
        for text in sustained(nodes[0]):
            typer.echo(f"\nNote: {text}")
        for text in [*found, *(f"{chosen} cannot start here: {each}" for each in missing)]:
            typer.echo(f"Error: {printable(text)}", err=True)
    if found or missing:
        raise typer.Exit(EXIT_FAILED)


def _print(file: str, nodes: list[Any]) -> None:
    write = terminal()
    first = nodes[0].cluster
    security = "TLS" if first.is_secure else "no TLS"
    write(printable(f"{file}: cluster {first.name}, {len(nodes)} nodes, {security}"), "bold")
    listening = ["peer_listen", "client_listen", "http_listen"]
    columns = ["node", "peer", "client", "http", *listening, "data_dir"]
    table = Table("", columns, write)
    table.add(columns, "dim")
    for each in _nodes(nodes):
        table.add([printable(each[column]) or "-" for column in columns], "")
    table.flush()
    for name, values in _tables(nodes[0]).items():
        write("", "")
        write(f"[{name}]", "bold")
        for key, value in values.items():
            write(f"{key} = {value:_}", "")


def _nodes(nodes: list[Any]) -> list[dict[str, str]]:
    return [
        {
            "node": each.node_id,
            "peer": each.addresses.peer,
            "client": each.addresses.client,
            "http": each.addresses.http,
            "peer_listen": each.addresses.peer_listen,
            "client_listen": each.addresses.client_listen,
            "http_listen": each.addresses.http_listen,
            "data_dir": each.data_dir,
        }
        for each in nodes
    ]


def _tables(node: Any) -> dict[str, dict[str, int]]:
    """Return the settings that all nodes share, as the file would have them."""
    log = dataclasses.asdict(node.log)
    timing, window = log.pop("timing"), log.pop("window")
    storage = dataclasses.asdict(node.storage)
    return {
        "timing": timing,
        "log": window | log,
        "storage": storage["journal"] | storage["snapshots"] | storage["retention"],
        "transport": dataclasses.asdict(node.transport),
        "server": dataclasses.asdict(node.server),
        "sessions": dataclasses.asdict(node.sessions),
    }
