"""`raftbatch log dump`: look at a coordinator's log on disk, without running one.

Commands import what they need of `coordinator.raft` inside their function.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from raftbatch.cli.failing import USAGE, note_json, say
from raftbatch.cli.text import (
    Table,
    Write,
    hex_lines,
    iso_time,
    number_text,
    paragraphs,
    preview,
    printable,
    span,
    terminal,
    time_text,
)

app = typer.Typer(name="log", no_args_is_help=True, help="Look into the log.")

_EXIT_REFUSED = 1
_EXIT_FAILED = 2
_EXIT_PIPE = 141  # what a shell reports of a program that SIGPIPE ended

_RANGE = re.compile(r"([0-9]{0,20})(\.\.)?([0-9]{0,20})")

_HELP = """\
List a data directory: segments, snapshots, records, damage, and whether it opens.

It only reads, and may be run while a node runs on the directory; the listing is then
already a moment old, and says so.

Damage is shown where it is, and what can be read behind it is listed too. The last line is
the verdict, formed by the code that opens a journal: it opens; it opens after a torn tail,
of which nothing shows that it was acknowledged, is cut; opening it is refused, with file,
offset and reason; or none, where a file cannot be read.

Records: an entry of the log; a config, an entry that holds the membership; a state (term and
vote); keep and reset, which take entries back; drop, which lets old segments go. --from and
--to leave out states and drops, which have no index. A record marked with ! was found beyond
damage and is no part of the log.

Exit status: 0 it opens, 1 it is refused, 2 there is no verdict, and standard error says why:
no journal at DIR, a file that cannot be read, output that cannot be written, wrong usage.

The objects that --json prints, and their fields, are described in docs/OPERATIONS.md.
"""


@app.callback()
def _group() -> None:
    """Look into the log: of a cluster, or in a coordinator's files."""


@app.command(help=paragraphs(_HELP))
def dump(
    directory: Annotated[
        str,
        typer.Argument(metavar="DIR", help="A node's data directory, or the journal in it."),
    ],
    index_min: Annotated[
        int | None,
        typer.Option("--from", min=0, metavar="INDEX", help="Records of this log index and later."),
    ] = None,
    index_max: Annotated[
        int | None,
        typer.Option("--to", min=0, metavar="INDEX", help="Records of this log index and earlier."),
    ] = None,
    lsn: Annotated[
        str,
        typer.Option(metavar="RANGE", help="Records by place in the journal: 7, 7.., ..9 or 7..9."),
    ] = "..",
    limit: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="The first N of those records.")
    ] = None,
    tail: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="The last N of those records.")
    ] = None,
    records: Annotated[
        bool, typer.Option("--records/--no-records", help="List records, or all but those.")
    ] = True,
    data: Annotated[
        bool, typer.Option("--data", help="All data and configurations, not only their beginning.")
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            callback=note_json,
            help="JSON lines: one object a line, told apart by its type.",
        ),
    ] = False,
) -> None:
    """Print what a data directory holds, and return the exit status; see `_HELP`."""
    from coordinator.raft.dump import dump as items
    from coordinator.raft.dump_items import Selection, Verdict
    from raftbatch.errors import InvalidRequest
    from raftbatch.realworld import RealWorld

    lsn_min, lsn_max = _range(lsn)
    if index_min is not None and index_max is not None and index_max < index_min:
        raise typer.BadParameter(f"{index_max} is below --from {index_min}", param_hint="--to")
    selection = Selection(index_min, index_max, lsn_min, lsn_max, limit, tail, records)
    show: _Json | _Text = _Json(data) if as_json else _Text(terminal(), data)
    try:
        verdict = _print(items(RealWorld(), directory, selection), show)
    except InvalidRequest as error:
        raise _failed(error.message) from None
    assert isinstance(verdict, Verdict)
    if verdict.outcome == "unreadable":
        raise _failed(f"{verdict.path}: {verdict.reason}")
    if verdict.outcome == "refused":
        raise typer.Exit(_EXIT_REFUSED)


