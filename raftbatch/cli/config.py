"""`raftbatch config`: look at a configuration file.

Commands import what they need of `coordinator` inside their function.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Any

import typer

from raftbatch.cli.calls import usage
from raftbatch.cli.text import Table, printable, terminal

app = typer.Typer(name="config", no_args_is_help=True, help="Look at a configuration file.")


@app.callback()
def _group() -> None:
    """Look at a configuration file."""


@app.command()
def check(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A cluster's configuration.")],
    as_json: Annotated[bool, typer.Option("--json", help="All that was found, as JSON.")] = False,
) -> None:
    """Read a configuration file and print what it says, defaults included, or what is wrong.

    Exit status: 0 it is right, 2 it is not.
    """
    from coordinator.config import load_all
    from raftbatch.errors import InvalidRequest
    from raftbatch.realworld import RealFiles

    try:
        nodes = load_all(RealFiles(), file)
    except InvalidRequest as error:
        raise usage(error.message) from None
    tables = _tables(nodes[0])
    if as_json:
        typer.echo(json.dumps({"cluster": nodes[0].cluster.name, "nodes": _nodes(nodes)} | tables))
        return
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
    for name, values in tables.items():
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
    }
