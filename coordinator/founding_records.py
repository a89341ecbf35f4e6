"""The first records of a new cluster: the policy and the models that its file names.

They follow the first Lead of all. From then on they live in the log, and what the file
says of them counts no more: they are changed through the cluster itself.

    [policy]                       keys as in docs/LIMITS.md
    outcome_retention_ms = 300_000
    [policy.tenants.NAME]          limits of one tenant, the three of what waits at least
    [models.NAME]                  keys as in docs/LIMITS.md; version = "1"
    max_batch_size = 64
    inputs = [{ name = "text", datatype = "BYTES", dims = [1] }]
    [models.NAME.executor]         for executors alone

The policy is written down as a whole, defaults included: a later release with others
must not change what a replica decides.

What lives here: tables into records. What must never live here: a default or a check
that belongs to a setting (`raftbatch.settings`). Called by: `config`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields

from coordinator.bounds import whole
from coordinator.stated import SETTINGS_BYTES_MAX, settings_bytes
from raftbatch.codec import check_record
from raftbatch.errors import InvalidRequest, RaftbatchError
from raftbatch.fields import NAME_LENGTH_MAX
from raftbatch.records import PutModel, PutPolicy, Record
from raftbatch.settings import Model, Policy, TenantLimits
from raftbatch.tables import Table

DECLARED = ("inputs", "outputs")
"""Keys of a model that only doors and executors read: they become its `config`, as JSON."""

EXECUTOR = "executor"
"""The table within a model's that coordinators do not look into."""

_VERSION = "1"
_FLAGS = ("seal_when_idle",)
_LISTS = ("preferred_batch_size",)
_OWN = ("name", "version", "content", "config")
_LIMITS = ("requests_waiting_max", "rows_waiting_max", "bytes_waiting_max")
_SHARE = "outcome_bytes_max"


def founding_records(policy: Table, models: Table) -> tuple[Record, ...]:
    """Return what follows the first Lead of a cluster.

    Raises:
        InvalidRequest: something in the tables is wrong; the message names file and key.
    """
    limits, versions = _policy(policy), tuple(_models(models))
    if len(versions) > limits.models_max:
        raise models.wrong(
            "", f"there are {len(versions)}: policy.models_max is {limits.models_max}"
        )
    records: tuple[Record, ...] = (PutPolicy(limits), *(PutModel(each) for each in versions))
    for record in records:
        try:
            check_record(record)
        except RaftbatchError as error:
            table = models if isinstance(record, PutModel) else policy
            raise table.wrong("", error.message) from None
    size = settings_bytes(limits, versions)
    if size > SETTINGS_BYTES_MAX:
        what = f"policy and models take {size} bytes in the state, at most {SETTINGS_BYTES_MAX}"
        raise models.wrong("", what)
    return records


def _policy(table: Table) -> Policy:
    table.check_known([each.name for each in fields(Policy)])
    of_tenants = table.table("tenants")
    tenants = []
    for name in sorted(of_tenants.values):
        _check_name(of_tenants, name)
        limits = of_tenants.table(name)
        limits.check_known((*_LIMITS, _SHARE))
        for key in _LIMITS:
            if key not in limits.values:
                raise limits.wrong(key, "is missing")
        numbers = [whole(limits, key) for key in (*_LIMITS, _SHARE)]
        tenants.append(TenantLimits(name, *numbers))
    given = {key: whole(table, key) for key in table.values if key != "tenants"}
    try:
        return Policy(**given, tenants=tuple(tenants))
    except ValueError as error:
        raise table.wrong("", str(error)) from None


def _models(table: Table) -> Iterator[Model]:
    for name in sorted(table.values):
        _check_name(table, name)
        yield _model(name, table.table(name))


def _model(name: str, table: Table) -> Model:
    settings = [each.name for each in fields(Model) if each.name not in _OWN]
    table.check_known((*settings, "version", *DECLARED, EXECUTOR))
    table.table(EXECUTOR)
    given: dict[str, object] = {}
    for key in settings:
        if key not in table.values:
            continue
        if key in _FLAGS:
            given[key] = table.flag(key, default=False)
        elif key in _LISTS:
            given[key] = _wholes(table, key)
        else:
            given[key] = whole(table, key)
    declared = {key: table.values[key] for key in DECLARED if key in table.values}
    version = table.text("version", _VERSION)
    try:
        # The keys are those of the dataclass, the values of the kinds that it has.
        return Model(name, version, config=_json(table, declared), **given)  # type: ignore[arg-type]
    except ValueError as error:
        raise table.wrong("", str(error)) from None


def _wholes(table: Table, key: str) -> tuple[int, ...]:
    values = table.values[key]
    if not isinstance(values, list) or any(type(each) is not int for each in values):
        raise table.wrong(key, f"is {values!r}, which is no list of whole numbers")
    return tuple(values)


def _json(table: Table, declared: dict[str, object]) -> bytes:
    """Return what is declared in one form: equal declarations are equal bytes."""
    if not declared:
        return b""
    for key, value in declared.items():
        if not isinstance(value, list) or any(not isinstance(each, dict) for each in value):
            raise table.wrong(key, f"is {value!r}, which is no list of tables")
    try:
        return json.dumps(declared, sort_keys=True, separators=(",", ":")).encode()
    except TypeError:
        raise table.wrong("", "inputs and outputs hold text, numbers and lists alone") from None


def _check_name(table: Table, name: str) -> None:
    if not 1 <= len(name) <= NAME_LENGTH_MAX or "\0" in name:
        raise InvalidRequest(
            f"{table.path}: {table.name}.{name!r} is no name: 1 to {NAME_LENGTH_MAX} characters"
        )