def _print(items: Iterator[object], show: _Json | _Text) -> object:
    """Print all items, and return the last."""
    if sys.stdout is None:  # it was closed before we began
        raise _failed("the listing cannot be written: standard output is closed")
    last: object = None
    try:
        for last in items:
            show.item(last)
        sys.stdout.flush()
    except OSError as error:  # of the output: reading raises none
        try:
            sys.stdout.close()  # else Python complains when it flushes it at its end
        except OSError:
            pass
        if isinstance(error, BrokenPipeError):
            raise typer.Exit(_EXIT_PIPE) from None
        raise _failed(f"the listing cannot be written: {error}") from None
    return last


def _failed(message: str) -> typer.Exit:
    """Say on standard error why there is no listing, or no verdict; return what to raise."""
    say(message, USAGE)
    return typer.Exit(_EXIT_FAILED)


def _range(text: str) -> tuple[int | None, int | None]:
    """Return the ends of `7`, `7..`, `..9` or `7..9`; None where it is open."""
    match = _RANGE.fullmatch(text)
    if match is None or (not match[2] and (not match[1] or match[3])):
        raise typer.BadParameter(
            f"{text!r} is not of the form 7, 7.., ..9 or 7..9", param_hint="--lsn"
        )
    low = int(match[1]) if match[1] else None
    high = int(match[3]) if match[3] else None
    if low is not None and high is not None and high < low:
        raise typer.BadParameter(f"{text!r} ends before it begins", param_hint="--lsn")
    return low, high if match[2] else low


class _Json:
    """Prints items as JSON lines: the type, then the fields of the item's class."""

    def __init__(self, data: bool) -> None:
        self._data = data

    def item(self, item: object) -> None:
        """Print one."""
        assert dataclasses.is_dataclass(item)
        fields: dict[str, object] = {"type": type(item).__name__.lower()}
        for field in dataclasses.fields(item):
            value = getattr(item, field.name)
            if field.name == "created_ms":
                fields["created"] = None if value is None else iso_time(value)
            elif not isinstance(value, bytes):
                fields[field.name] = value
            elif self._data or field.name == "config":
                fields[field.name] = base64.b64encode(value).decode("ascii")
        sys.stdout.write(json.dumps(fields) + "\n")


class _Text:
    """Prints items for a person: columns under a title, lines of plain ASCII."""

    def __init__(self, write: Write, data: bool) -> None:
        self._write = write
        self._data = data
        self._table = Table("", [], write)

    def item(self, item: object) -> None:
        """Print one; rows of a table may be held back until the next."""
        from coordinator.raft.dump_items import Damage, Journal, Record, Segment, Snapshot, Verdict

        match item:
            case Segment() | Snapshot() | Record():
                title, columns, cells, style = _row(item)
                if title != self._table.title:
                    self._table.flush()
                    self._write("", "")
                    self._table = Table(title, columns, self._write)
                self._table.add(cells, style)
                if self._data:
                    for line in hex_lines(_bytes(item)):
                        self._table.add([line], "")
            case Damage():
                self._table.flush()
                place = f"{item.path} at offset {item.offset}"
                if item.effect == "unreadable":
                    place = item.path
                self._write(
                    printable(f"! {place}: {item.reason} [{_EFFECTS[item.effect]}]"), "bold red"
                )
            case Journal():
                for line in _journal_lines(item):
                    self._write(line, "")
            case Verdict():
                self._table.flush()
                self._write("", "")
                for line in _verdict_lines(item):
                    self._write(line, "bold red" if item.outcome == "refused" else "bold")
            case _:
                raise AssertionError(f"{item!r} is of no known kind")


