"""The indexes of the state, made from its tables and scalars alone.

What lives here: making them. What must never live here: keeping them, which
`apply` does as it goes. Called by: `snapshot`, when a state is restored;
`invariants`, to compare. Deterministic.
"""

from __future__ import annotations

from itertools import islice

from coordinator.core import texts
from coordinator.core.state import State
from coordinator.core.table import ordered
from coordinator.core.usage import ModelUse, TenantUse
from coordinator.core.values import Request


class Indexing:
    """Makes the indexes of a state whose tables are filled, in steps.

    Args:
        state: with empty indexes.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        state.all_use.limit_by_policy(state.policy)
        for model_id in ordered(state.models):
            use = state.model_use[model_id] = ModelUse()
            use.limit_by_model(state.models[model_id])
        for number in ordered(state.batches):
            batch = state.batches[number]
            state.model_use[batch.key[:2]].batches[number] = None
            for each in batch.members:
                if each in state.requests:
                    state.batch_of[each] = number
        state.quarantine_bytes = sum(
            [state.quarantine[number].request.size for number in ordered(state.quarantine)]
        )
        self._requests = iter(ordered(state.requests))
        self._ended = iter(ordered(state.ended))

    def step(self, rows: int) -> bool:
        """Index up to so many requests and outcomes; return whether some are left.

        Raises:
            KeyError: a request is of a model version that is not there.
        """
        state = self._state
        requests = list(islice(self._requests, rows))
        for number in requests:
            request = state.requests[number]
            state.dedupe[request.name] = number
            self._count(request)
            state.id_texts += texts.of_name(request.name)
            if number not in state.batch_of:
                state.add_to_window(request)
            if request.deadline_ms:
                state.timers.bucket(request.at_ms, request.deadline_ms)[number] = None
        orders = list(islice(self._ended, rows - len(requests)))
        for order in orders:
            outcome = state.ended[order]
            state.dedupe[outcome.name] = ~order
            state.id_texts += texts.of_name(outcome.name) + texts.of_code(outcome.code)
            state.outcome_texts += texts.of_outcome(outcome)
            if outcome.is_kept:
                state.keep_outcomes(outcome.name.partition("\0")[0], outcome.size)
            if not outcome.number:
                use = self._tenant(outcome.name.partition("\0")[0])
                use.cancels += 1
                use.cancel_names += texts.of_name(outcome.name)
        return len(requests) + len(orders) == rows

    def _count(self, request: Request) -> None:
        state, rows, size = self._state, request.rows, request.size
        beyond = texts.of_request(request.key, request.traceparent)
        uses = state.all_use, state.model_use[request.key[:2]], self._tenant(request.tenant)
        for use in uses:
            use.add(rows, size, beyond)

    def _tenant(self, tenant: str) -> TenantUse:
        use = self._state.tenant_use.get(tenant)
        if use is None:
            use = self._state.tenant_use[tenant] = TenantUse()
            use.limit_by_tenant(self._state.policy, tenant)
        return use
