"""Why a request that waits may wait for long: nobody can run its model.

What lives here: that question, asked beside the request after some seconds, and its answer in
a line on standard error. What must never live here: the request. Called by: `raftbatch infer`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from raftbatch.cli.calls import Cluster
from raftbatch.cli.status import again, newest, starting, statuses
from raftbatch.cli.text import printable
from raftbatch.handshakes import together

if TYPE_CHECKING:
    from raftbatch.v1.admin_pb2 import SchedulerStatus

AFTER_S = 3.0
"""Far longer than a window and a run take where somebody runs the model."""

_STATUS_S = 2.0


def after_s(patience_s: float, timeout_s: float | None) -> float:
    """Return when it is asked: early enough to be read, where the wait itself is short.

    Args:
        patience_s: how long the answer is waited for.
        timeout_s: after which the request expires; None: it is not known.
    """
    wait_s = patience_s if timeout_s is None else min(patience_s, timeout_s)
    return min(AFTER_S, wait_s / 2)


async def say_if_nobody_runs(
    cluster: Cluster,
    model: str,
    version: str,
    pause_s: float = AFTER_S,
    say: Callable[[str], None] = lambda text: typer.echo(text, err=True),
) -> None:
    """Wait, then say so if no executor has a model ready; to be cancelled once there is an answer.

    Args:
        cluster: whom to ask.
        model: its name.
        version: of it; empty: the newest.
        pause_s: how long to wait.
        say: told the line.
    """
    is_told = False
    while True:
        await asyncio.sleep(pause_s)
        answers = await statuses(cluster, _STATUS_S)
        if (held := newest(answers)) is not None:
            break
        if not is_told:
            silent = {str(target): told for target, told in answers if isinstance(told, str)}
            why = f" ({together(silent)})" if silent else ""
            say(printable(f"no node serves yet{why}: they are tried until --wait is over"))
            is_told = True
    if text := why_nobody(held.scheduler, model, version):
        say(printable(text))


def why_nobody(held: SchedulerStatus, model: str, version: str) -> str:
    """Return that no executor has a model ready; empty: one has, or that cannot be known."""
    found = [each for each in held.models if each.name == model and version in ("", each.version)]
    if not found or any(each.executors for each in found):
        return ""
    name = f"{model}/{version}" if version else model
    if started := again(starting(held, model, version)):
        return (
            f"no executor has model {name} ready at this moment: {started}. The request "
            "waits, until its deadline if it has one; `raftbatch status` tells more"
        )
    if not held.executors_total:
        there = "there is no executor at all"
    else:
        there = f"the cluster has {held.executors_total} executors, without it"
    return (
        f"no executor has model {name} ready ({there}): the request waits, until its deadline if "
        "it has one. Start one with `raftbatch executor`, or look at `raftbatch status`"
    )
