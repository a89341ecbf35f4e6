"""Requests that come together, judged together where nothing speaks against any of them.

Mostly those of one message are of one tenant and batch key, new, and far from every limit.
Then what must hold of each is asked once of all. Where it is not sure of all of them nothing
is said, and each is judged by itself (`Leader.admit`), as if it had come alone.

What lives here: that. What must never live here: why something is refused (`refusing`).
Called by: `leader`. Total. Deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add

from coordinator.core import texts
from coordinator.core.admission import is_never, usable
from coordinator.leader_parts import LeaderConfig
from coordinator.leadership import Leadership
from coordinator.proposer import REQUEST_BYTES, Admission, Done
from raftbatch.fields import NAME_LENGTH_MAX

_REST_BYTES = REQUEST_BYTES + 2 * NAME_LENGTH_MAX + 1
"""What a request counts as in an inbox, beside payload, signature and trace context, at most."""


def take_all(
    leadership: Leadership,
    config: LeaderConfig,
    admissions: Sequence[Admission],
    dones: Sequence[Done],
) -> bool:
    """Let requests wait for the next entry, if surely all of them may.

    Args:
        leadership: that is ready.
        config: with the bounds of what waits.
        admissions: one at least, of submissions that were checked (`submission`).
        dones: told, each of its own.

    Returns:
        whether that was done; else nothing was.
    """
    assert leadership.outlook is not None
    outlook, inbox = leadership.outlook, leadership.inbox
    key, tenant = admissions[0][:2]
    keys, tenants, ids, _, rows, priorities, _, payloads, parameters, traces = zip(
        *admissions, strict=True
    )
    count = len(ids)
    if leadership.held is not None or keys.count(key) + tenants.count(tenant) != 2 * count:
        return False
    sizes = [*map(add, map(len, payloads), map(len, parameters))]
    size, most = sum(sizes), max(sizes)
    model = usable(outlook.state, key)
    if model is None or is_never(outlook.state, model, max(rows), max(priorities), most):
        return False
    scope = f"{tenant}\0"
    names = [scope + each for each in ids]
    if len({*names}) != count or inbox.has_any(names):
        return False
    rest = _REST_BYTES + len(key[2]) + max(map(len, traces))  # of each, beside its payload, at most
    if (
        most > config.record_bytes_max
        or inbox.items + count > config.pending_items_max
        or inbox.size + size + count * rest > config.pending_bytes_max
    ):
        return False
    held = size + texts.of_all(key, traces), inbox.uses, count, texts.of_names(names)
    if outlook.overload(key, tenant, sum(rows), *held)[0]:
        return False
    inbox.add_requests(admissions, names, sizes, dones)
    leadership.pump_soon()
    return True
