"""What operators and executors bring into the state, beside what requests do: bounded.

Numbers of settings are held against the bounds that those of a file have, whichever way they come.
Texts that count toward no limit of the policy are bounded by bytes: settings in all, what an
executor says of itself for each, and what is said of batches that failed. That is decided before
anything is proposed; a log that holds more is applied as it is.

What lives here: those bounds. What must never live here: the limits of requests (`refusing`).
Called by: `leader`, `founding_records`, `limits`. Total but for what it refuses. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from coordinator import bounds
from coordinator.core.state import State
from coordinator.core.texts import size_of
from raftbatch import records as r
from raftbatch.errors import InvalidRequest, Overloaded
from raftbatch.settings import Model, Policy

SETTINGS_BYTES_MAX = 8 << 20
"""What the policy and all model versions may take."""

EXECUTOR_BYTES_MAX = 64 << 10
"""What an executor may take: what it says of itself, and 24 KiB for what it holds."""

MESSAGES_BYTES_MAX = 16 << 20
"""What is said of batches that failed takes less: see `_cut`."""

_SAID_BYTES_MAX = 40 << 10
_MESSAGE_BYTES = 1 << 20
_CODE_BYTES_MAX = 40  # `WAITING_BYTES` has room for it
_NUMBERS_BYTES = 256  # of a row, beside its texts
_TENANT_BYTES = 48


def bounded(state: State, record: r.Record) -> r.Record:
    """Return a record as it may be proposed: texts of a failure may be cut short.

    Args:
        state: the applied one.
        record: that was checked (`codec.check_record`).

    Raises:
        InvalidRequest: a number is beyond its bound, or an executor says too much; definite.
        Overloaded: settings would take too much in all; definite.
    """
    match record:
        case r.PutModel(model=model):
            bounds.check(f"models.{model.name}", model)
            others = [
                each for key, each in state.models.items() if key != (model.name, model.version)
            ]
            _check_settings(state.policy, [*others, model])
        case r.PutPolicy(policy=policy):
            bounds.check("policy", policy)
            for each in policy.tenants:
                bounds.check(f"policy.tenants.{each.tenant}", each)
            _check_settings(policy, state.models.values())
        case r.Join():
            _check_said(record.executor, record.models, len(record.attributes))
        case r.Ready():
            live = state.executors.get(record.executor)
            attributes = 0 if live is None else len(live.attributes)
            _check_said(record.executor, record.models, attributes)
        case r.Lapse():
            return _cut(record, len(state.batches))
        case _:
            pass
    return record


def settings_bytes(policy: Policy, models: Iterable[Model]) -> int:
    """Return what a policy and model versions take, at most."""
    tenants = sum([size_of(each.tenant) + _TENANT_BYTES for each in policy.tenants])
    return _NUMBERS_BYTES + tenants + sum(map(_bytes_of, models))


def _bytes_of(model: Model) -> int:
    # A version that is being deleted is named once more.
    names = 2 * (size_of(model.name) + size_of(model.version))
    return _NUMBERS_BYTES + names + len(model.content) + len(model.config)


def _check_settings(policy: Policy, models: Iterable[Model]) -> None:
    size = settings_bytes(policy, models)
    if size > SETTINGS_BYTES_MAX:
        raise Overloaded(
            f"the policy and all model versions would take {size} bytes, at most "
            f"{SETTINGS_BYTES_MAX}: delete a version, or say less in content and config"
        )


def _check_said(executor: str, models: Iterable[tuple[str, str]], attributes: int) -> None:
    said = size_of(executor) + attributes
    said += sum([size_of(name) + size_of(version) + 8 for name, version in models])
    if said > _SAID_BYTES_MAX:
        raise InvalidRequest(
            f"what {executor:.64} says of itself takes {said} bytes, at most {_SAID_BYTES_MAX}"
        )


def _cut(record: r.Lapse, batches: int) -> r.Lapse:
    """Cut texts of a failure, the shorter the more batches there are.

    Of those that are there at one time, the n-th whose text was noted had n others before it. So
    all of N take no more than 1 MiB * (1 + 1/2 + ... + 1/N): less than 15 MiB of a million.
    """
    most = _MESSAGE_BYTES // max(batches, 1)
    code, message = record.code, record.message
    if len(code) * 4 <= _CODE_BYTES_MAX and len(message) * 4 <= most:
        return record
    return replace(record, code=_within(code, _CODE_BYTES_MAX), message=_within(message, most))


def _within(text: str, most: int) -> str:
    return text if size_of(text) <= most else text.encode()[:most].decode(errors="ignore")
