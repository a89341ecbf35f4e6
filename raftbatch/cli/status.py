"""`raftbatch status`: how it stands with each node of a cluster.

What lives here: asking all nodes, and a table of what they say. What must never
live here: a judgement that a node should make. Called by: the command line.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from raftbatch.cli.calls import (
    EXIT_FAILED,
    CallFailed,
    Cluster,
    ConfigOption,
    JsonOption,
    Target,
    TimeoutOption,
    ask,
    cluster_of,
    run,
)
from raftbatch.cli.text import Table, printable, terminal

if TYPE_CHECKING:
    from raftbatch.v1.admin_pb2 import StatusReply
    from raftbatch.v1.admin_pb2_grpc import AdminStub

HELP = """\
Show how it stands with each node: who leads, how far each log is, whom each is connected to.

Nodes are those of --config, or at the given client addresses. Equal digests at equal applied
indices mean that nodes have applied the same. What a node waits for, or why it refuses another,
stands below the table.

Exit status: 0 every node answered, 1 one did not, 2 wrong usage.
"""


def status(
    addresses: Annotated[
        list[str] | None, typer.Argument(metavar="[HOST:PORT]...", help="Client addresses.")
    ] = None,
    config: ConfigOption = "",
    timeout_s: TimeoutOption = 3.0,
    as_json: JsonOption = False,
) -> None:
    """Print it; see `HELP`."""
    cluster = cluster_of(config, addresses or [])
    answers = run(statuses(cluster, timeout_s))
    if as_json:
        typer.echo(json.dumps({"nodes": [_object(*each) for each in answers]}))
    else:
        _print(answers)
    if any(isinstance(answer, str) for _, answer in answers):
        raise typer.Exit(EXIT_FAILED)


async def statuses(cluster: Cluster, timeout_s: float) -> list[tuple[Target, StatusReply | str]]:
    """Ask all nodes at once; return what each said, or why it said nothing."""

    async def one(target: Target) -> StatusReply | str:
        try:
            return await ask(cluster, target, _call, timeout_s)
        except CallFailed as error:
            return error.message

    answers = await asyncio.gather(*(one(each) for each in cluster.targets))
    return list(zip(cluster.targets, answers, strict=True))


async def _call(stub: AdminStub, timeout_s: float) -> StatusReply:
    from raftbatch.v1 import admin_pb2

    reply: StatusReply = await stub.Status(admin_pb2.StatusRequest(), timeout=timeout_s)
    return reply


def _object(target: Target, answer: StatusReply | str) -> dict[str, Any]:
    """Return an answer as JSON has it; what the message calls `digest` in hexadecimal."""
    if isinstance(answer, str):
        return {"address": target.address, "node": target.node, "error": answer}
    return {
        "address": target.address,
        "node": answer.node_id,
        "phase": answer.phase,
        "waiting": {each.node_id: each.why for each in answer.waiting},
        "cluster_name": answer.cluster_name,
        "cluster_id": answer.cluster_id,
        "incarnation": answer.incarnation,
        "role": answer.role,
        "term": answer.term,
        "leader": answer.leader,
        "commit": answer.commit,
        "applied": answer.applied,
        "digest": answer.digest.hex(),
        "space": answer.space,
        "members": [member_object(each) for each in answer.members],
        "peers": [
            {
                "node": each.node_id,
                "address": each.address,
                "incarnation": each.incarnation,
                "queued_bytes": each.queued_bytes,
                "refusal": each.refusal,
            }
            for each in answer.peers
        ],
        "counters": dict(answer.counters),
    }


def member_object(member: Any) -> dict[str, Any]:
    """Return a member as JSON has it."""
    progress = None
    if member.HasField("progress"):
        progress = {
            "match": member.progress.match,
            "feeding": member.progress.feeding,
            "connected": member.progress.connected,
            "in_flight_bytes": member.progress.in_flight_bytes,
        }
    return {
        "node": member.node_id,
        "incarnation": member.incarnation,
        "rank": member.rank,
        "address": member.address,
        "client_address": member.client_address,
        "progress": progress,
    }


def _print(answers: list[tuple[Target, StatusReply | str]]) -> None:
    write = terminal()
    columns = [
        "node",
        "state",
        " term",
        "leader",
        " commit",
        " applied",
        "digest",
        "peers",
        "space",
    ]
    table = Table("nodes", columns, write)
    notes = []
    for target, answer in answers:
        if isinstance(answer, str):
            table.add([target.node or target.address, "no answer", *["-"] * 7], "red")
            notes.append(answer)
            continue
        table.add(*_row(answer))
        notes += [
            f"{answer.node_id} waits for {each.node_id}: {each.why}" for each in answer.waiting
        ]
        notes += [
            f"{answer.node_id} and {each.node_id}: {each.refusal}"
            for each in answer.peers
            if each.refusal
        ]
    table.flush()
    for note in notes:
        write(printable(note), "yellow")


def _row(answer: StatusReply) -> tuple[list[str], str]:
    is_serving = answer.phase == "serving"
    connected = [each.node_id for each in answer.peers if each.incarnation]
    cells = [
        answer.node_id,
        answer.role if is_serving else answer.phase,
        str(answer.term) if answer.cluster_id else "-",
        answer.leader or "-",
        str(answer.commit) if answer.cluster_id else "-",
        str(answer.applied) if answer.cluster_id else "-",
        answer.digest.hex()[:12] or "-",
        ",".join(connected) or "-",
        answer.space or "-",
    ]
    style = "bold" if answer.role == "leader" else "" if is_serving else "yellow"
    return [printable(cell) for cell in cells], style
