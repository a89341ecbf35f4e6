"""What a node's message answers: tickets and outcomes, to those who asked for them.

What lives here: giving them, and what a false message is for whoever it was meant for. What must
never live here: where to ask next (`engine`). Called by: `engine`.
"""

from __future__ import annotations

from collections.abc import Iterable

from raftbatch.client.asks import Ask
from raftbatch.client.results import Runs, of_outcome
from raftbatch.errors import OutcomeUnknown
from raftbatch.v1 import gateway_pb2 as pb

_KINDS = frozenset(
    (
        pb.OUTCOME_KIND_OK,
        pb.OUTCOME_KIND_FAILED,
        pb.OUTCOME_KIND_EXPIRED,
        pb.OUTCOME_KIND_CANCELLED,
    )
)


def take_outcomes(
    asks: dict[int, Ask], outcomes: Iterable[pb.Outcome], address: str, *, acknowledges: bool
) -> None:
    """Give outcomes to whom they belong.

    Args:
        asks: what the node owes, by number; what is answered is taken out.
        outcomes: what it says.
        address: of the node.
        acknowledges: whether the cluster is told who has read.
    """
    runs = Runs()
    for outcome in outcomes:
        ask = asks.pop(outcome.number, None)
        if ask is None or ask.answer.done():
            continue  # it is not wanted any more
        if ask.wants_ticket:
            _is_false(ask, address, "an outcome, and not its ticket")
        elif outcome.kind not in _KINDS:
            _is_false(ask, address, f"an outcome of a kind that is not known ({outcome.kind})")
        else:
            ask.is_read = acknowledges
            of_outcome(ask, outcome, runs)


def take_tickets(asks: dict[int, Ask], tickets: pb.SessionTickets, address: str) -> None:
    """Give tickets to whom they belong. Args: see `take_outcomes`."""
    numbers, indexes = tickets.numbers, tickets.indexes
    is_whole = len(numbers) == len(indexes)  # else nobody knows which is whose
    for place, number in enumerate(numbers):
        ask = asks.pop(number, None)
        if ask is None or ask.answer.done():
            continue
        if not is_whole:
            _is_false(ask, address, f"{len(indexes)} tickets for {len(numbers)} requests")
        elif ask.wants_ticket:
            ask.answer.set_result(indexes[place])
        else:
            _is_false(ask, address, "a ticket, and not its outcome")


def _is_false(ask: Ask, address: str, what: str) -> None:
    """End an ask: nobody knows what such a node has done."""
    ask.fail(
        OutcomeUnknown(
            f"{address} answers {ask.request_id} with {what}: it is of another version, or no "
            "node of raftbatch"
        )
    )
