"""Cancels of ids that nobody knows: how many of them may be remembered, of all tenants together.

Such a cancel is remembered as an outcome is, and one tenant has `cancels_remembered_max`. But
who calls names its tenants itself. So of what admission needs too (known ids, bytes of
outcomes, tenants) such cancels get an eighth: where they have had that, more of them are
refused, and requests are not. A long id counts as several.

What lives here: that bound, and those under way. What must never live here: what a cancel does
(`coordinator.core.retention`). Called by: `api_names`, where this node leads. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from coordinator.api_base import Name
from coordinator.core import texts
from coordinator.core.admission import ids_after_ms
from coordinator.core.room import ids
from coordinator.core.state import State
from coordinator.core.values import OUTCOME_BYTES
from coordinator.refusing import why_no_ids
from raftbatch.errors import Overloaded, RaftbatchError

_PART = 8
"""Cancels of unknown ids may take one part of so many."""


class Cancelling:
    """See the module's docstring."""

    def __init__(self) -> None:
        self._under_way: dict[str, int] = {}
        self._names = 0  # what names of those take beyond what is allowed for them

    @contextmanager
    def taken(self, state: State, names: Sequence[Name]) -> Iterator[Mapping[int, RaftbatchError]]:
        """Count ids of a call that nobody knows, for as long as they are under way.

        Args:
            state: the applied one.
            names: that are to be cancelled, checked.

        Returns:
            those that are refused, by their places: nothing is to be done about them.
        """
        unknown = [
            (place, name) for place, name in enumerate(names) if "\0".join(name) not in state.dedupe
        ]
        refused: dict[int, RaftbatchError] = {}
        taken: list[str] = []
        beyond = 0
        if unknown:
            refused = self._refused(state, unknown)
            names = [name for place, name in unknown if place not in refused]
            taken = [tenant for tenant, _ in names]
            beyond = texts.of_names(["\0".join(name) for name in names])
        for tenant in taken:
            self._under_way[tenant] = self._under_way.get(tenant, 0) + 1
        self._names += beyond
        try:
            yield refused
        finally:
            self._names -= beyond
            for tenant in taken:
                self._under_way[tenant] -= 1
                if not self._under_way[tenant]:
                    del self._under_way[tenant]

    def _refused(
        self, state: State, unknown: Sequence[tuple[int, Name]]
    ) -> dict[int, RaftbatchError]:
        """Return which ids, by their places, are too many."""
        policy, uses = state.policy, state.tenant_use
        ids_max = min(policy.dedupe_entries_max, policy.outcome_bytes_max // OUTCOME_BYTES)
        most, tenants_most = max(1, ids_max // _PART), max(1, policy.tenants_max // _PART)
        count = sum(self._under_way.values()) + sum([use.cancels for use in uses.values()])
        beyond = self._names + sum([use.cancel_names for use in uses.values()])
        ids_left = policy.dedupe_entries_max - ids(state, self._names)
        ids_left -= sum(self._under_way.values())
        # Those that are there for nothing else.
        alone = {tenant for tenant, use in uses.items() if use.cancels and not use.requests}
        alone |= {tenant for tenant in self._under_way if tenant not in uses}
        refused: dict[int, RaftbatchError] = {}
        for place, name in unknown:
            tenant = name[0]
            more = texts.of_name("\0".join(name))
            counts_as = 1 + -(-more // texts.KNOWN_ID_BYTES)
            is_new = tenant not in uses and tenant not in alone
            is_much = count + -(-(beyond + more) // texts.KNOWN_ID_BYTES) >= most
            if is_much or (is_new and len(alone) >= tenants_most):
                why = (
                    f"{count} cancels of ids that nobody knows, of {len(alone)} tenants that have "
                    f"nothing else, are remembered: at most {most}, of {tenants_most} tenants, "
                    "are; a long id counts as several"
                )
            elif counts_as > ids_left:
                why = why_no_ids(policy)
            else:
                count, beyond, ids_left = count + 1, beyond + more, ids_left - counts_as
                if is_new:
                    alone.add(tenant)
                continue
            refused[place] = Overloaded(why, retry_after_ms=ids_after_ms(state, state.now_ms))
        return refused
