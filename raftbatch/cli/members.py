"""`raftbatch members` and `raftbatch transfer`: who belongs to the cluster, and who leads it.

What lives here: these commands. What must never live here: what a change means
(`coordinator.raft.membership`). Called by: the command line.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from raftbatch.cli.calls import (
    AddressOption,
    CallFailed,
    Cluster,
    ConfigOption,
    JsonOption,
    TimeoutOption,
    ask_leader,
    check_address,
    cluster_of,
    run,
)
from raftbatch.cli.status import member_object, statuses
from raftbatch.cli.text import Table, paragraphs, printable, terminal
from raftbatch.handshakes import together

if TYPE_CHECKING:
    from raftbatch.v1.admin_pb2 import StatusReply
    from raftbatch.v1.admin_pb2_grpc import AdminStub

app = typer.Typer(name="members", no_args_is_help=True, help="Who belongs to the cluster.")

NodeArgument = Annotated[str, typer.Argument(metavar="NODE", help="The node's name.")]

EXITS = """\

One change at a time: while another is under way it is waited for. Whichever node is asked, the
command goes to the leader.

Exit status: 0 done, 1 refused or nobody could be asked, 2 wrong usage, 3 nobody knows: look at
`raftbatch members list`.
"""


@app.callback()
def _group() -> None:
    """Who belongs to the cluster."""


@app.command("list")
def list_members(
    config: ConfigOption = "",
    address: AddressOption = None,
    timeout_s: TimeoutOption = 3.0,
    as_json: JsonOption = False,
) -> None:
    """List the members, as the leader sees them; without one, as any node does."""
    found = run(_best(cluster_of(config, address or []), timeout_s))
    if as_json:
        members = [member_object(each) for each in found.members]
        typer.echo(json.dumps({"asked": found.node_id, "role": found.role, "members": members}))
        return
    write = terminal()
    columns = ["node", " incarnation", "rank", "address", "clients", " match", "feeding", "link"]
    table = Table(f"members, by {printable(found.node_id)} ({found.role})", columns, write)
    for member in found.members:
        progress = member.progress if member.HasField("progress") else None
        cells = [
            member.node_id,
            str(member.incarnation),
            member.rank,
            member.address,
            member.client_address or "-",
            str(progress.match) if progress else "-",
            progress.feeding if progress else "-",
            ("up" if progress.connected else "down") if progress else "-",
        ]
        table.add([printable(cell) for cell in cells], "")
    table.flush()


@app.command(epilog=paragraphs(EXITS))
def add(
    node: NodeArgument,
    peer: Annotated[
        str, typer.Argument(metavar="HOST:PORT", help="Where other coordinators reach it.")
    ],
    learner: Annotated[
        bool, typer.Option("--learner", help="It stays a learner, rather than to vote later.")
    ] = False,
    config: ConfigOption = "",
    address: AddressOption = None,
    timeout_s: TimeoutOption = 10.0,
    as_json: JsonOption = False,
) -> None:
    """Add a node by hand. A node that is started with --join does this by itself."""
    from raftbatch.v1 import admin_pb2

    check_address(peer)

    async def call(stub: AdminStub, left_s: float) -> Any:
        request = admin_pb2.AddRequest(node_id=node, address=peer, stays_learner=learner)
        return await stub.Add(request, timeout=left_s)

    reply = run(ask_leader(cluster_of(config, address or []), call, timeout_s))
    _done(
        as_json,
        f"{node} is a member, incarnation {reply.incarnation}",
        {"node": node, "incarnation": reply.incarnation},
    )


@app.command(epilog=paragraphs(EXITS))
def promote(
    node: NodeArgument,
    config: ConfigOption = "",
    address: AddressOption = None,
    timeout_s: TimeoutOption = 10.0,
    as_json: JsonOption = False,
) -> None:
    """Let a learner that has caught up vote."""
    from raftbatch.v1 import admin_pb2

    async def call(stub: AdminStub, left_s: float) -> Any:
        return await stub.Promote(admin_pb2.PromoteRequest(node_id=node), timeout=left_s)

    run(ask_leader(cluster_of(config, address or []), call, timeout_s))
    _done(as_json, f"{node} votes", {"node": node})


@app.command(epilog=paragraphs(EXITS))
def remove(
    node: NodeArgument,
    force: Annotated[
        bool,
        typer.Option("--force", help="Though too few voters would be left that are connected."),
    ] = False,
    config: ConfigOption = "",
    address: AddressOption = None,
    timeout_s: TimeoutOption = 10.0,
    as_json: JsonOption = False,
) -> None:
    """Remove a member, perhaps the leader; its process ends when it hears of that."""
    from raftbatch.v1 import admin_pb2

    async def call(stub: AdminStub, left_s: float) -> Any:
        return await stub.Remove(admin_pb2.RemoveRequest(node_id=node, force=force), timeout=left_s)

    run(ask_leader(cluster_of(config, address or []), call, timeout_s))
    _done(as_json, f"{node} is removed", {"node": node})


@app.command(epilog=paragraphs(EXITS))
def move(
    node: NodeArgument,
    peer: Annotated[
        str, typer.Argument(metavar="HOST:PORT", help="Where other coordinators reach it.")
    ],
    config: ConfigOption = "",
    address: AddressOption = None,
    timeout_s: TimeoutOption = 10.0,
    as_json: JsonOption = False,
) -> None:
    """Note another peer address of a member."""
    from raftbatch.v1 import admin_pb2

    check_address(peer)

    async def call(stub: AdminStub, left_s: float) -> Any:
        request = admin_pb2.MoveRequest(node_id=node, address=peer)
        return await stub.Move(request, timeout=left_s)

    run(ask_leader(cluster_of(config, address or []), call, timeout_s))
    _done(as_json, f"{node} is at {peer}", {"node": node, "address": peer})


def transfer(
    node: Annotated[
        str, typer.Argument(metavar="NODE", help="To whom; else to the voter that holds most.")
    ] = "",
    config: ConfigOption = "",
    address: AddressOption = None,
    timeout_s: TimeoutOption = 10.0,
    as_json: JsonOption = False,
) -> None:
    """Hand leadership to another voter; proposals are refused for the moment it takes."""
    from raftbatch.v1 import admin_pb2

    async def call(stub: AdminStub, left_s: float) -> Any:
        return await stub.Transfer(admin_pb2.TransferRequest(node_id=node), timeout=left_s)

    reply = run(ask_leader(cluster_of(config, address or []), call, timeout_s))
    told = f"{reply.node_id} leads already" if reply.led_already else f"{reply.node_id} leads"
    _done(as_json, told, {"leader": reply.node_id, "led_already": reply.led_already})


async def _best(cluster: Cluster, timeout_s: float) -> StatusReply:
    """Return the status of whoever leads in the highest term; else of whoever knows most."""
    told = await statuses(cluster, timeout_s)
    answers = [each for _, each in told]
    known = [each for each in answers if not isinstance(each, str) and each.cluster_id]
    if not known:
        texts = {str(target): each for target, each in told if isinstance(each, str)}
        raise CallFailed(together(texts) or "no node serves yet", "", is_definite=True)
    return max(known, key=lambda each: (each.role == "leader", each.term, each.applied))


def _done(as_json: bool, text: str, fields: dict[str, Any]) -> None:
    typer.echo(json.dumps(fields) if as_json else printable(text))
