"""`raftbatch log tail` and `log show`: the log of a cluster, a line for each record.

What lives here: these commands. What must never live here: a record's words (`records`), or
where entries come from (`source`). Called by: the command line.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Callable
from contextlib import aclosing
from typing import Annotated

import typer

from raftbatch.cli.calls import (
    AddressOption,
    CallFailed,
    ConfigOption,
    TimeoutOption,
    failed,
    usage,
)
from raftbatch.cli.failing import note_json
from raftbatch.cli.records import details, lines, objects
from raftbatch.cli.source import DirectoryOption, Item, Source, Span, Wanted, source_of
from raftbatch.cli.text import log_time, printable, printing, terminal
from raftbatch.settings import INT_MAX

_RANGE = re.compile(r"([0-9]{1,19})(?:\.\.([0-9]{1,19})?)?")
_INTERRUPTED = 130
_STYLES = {
    "Admit": "cyan",
    "Seal": "blue",
    "Assign": "blue",
    "Complete": "green",
    "Lapse": "yellow",
    "Bisect": "yellow",
    "Quarantine": "red",
    "Cancel": "yellow",
    "Lead": "bold",
    "Join": "magenta",
    "Leave": "magenta",
}

EXITS = """\

Entries come from the node that has applied most, without the bytes of requests and results; or,
with --directory, from the files of a node, which may have stopped: then the newest entries may
be such as were never committed.

Exit status: 0 done, 1 not there, or nobody could be asked, 2 wrong usage.
"""

IndexOption = Annotated[
    int,
    typer.Option("--from", metavar="INDEX", min=0, max=INT_MAX, help="Begin with this index."),
]
LinesOption = Annotated[
    int,
    typer.Option(
        "--lines", "-n", metavar="N", min=1, max=INT_MAX, help="Else with the newest N entries."
    ),
]
FollowOption = Annotated[
    bool, typer.Option("--follow", "-f", help="Go on with entries as they are applied.")
]
JsonLinesOption = Annotated[
    bool, typer.Option("--json", callback=note_json, help="One JSON object a line.")
]


def tail(
    first: IndexOption = 0,
    newest: LinesOption = 10,
    follow: FollowOption = False,
    config: ConfigOption = "",
    address: AddressOption = None,
    directory: DirectoryOption = "",
    timeout_s: TimeoutOption = 10.0,
    as_json: JsonLinesOption = False,
) -> None:
    """Print the end of the log, a line for each record, and with --follow what is added to it."""
    if directory and follow:
        raise usage("--follow needs a cluster: files alone say nothing when they grow")
    source = source_of(config, address, directory, timeout_s)
    wanted = Wanted(first=first, newest=0 if first else newest, follows=follow)
    show = _json if as_json else _Text(is_long=False).show
    _run(source, wanted, show)


def show(
    indexes: Annotated[
        str, typer.Argument(metavar="INDEX[..INDEX]", help="An index, or from one to another.")
    ],
    payloads: Annotated[
        bool,
        typer.Option("--payloads", help="With --json: payloads and results, in base64."),
    ] = False,
    config: ConfigOption = "",
    address: AddressOption = None,
    directory: DirectoryOption = "",
    timeout_s: TimeoutOption = 10.0,
    as_json: JsonLinesOption = False,
) -> None:
    """Print entries of the log with all that they say of each request."""
    match = _RANGE.fullmatch(indexes)
    first = int(match[1]) if match else 0
    if match is None or not first:
        raise usage(f"{indexes} is no index: 7, 7..9 or 7.. is wanted")
    last = int(match[2]) if match[2] else 0 if indexes.endswith("..") else first
    if last and last < first:
        raise usage(f"{indexes} ends before it begins")
    if payloads and not as_json:
        raise usage("--payloads goes with --json")
    source = source_of(config, address, directory, timeout_s)
    wanted = Wanted(first=first, last=last, payloads=payloads)
    shows = (lambda item: _json(item, payloads)) if as_json else _Text(is_long=True).show
    span, count = _run(source, wanted, shows)
    if not count and span is not None:
        raise failed(
            CallFailed(
                f"there is no entry {first} yet: the log of {span.node} ends with {span.last}",
                "",
                is_definite=True,
            )
        )


def _run(source: Source, wanted: Wanted, show: Callable[[Item], None]) -> tuple[Span | None, int]:
    """Show all entries; return how far the log reaches, and how many there were."""
    found: Span | None = None
    count = 0

    async def main() -> None:
        nonlocal found, count
        async with aclosing(source.read(wanted)) as read:
            async for each in read:
                if isinstance(each, Span):
                    found = each
                    continue
                count += 1
                show(each)
                if wanted.follows:
                    sys.stdout.flush()

    with printing():
        try:
            asyncio.run(main())
        except CallFailed as error:
            raise failed(error) from None
        except KeyboardInterrupt:
            raise typer.Exit(_INTERRUPTED) from None
    return found, count


def _json(item: Item, payloads: bool = False) -> None:
    for each in objects(item, payloads):
        sys.stdout.write(json.dumps(each) + "\n")


class _Text:
    """Prints entries for a person.

    Args:
        is_long: whether each request gets a line of its own.
    """

    def __init__(self, is_long: bool) -> None:
        self._is_long = is_long
        self._write = terminal()

    def show(self, item: Item) -> None:
        """Print one."""
        records = item.entry.records if item.entry is not None else ()
        for place, (at_ms, name, said) in enumerate(lines(item)):
            time = "-" if at_ms is None else log_time(at_ms)
            line = f"{item.index:>8}  {time:>12}  {name:<11}  {said}"
            self._write(printable(line).rstrip(), _STYLES.get(name, ""))
            if self._is_long and place < len(records):
                for detail in details(records[place]):
                    self._write(printable(f"{'':24}{detail}"), "")
