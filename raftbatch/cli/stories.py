"""`raftbatch request show` and `batch show`: the whole story of one request, or of one batch.

Both fold the log by code that is not the coordinators' own (`raftbatch.stories`). Where a node
does not keep enough of it, they tell what its state holds, and say what is missing. What lives
here: which entries are needed, and the words. What must never live here: a rule of what counts.
Called by: the command line.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from raftbatch.cli.calls import (
    AddressOption,
    CallFailed,
    ConfigOption,
    JsonOption,
    TimeoutOption,
    run,
)
from raftbatch.cli.source import DirectoryOption, Item, Source, Span, Wanted, source_of
from raftbatch.cli.telling import (
    batch_lines,
    batch_object,
    known_batch_lines,
    known_batch_object,
    known_request_lines,
    known_request_object,
    request_lines,
    request_object,
)
from raftbatch.cli.text import Write, paragraphs, printable, printing, terminal
from raftbatch.stories import BatchStory, Stories, Story

if TYPE_CHECKING:
    from raftbatch.v1 import admin_pb2

requests = typer.Typer(name="request", no_args_is_help=True, help="What became of a request.")
batches = typer.Typer(name="batch", no_args_is_help=True, help="What became of a batch.")

_BEFORE = 5000
"""Entries that are read before a request's own: of a small log all, and then nothing is guessed."""

_NUMBER_MAX = (1 << 63) - 1  # of a batch

EXITS = """\

The story is read from the log of the node that has applied most, or, with --directory, from the
files of a node, which may have stopped. A node keeps the newest part of the log alone: what the
log tells no more is taken from the node's state, and what is missing is said.

Exit status: 0 it is told, 1 nothing is known of it, or nobody could be asked, 2 wrong usage.
"""

TenantOption = Annotated[str, typer.Option("--tenant", metavar="T", help="Whose request it is.")]


@requests.callback()
def _requests() -> None:
    """What became of a request."""


@batches.callback()
def _batches() -> None:
    """What became of a batch."""


@requests.command("show", epilog=paragraphs(EXITS))
def show_request(
    request_id: Annotated[str, typer.Argument(metavar="ID", help="The request's id.")],
    tenant: TenantOption = "default",
    config: ConfigOption = "",
    address: AddressOption = None,
    directory: DirectoryOption = "",
    timeout_s: TimeoutOption = 10.0,
    as_json: JsonOption = False,
) -> None:
    """Tell a request's story: admitted, sealed and why, assigned where, run again, its outcome."""
    source = source_of(config, address, directory, timeout_s)
    told = run(_request(source, tenant, request_id))
    story, known, stories, span = told
    if as_json:
        found = {} if story is None else request_object(story, stories)
        found["state"] = None if known is None else known_request_object(known)
        _print_json(found, span)
        return
    with printing():
        write = terminal()
        if story is not None:
            request_lines(write, story, stories)
        if known is not None and (story is None or story.outcome is None or not story.is_whole):
            known_request_lines(write, known, tenant, request_id, by=span.node)
        whole = story is not None and story.is_whole
        _note_missing(write, span, whole, "its admission")


@batches.command("show", epilog=paragraphs(EXITS))
def show_batch(
    batch: Annotated[
        int, typer.Argument(metavar="BATCH", min=1, max=_NUMBER_MAX, help="The batch's number.")
    ],
    config: ConfigOption = "",
    address: AddressOption = None,
    directory: DirectoryOption = "",
    timeout_s: TimeoutOption = 10.0,
    as_json: JsonOption = False,
) -> None:
    """Tell a batch's story: its requests, why it was sealed, its attempts, what came of them."""
    source = source_of(config, address, directory, timeout_s)
    story, known, stories, span = run(_batch(source, batch))
    if as_json:
        found = {} if story is None else batch_object(story, stories)
        found["state"] = None if known is None else known_batch_object(known)
        _print_json(found, span)
        return
    with printing():
        write = terminal()
        if story is not None:
            batch_lines(write, story, stories)
        elif known is not None:
            known_batch_lines(write, known, by=span.node)
        _note_missing(write, span, story is not None, "its seal")