def _row(item: object) -> tuple[str, list[str], list[str], str]:
    """Return title and columns of a row's table, its cells and its style."""
    from coordinator.raft.dump_items import Record, Segment, Snapshot

    match item:
        case Segment():
            cells = [
                str(item.seq),
                item.state,
                span(item.first_lsn, item.last_lsn),
                span(item.first_index, item.last_index),
                f"{number_text(item.used_bytes)}/{number_text(item.file_bytes)}",
                time_text(item.created_ms),
            ]
            columns = [" seq", "state", " lsn", " live index", " bytes used", "created"]
            return (
                "segments",
                columns,
                cells,
                "red" if item.state in ("damaged", "unreadable") else "",
            )
        case Snapshot():
            cells = [
                str(item.index),
                str(item.term),
                item.state,
                number_text(item.file_bytes),
                number_text(item.chunks),
                time_text(item.created_ms),
                item.checksum or "-",
                "-" if item.config is None else _membership(item.config),
            ]
            columns = [" index", " term", "state", " bytes", " chunks", "created", "sha-256"]
            style = "" if item.state == "intact" else "red"
            return "snapshots", [*columns, "configuration"], cells, style
        case Record():
            cells = [
                f"{'' if item.in_order else '! '}{item.lsn}",
                item.kind,
                number_text(item.index),
                number_text(item.term),
                str(item.synced),
                str(item.data_bytes),
                f"{item.segment}@{item.offset}",
                item.checksum,
                _content(item),
            ]
            columns = [" lsn", "kind", " index", " term", " synced", " bytes", " segment@offset"]
            return "records", [*columns, "crc-32", "data"], cells, "" if item.in_order else "yellow"
        case _:
            raise AssertionError(f"{item!r} is no row")


def _bytes(item: object) -> bytes:
    """Return what `--data` shows all of."""
    from coordinator.raft.dump_items import Record, Snapshot

    match item:
        case Record():
            return item.data
        case Snapshot():
            return item.config or b""
        case _:
            return b""


def _content(item: object) -> str:
    """Return what a record says, in short."""
    from coordinator.raft.dump_items import Record

    assert isinstance(item, Record)
    match item.kind:
        case "state":
            return f"votes for {printable(item.vote)}" if item.vote else "no vote"
        case "keep":
            return f"entries above {item.index} are taken back"
        case "reset":
            return f"the snapshot at {item.index} replaces all entries"
        case "drop":
            return f"segments below {item.oldest_segment} may go"
        case "config":
            return _membership(item.data)
        case _:
            return preview(item.data)


def _membership(data: bytes) -> str:
    """Return a membership in words, or the beginning of what is none."""
    from coordinator.raft.membership import decode

    try:
        return printable(str(decode(data)))
    except ValueError:
        return preview(data)


def _journal_lines(item: object) -> Iterator[str]:
    """Yield whose directory it is, and where its log stands."""
    from coordinator.raft.dump_items import Journal

    assert isinstance(item, Journal)
    yield printable(f"journal    {item.directory}")
    if item.node_id is None:
        yield "node       unknown: no segment's header can be read"
    else:
        yield f"node       {item.node_id}, incarnation {item.incarnation}"
        yield f"cluster    {item.cluster_id}"
    if item.term is not None:
        vote = f"votes for {printable(item.vote)}" if item.vote else "no vote"
        yield f"state      term {item.term}, {vote}"
        yield f"entries    {span(item.first_index, item.last_index)}, last term {item.last_term}"
        yield f"last lsn   {item.last_lsn}"
    yield f"marked     {'unreadable' if item.mark_lsn is None else f'synced up to {item.mark_lsn}'}"
    yield f"lock       lock file names {f'pid {item.lock_pid}' if item.lock_pid else 'no pid'}"
    for path in item.temporaries:
        yield printable(f"temporary  {path}: half-written; opening removes it")


_EFFECTS = {
    "cut": "opening cuts it",
    "refused": "opening refuses",
    "unread": "opening does not read it",
    "unreadable": "nothing is known of it",
}


def _verdict_lines(item: object) -> Iterator[str]:
    """Yield the verdict, and what limits it."""
    from coordinator.raft.dump_items import Verdict

    assert isinstance(item, Verdict)
    place = f"{item.path} at offset {item.offset}"
    found = f"; {item.found} more found beyond" if item.found else ""
    yield f"{item.records} records read in order{found}"
    match item.outcome:
        case "opens":
            yield "verdict: opens"
        case "opens_after_cutting":
            yield printable(
                f"verdict: opens after cutting {place} (nothing shows that it was acknowledged)"
            )
        case "refused":
            yield printable(f"verdict: refused: {place}: {item.reason}")
        case "unreadable":
            yield printable(f"verdict: none: {item.path}: {item.reason}")
    if item.changed:
        yield "a node is running: what it was just writing may look torn here"
