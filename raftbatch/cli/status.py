"""`raftbatch status`: how it stands with each node of a cluster.

What lives here: asking all nodes, and a table of what they say. What must never
live here: a judgement that a node should make. Called by: the command line.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
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
from raftbatch.cli.text import Table, Write, counted, log_time, printable, terminal
from raftbatch.ids import is_address

if TYPE_CHECKING:
    from raftbatch.v1.admin_pb2 import (
        ExecutorStatus,
        SchedulerStatus,
        StatusReply,
        WindowStatus,
    )
    from raftbatch.v1.admin_pb2_grpc import AdminStub
    from raftbatch.v1.load_pb2 import ExecutorLoad

Note = tuple[str, str]
"""A line for people, and its style on a terminal."""

_NOTE, _LOUD = "yellow", "bold red"
_MIB = 1 << 20
_OTHERS_S = 1.0  # though the time be over, since a node that is stopped takes all of it

HELP = """\
Show how it stands with each node: who leads, how far each log is, whom each is connected to.

Below that, by the node that knows most: each model version, the requests for it that have no
outcome yet, and the executors that have it ready; the executors, with the load that they told
the leader; and the windows that gather.

Nodes are those of --config, and those that have joined them since, or the ones at the given
client addresses. Equal digests at equal applied indices mean that nodes have applied the same.
What a node waits for, why it refuses another, and how two files differ, stands below the table.

