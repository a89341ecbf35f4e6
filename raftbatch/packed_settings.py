"""What operators set, packed: the policy of a cluster, and the settings of a model.

What lives here: which fields of each, of which kinds, in which order; new ones stand behind the
others, where they are set. What must never live here: what they mean (`settings`). Called by:
`codec`, snapshots. Deterministic; unpacking raises ValueError and nothing else, whatever comes.
"""

from __future__ import annotations

from dataclasses import fields
from typing import cast

from raftbatch.fields import Packed, Unpack, blob, each, fixed, flag, integer, text
from raftbatch.settings import Model, Policy, TenantLimits

_positive = integer(1)
_count = integer()
_name = text(1)
_TENANT: tuple[Unpack, ...] = (_name, _count, _count, _count)
_POLICY: tuple[Unpack, ...] = (
    *[_count] * (len(fields(Policy)) - 2),
    each(lambda value: _with_share(value, _TENANT), 10_000),
)
_MODEL = fixed(
    _name,
    _name,
    *[_count] * 2,
    each(_positive, 32),
    _count,
    flag,
    *[_count] * 13,
    blob(1 << 20),
    blob(1 << 20),
)


def pack_policy(policy: Policy) -> Packed:
    """Return a policy as it is packed. Total. Deterministic.

    Shares of outcomes came later: they stand at the end, where there are any.
    """
    *plain, tenants, share = [getattr(policy, field.name) for field in fields(policy)]
    limits = tuple([_pack_tenant(one) for one in tenants])
    return (*plain, limits, share) if share else (*plain, limits)


def _pack_tenant(limits: TenantLimits) -> Packed:
    *plain, share = [getattr(limits, field.name) for field in fields(limits)]
    return (*plain, share) if share else tuple(plain)


def unpack_policy(value: Packed) -> Policy:
    """Return a policy. Raises ValueError."""
    values = _with_share(value, _POLICY)
    plain = cast("tuple[int, ...]", (*values[:-2], values[-1]))
    limits = cast("tuple[tuple[str, int, int, int, int], ...]", values[-2])
    names = [field.name for field in fields(Policy) if field.name != "tenants"]
    settings = dict(zip(names, plain, strict=True))
    return Policy(**settings, tenants=tuple([TenantLimits(*one) for one in limits]))


def _with_share(value: Packed, kinds: tuple[Unpack, ...]) -> tuple[object, ...]:
    """Take fields, and behind them a share; 0 where there is none, as in older logs."""
    if type(value) is tuple and len(value) == len(kinds) + 1:
        return cast("tuple[object, ...]", fixed(*kinds, _positive)(value))
    return (*cast("tuple[object, ...]", fixed(*kinds)(value)), 0)


def pack_model(model: Model) -> Packed:
    """Return a model's settings as they are packed. Total. Deterministic."""
    return _values(model)


def unpack_model(value: Packed) -> Model:
    """Return a model's settings. Raises ValueError."""
    return Model(*cast("tuple[str, str]", _MODEL(value)))


def _values(settings: Model) -> Packed:
    return tuple([getattr(settings, field.name) for field in fields(settings)])
