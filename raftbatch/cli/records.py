"""Records of the log as people and programs read them: a line each, or an object each.

What lives here: their words. What must never live here: where they come from (`source`), or
what became of them (`raftbatch.stories`). Called by: the commands. Total: whatever a log holds
is made printable.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Any, assert_never

from raftbatch import records as r
from raftbatch.cli.source import Item
from raftbatch.cli.text import iso_time
from raftbatch.kinds import Key, OutcomeKind, Ran

_IDS_SHOWN = 2
_TEXT_SHOWN = 80
_COUNTED = ("payload", "parameters", "result")
"""Columns whose bytes are told by their number."""

_RAN = {Ran.NO: "had not run", Ran.YES: "was running", Ran.UNKNOWN: "may have run"}


def duration(ms: int) -> str:
    """Return elapsed time: `7 ms`, `1.250 s`, `3 min 5 s`, `2 h 5 min`."""
    if ms < 1000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms // 1000}.{ms % 1000:03} s"
    minutes = ms // 60_000
    if minutes < 60:
        return f"{minutes} min {ms // 1000 % 60} s"
    return f"{minutes // 60} h {minutes % 60} min"


def nanoseconds(ns: int) -> str:
    """Return what an executor measured: `850 us`, `3.2 ms`, `1.250 s`."""
    if ns < 1_000_000:
        return f"{ns // 1000} us"
    if ns < 1_000_000_000:
        return f"{ns // 1_000_000}.{ns // 100_000 % 10} ms"
    return duration(ns // 1_000_000)


def size(count: int) -> str:
    """Return bytes: `812 bytes`, `3.2 KiB`, `16.0 MiB`."""
    for unit, one in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= one:
            return f"{count * 10 // one // 10}.{count * 10 // one % 10} {unit}"
    return many(count, "byte")


def many(count: int, what: str) -> str:
    """Return `1 request`, `3 requests`, `2 batches`."""
    plural = f"{what}es" if what.endswith(("ch", "s", "sh")) else f"{what}s"
    return f"{count} {what if count == 1 else plural}"


def model(key: Key) -> str:
    """Return the model of a batch key, `echo/1`."""
    return f"{key[0]}/{key[1]}"


def lines(item: Item) -> Iterator[tuple[int | None, str, str]]:
    """Yield for each record of an entry: its log time, if any, its name, and what it says."""
    if item.membership:
        yield None, "Members", item.membership
    elif item.entry is None:
        said = (
            f"{size(item.size)} that mean nothing here" if item.size else "nothing: a term begins"
        )
        yield None, "-", said
    else:
        for record in item.entry.records:
            yield item.entry.at_ms, type(record).__name__, " ".join(_say(record).split("\n"))


def _say(record: r.Record) -> str:
    """Return what a record says, in a line."""
    match record:
        case r.Admit():
            return _admit(record)
        case r.Seal():
            said = f"batch {record.batch}  {model(record.key)}  {_numbers(record.numbers)}"
            return f"{said}  reason {record.reason.name.lower()}"
        case r.Assign():
            said = f"batch {record.batch}  attempt {record.attempt}  to {record.executor}"
            return f"{said} (incarnation {record.incarnation})"
        case r.Lapse():
            said = f"batch {record.batch}  attempt {record.attempt}  fence {record.fence}"
            why = f"{record.reason.name.lower()}, {_RAN[record.ran]}"
            return f"{said}  {why}{_failure(record.code, record.message)}"
        case r.Complete():
            return _complete(record)
        case r.Cancel() | r.Acknowledge() | r.Forget():
            names = list(zip(record.tenant, record.request_id, strict=True))
            ids = [request_id for _, request_id in names]
            return f"{many(len(ids), 'request')}: {_ids(ids)}  tenant {_ids(record.tenant)}"
        case r.Bisect():
            return f"batch {record.batch}  into batch {record.left} and batch {record.right}"
        case r.Quarantine():
            return f"batch {record.batch}"
        case r.ReleaseQuarantined():
            return _numbers(record.numbers)
        case r.Lead():
            return f"{record.node}  by its clock {iso_time(record.wall_ms)}"
        case r.Advance():
            return "time passes"
        case r.PutModel():
            return f"{record.model.name}/{record.model.version}"
        case r.DeleteModel():
            return f"{record.name}/{record.version}"
        case r.PutPolicy():
            return "the cluster's limits"
        case _:
            return _executor(record)


def _admit(record: r.Admit) -> str:
    count = len(record.request_id)
    last = record.first + count - 1
    numbers = f"#{record.first}" if count == 1 else f"#{record.first}..{last}"
    models = ", ".join(dict.fromkeys(map(model, record.keys)))
    payload = sum(map(len, record.payload)) + sum(map(len, record.parameters))
    said = f"{many(count, 'request')}: {numbers} {_ids(record.request_id)}  {models}"
    return (
        f"{said}  {many(sum(record.rows), 'row')}  {size(payload)}  tenant {_ids(record.tenants)}"
    )


def _complete(record: r.Complete) -> str:
    failed = record.kind.count(OutcomeKind.FAILED)
    parts = [f"{len(record.kind) - failed} ok"] + ([f"{failed} failed"] if failed else [])
    said = f"batch {record.batch}  attempt {record.attempt}  fence {record.fence}"
    said += f"  by {record.executor}  {', '.join(parts)}  {size(sum(map(len, record.result)))}"
    said += f"  ran {nanoseconds(record.infer_ns)}"
    return said if record.last else f"{said}  a part of it"


def _executor(
    record: r.Join | r.Ready | r.Drain | r.Leave | r.Free | r.Probe,
) -> str:
    match record:
        case r.Join():
            said = f"{record.executor}  {many(record.slots, 'slot')}  {_models(record.models)}"
            return f"{said}  in place of {record.replaces}" if record.replaces else said
        case r.Ready():
            what = _models(record.models)
        case r.Drain():
            what = "gets nothing new" if record.on else "gets something again"
        case r.Leave():
            what = "lost" if record.lost else "by its own will"
            if record.running:
                what += f"  was running {', '.join(f'batch {each}' for each in record.running)}"
        case r.Free():
            slots = zip(record.batches, record.fences, strict=True)
            what = ", ".join(f"batch {batch} of fence {fence}" for batch, fence in slots)
            what = f"has stopped {what}"
        case r.Probe():
            what = "succeeded" if record.succeeded else "failed"
        case _:
            assert_never(record)
    return f"{record.executor} (incarnation {record.incarnation})  {what}"


def details(record: r.Record) -> Iterator[str]:
    """Yield what `log show` says of each request of a record."""
    match record:
        case r.Admit():
            for place, request_id in enumerate(record.request_id):
                key = record.keys[record.key[place]]
                held = len(record.payload[place]) + len(record.parameters[place])
                timeout_ms = record.timeout_ms[place]
                yield (
                    f"#{record.first + place}  {request_id}  tenant "
                    f"{record.tenants[record.tenant[place]]}  {model(key)}  "
                    f"{many(record.rows[place], 'row')}  {size(held)}  "
                    f"priority {record.priority[place]}"
                    + (f"  timeout {duration(timeout_ms)}" if timeout_ms else "")
                )
        case r.Seal():
            yield from _wrapped(record.numbers)
        case r.Complete():
            columns = zip(
                record.numbers,
                record.kind,
                record.code,
                record.message,
                record.result,
                strict=True,
            )
            for number, kind, code, message, result in columns:
                outcome = OutcomeKind(kind).name.lower()
                yield f"#{number}  {outcome}  {size(len(result))}{_failure(code, message)}"
        case r.Cancel() | r.Acknowledge() | r.Forget():
            for tenant, request_id in zip(record.tenant, record.request_id, strict=True):
                yield f"{request_id}  tenant {tenant}"
        case r.PutModel():
            yield from _settings(record.model)
        case r.PutPolicy():
            yield from _settings(record.policy)
        case _:
            return


def objects(item: Item, payloads: bool = False) -> Iterator[dict[str, Any]]:
    """Yield an entry as JSON has it: one object for each record, its fields by their names.

    Payloads, parameters and results are told by their numbers of bytes, or, where they are
    asked for, in base64; other bytes in hexadecimal.
    """
    place = {"index": item.index, "term": item.term}
    if item.membership:
        yield place | {"record": "membership", "members": item.membership}
    elif item.entry is None:
        yield place | {"record": "none", "size": item.size}
    else:
        for record in item.entry.records:
            head: dict[str, Any] = {"at_ms": item.entry.at_ms, "record": _slug(record)}
            yield place | head | _fields(record, payloads)


def _slug(record: r.Record) -> str:
    name = type(record).__name__
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def _fields(record: object, payloads: bool) -> dict[str, Any]:
    assert dataclasses.is_dataclass(record)
    found: dict[str, Any] = {}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if field.name in _COUNTED:
            found[f"{field.name}_bytes"] = list(map(len, value))
            if payloads:
                found[field.name] = [base64.b64encode(each).decode("ascii") for each in value]
        elif field.name == "kind":
            found[field.name] = [OutcomeKind(each).name.lower() for each in value]
        else:
            found[field.name] = _plain(value)
    return found


def _plain(value: object) -> Any:
    if isinstance(value, IntEnum):
        return value.name.lower()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return list(map(_plain, value))
    if dataclasses.is_dataclass(value):
        return _fields(value, payloads=False)
    return value


def _settings(settings: object) -> Iterator[str]:
    for name, value in _fields(settings, payloads=False).items():
        shown = str(value)
        yield f"{name} = {shown if len(shown) <= _TEXT_SHOWN else shown[:_TEXT_SHOWN] + ' ...'}"


def _ids(ids: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(ids))
    more = len(distinct) - _IDS_SHOWN
    said = " ".join(distinct[:_IDS_SHOWN])
    return f"{said} and {more} more" if more > 0 else said


def _numbers(numbers: Sequence[int]) -> str:
    """Return numbers of requests, in short: `3 requests: #7..9`."""
    said = many(len(numbers), "request")
    if not numbers:
        return said
    low, high = min(numbers), max(numbers)
    if high - low + 1 == len(numbers):
        return f"{said}: #{low}" if low == high else f"{said}: #{low}..{high}"
    return f"{said} among #{low}..{high}"


def _wrapped(numbers: Sequence[int], width: int = 12) -> Iterator[str]:
    for start in range(0, len(numbers), width):
        yield " ".join(f"#{number}" for number in numbers[start : start + width])


def _models(models: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name}/{version}" for name, version in models) or "no model"


def _failure(code: str, message: str) -> str:
    if not code and not message:
        return ""
    short = message if len(message) <= _TEXT_SHOWN else f"{message[:_TEXT_SHOWN]} ..."
    return f"  {code}{': ' if code and short else ''}{short}"