Exit status: 0 every node answered, 1 one did not, 2 wrong usage.
"""


def status(
    addresses: Annotated[
        list[str] | None, typer.Argument(metavar="HOST:PORT", help="Client addresses.")
    ] = None,
    config: ConfigOption = "",
    timeout_s: TimeoutOption = 3.0,
    as_json: JsonOption = False,
) -> None:
    """Print it; see `HELP`."""
    cluster = cluster_of(config, addresses or [])
    answers = run(statuses(cluster, timeout_s))
    if as_json:
        held = newest(answers)
        notes = [] if held is None else [note for note, _ in scheduler_notes(held.scheduler)]
        nodes = [_object(*each) for each in answers]
        typer.echo(json.dumps({"nodes": nodes, "notes": notes}))
    else:
        _print(answers)
    if any(isinstance(answer, str) for _, answer in answers):
        raise typer.Exit(EXIT_FAILED)


async def statuses(cluster: Cluster, timeout_s: float) -> list[tuple[Target, StatusReply | str]]:
    """Ask all nodes at once; return what each said, or why it said nothing.

    Where the file is to name them, those are asked too that are in the cluster and not in it, in
    what time is left, or a second.
    """
    time = asyncio.get_running_loop().time
    ends, least_s = time() + timeout_s, min(timeout_s, _OTHERS_S)

    async def one(target: Target) -> StatusReply | str:
        try:
            return await ask(cluster, target, _call, max(ends - time(), least_s))
        except CallFailed as error:
            return error.message

    async def all_of(targets: Sequence[Target]) -> list[tuple[Target, StatusReply | str]]:
        answers = await asyncio.gather(*(one(each) for each in targets))
        return list(zip(targets, answers, strict=True))

    found = await all_of(cluster.targets)
    if cluster.targets == cluster.known:
        found += await all_of(_others(cluster, [each for _, each in found]))
    return found


def _others(cluster: Cluster, answers: Sequence[StatusReply | str]) -> list[Target]:
    """Return the members that the file does not name, as those that answer know them."""
    named = {each.node for each in cluster.known} | {""}
    others: dict[str, str] = {}
    for answer in answers:
        for member in () if isinstance(answer, str) else answer.members:
            if member.node_id not in named and is_address(member.client_address):
                others[member.node_id] = member.client_address
    return [Target(address, node) for node, address in sorted(others.items())]


def newest(answers: list[tuple[Target, StatusReply | str]]) -> StatusReply | None:
    """Return what the node said of the scheduler that knows most: the leader, where it answers."""
    told = [each for _, each in answers if not isinstance(each, str) and each.HasField("scheduler")]
    return max(told, key=lambda each: (each.role == "leader", each.applied), default=None)


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
                "differs": each.differs,
            }
            for each in answer.peers
        ],
        "counters": dict(answer.counters),
        "scheduler": _scheduler_object(answer),
    }


def _scheduler_object(answer: StatusReply) -> dict[str, Any] | None:
    """Return what the scheduler holds as JSON has it: the message, field by field."""
    if not answer.HasField("scheduler"):
        return None
    found: dict[str, Any] = {}
    for field, value in _fields(answer.scheduler):
        is_list = field in ("windows", "executors", "models")
        found[field] = [dict(_fields(each)) for each in value] if is_list else value
    for window, shown in zip(answer.scheduler.windows, found["windows"], strict=True):
        shown["window_id"] = window_id(window)
    for executor, shown in zip(answer.scheduler.executors, found["executors"], strict=True):
        shown["load"] = _load_object(executor.load) if executor.HasField("load") else None
    return found


def _load_object(load: ExecutorLoad) -> dict[str, Any]:
    found = dict(_fields(load))
    for name in ("models", "devices"):
        found[name] = [dict(_fields(each)) for each in found[name]]
    return found


def window_id(window: WindowStatus) -> str:
    """Return what people call a window: `00:01:02.345/17`, in log time, which is no date."""
    return f"{log_time(window.opened_ms)}/{window.first_index}"


def _fields(message: Any) -> list[tuple[str, Any]]:
    return [(each.name, getattr(message, each.name)) for each in message.DESCRIPTOR.fields]


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
    notes: list[Note] = []
    for target, answer in answers:
        if isinstance(answer, str):
            table.add([target.node or target.address, "no answer", *["-"] * 7], "red")
            notes.append((answer, _NOTE))
            continue
        table.add(*_row(answer))
        notes += [
            (f"{answer.node_id} waits for {each.node_id}: {each.why}", _NOTE)
            for each in answer.waiting
        ]
        notes += [
            (f"{answer.node_id} and {each.node_id}: {each.refusal}", _NOTE)
            for each in answer.peers
            if each.refusal
        ]
        notes += [(each.differs, _NOTE) for each in answer.peers if each.differs]
    table.flush()
    held = newest(answers)
    if held is not None:
        print_scheduler(held.scheduler, write)
        notes += scheduler_notes(held.scheduler)
    for note, style in notes:
        write(printable(note), style)


def print_scheduler(held: SchedulerStatus, write: Write) -> None:
    """Print what the scheduler holds, by the node that knows most."""
    models = Table("models", ["model", " requests", " executors", "state"], write)
    for model in held.models:
        name = f"{model.name}/{model.version}"
        state = "being deleted" if model.deleting else "-" if model.executors else "no executor"
        cells = [name, str(model.requests), str(model.executors), state]
        models.add([printable(cell) for cell in cells], "" if state == "-" else "red")
    models.flush()
    columns = ["executor", " incarnation", " slots", " held", " running", " waiting", " cpu"]
    executors = Table("executors", [*columns, " memory", "state"], write)
    for each in held.executors:
        state = "suspended" if each.suspended else "draining" if each.draining else "-"
        cells = [each.executor, str(each.incarnation), str(each.slots), str(each.held)]
        cells += [*_load_cells(each), state]
        executors.add([printable(cell) for cell in cells], "" if state == "-" else "yellow")
    executors.flush()
    if held.windows:
        windows = Table("windows", ["window", "model", " requests", " rows"], write)
        for window in held.windows:
            name = f"{window.model}/{window.version}"
            cells = [window_id(window), name, str(window.requests), str(window.rows)]
            windows.add([printable(cell) for cell in cells], "")
        windows.flush()


def _load_cells(executor: ExecutorStatus) -> list[str]:
    """Return what an executor runs and takes; `-` for what is not known."""
    if not executor.HasField("load"):
        return ["-"] * 4
    load = executor.load
    used, most = load.memory_bytes, load.memory_limit_bytes
    memory = f"{used / _MIB:.0f}/{most / _MIB:.0f} MiB" if used and most else "-"
    return [str(load.running), str(load.waiting), f"{load.cpu_permille / 10:.0f}%", memory]


def scheduler_notes(held: SchedulerStatus) -> list[Note]:
    """Return what somebody should look at, the loudest first."""
    notes: list[Note] = []
    for model in held.models:
        if model.requests and not model.executors and not model.deleting:
            name = f"{model.name}/{model.version}"
            why = again(starting(held, model.name, model.version)) or "no executor has it ready"
            text = f"{model.requests} requests for {name} wait: {why}"
            notes.append((text, _LOUD))
    for what, total, shown in (
        ("models", held.models_total, len(held.models)),
        ("executors", held.executors_total, len(held.executors)),
        ("windows", held.windows_total, len(held.windows)),
    ):
        if total > shown:
            notes.append((f"{total - shown} more {what} are not shown", _NOTE))
    if held.quarantined:
        notes.append((f"{held.quarantined} requests are in quarantine", _NOTE))
    return notes


def starting(held: SchedulerStatus, name: str, version: str) -> int:
    """Return how many executors run a model by their last heartbeat, ready or not.

    Args:
        held: of a node; one that does not lead has heard of none.
        name: of the model.
        version: of it; empty: any.
    """
    return sum(
        any(model.name == name and version in ("", model.version) for model in each.load.models)
        for each in held.executors
    )


def again(executors: int) -> str:
    """Return what executors do that run a model and do not have it ready; empty: there is none."""
    if not executors:
        return ""
    does = "has it and is" if executors == 1 else "have it and are"
    return f"{counted(executors, 'executor')} {does} starting it again"


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