async def _request(
    source: Source, tenant: str, request_id: str
) -> tuple[Story | None, admin_pb2.RequestReply | None, Stories, Span]:
    """Return a request's story, and what the state holds of it.

    Raises:
        CallFailed: nothing is known of it, or nobody could be asked.
    """
    known = await source.request(tenant, request_id)
    first = last = 0
    if known is not None:
        first = max(1, (known.index or known.outcome.index) - _BEFORE)
        last = known.outcome.index if known.HasField("outcome") else 0
    stories, span = await _fold(source, first, last, lambda _: False)
    found = stories.find(request_id, tenant)
    if known is not None:  # one id is several requests where its retention was over in between
        found = [each for each in found if each.admitted_index in (0, known.index)]
    if found:
        return found[-1], known, stories, span
    if known is not None:
        return None, known, stories, span
    others = sorted({story.tenant for story in stories.find(request_id)})
    if others:
        hint = f"tenant {' and '.join(others)} has one of that id: try --tenant {others[0]}"
    else:
        hint = (
            "ids are as clients have chosen them; `raftbatch log tail` shows the newest, and "
            "--tenant says whose"
        )
    raise CallFailed(
        f"nothing is known of request {request_id} of tenant {tenant}, {_where(span)}: {hint}",
        "unknown_request",
        is_definite=True,
    )


async def _batch(
    source: Source, number: int
) -> tuple[BatchStory | None, admin_pb2.BatchReply | None, Stories, Span]:
    """Return a batch's story, and what the state holds of it. Raises: as `_request`."""
    known = await source.batch(number)

    def is_told(stories: Stories) -> bool:
        found = stories.batches.get(number)
        if found is None or not found.end:
            return False
        return all(stories.requests[each].outcome is not None for each in found.members)

    stories, span = await _fold(source, 0, 0, is_told)
    found = stories.batches.get(number)
    if found is not None or known is not None:
        return found, known, stories, span
    numbers = sorted(stories.batches)
    seen = f"batches {numbers[0]} to {numbers[-1]}" if numbers else "no batch"
    raise CallFailed(
        f"nothing is known of batch {number}, {_where(span)}, which holds {seen}: `raftbatch "
        "request show` names the batches of a request",
        "unknown_request",
        is_definite=True,
    )


async def _fold(
    source: Source, first: int, last: int, is_told: Callable[[Stories], bool]
) -> tuple[Stories, Span]:
    """Fold the log, or what is kept of it, from one index to another; 0: all there is.

    Where the first index is gone, from the oldest that is there.
    """
    stories, span = Stories(), Span("", 1, 0)
    wanted = Wanted(first=first, last=last)
    try:
        async with aclosing(source.read(wanted)) as read:
            async for each in read:
                if isinstance(each, Span):
                    span = each
                    stories = Stories(max(first, each.first))
                elif each.entry is not None:
                    _feed(stories, each)
                    if is_told(stories):
                        break
    except CallFailed as error:
        if error.slug != "compacted" or not first:
            raise
        return await _fold(source, 0, last, is_told)
    return stories, span


def _feed(stories: Stories, item: Item) -> None:
    assert item.entry is not None
    stories.feed(item.index, item.term, item.entry)


def _where(span: Span) -> str:
    begun = "" if span.first == 1 else f", of which entries {span.first} to {span.last} are kept"
    return f"in the log of {span.node}{begun}"


def _note_missing(write: Write, span: Span, is_whole: bool, what: str) -> None:
    """Say what the log tells no more."""
    if not is_whole:
        write(
            printable(
                f"the log of {span.node} begins with entry {span.first} and does not hold {what}: "
                "other nodes may keep more of it, name one with --address"
            ),
            "yellow",
        )


def _print_json(found: dict[str, Any], span: Span) -> None:
    found["log"] = {"node": span.node, "first": span.first, "last": span.last}
    with printing():
        typer.echo(json.dumps(found))
