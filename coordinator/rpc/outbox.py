"""What a session has to say: noted as it comes to be, made into messages as they leave.

What lives here: answers by number, and the messages made of them. What must never live
here: a stream, or what was asked for. Called by: `session`. One thread: the loop's.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.core.effects import Verdict
from coordinator.core.values import Outcome, Run
from coordinator.rpc import values
from coordinator.rpc.errors import AddressOf, to_message
from raftbatch.errors import Fatal, RaftbatchError
from raftbatch.v1 import gateway_pb2 as pb

MESSAGE_BYTES = 1 << 18
"""A message is closed when it holds so much; one result may be larger. Larger messages cost more
for each byte: their memory comes fresh from the system."""

_ANSWER_BYTES = 128
"""What an answer counts as, beside its result: names, numbers, and what Python adds."""

_NAME_BYTES = 64


class Outbox:
    """See the module's docstring.

    Args:
        address_of: where clients reach a node.

    Attributes:
        bytes: of all that is noted, about.
    """

    def __init__(self, address_of: AddressOf) -> None:
        self._address_of = address_of
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.bytes = 0
        self._ticket_numbers: list[int] = []
        self._ticket_indexes: list[int] = []
        self._outcomes: list[tuple[int, Outcome]] = []
        self._errors: list[tuple[int, RaftbatchError | Fatal]] = []
        self._cancelled: list[tuple[int, Sequence[Verdict | RaftbatchError]]] = []
        self._acknowledged: list[tuple[int, Sequence[Verdict | RaftbatchError]]] = []

    @property
    def has_any(self) -> bool:
        """Whether there is anything to say."""
        return self.bytes > 0

    def ticket(self, number: int, index: int) -> None:
        """Note a ticket."""
        self._ticket_numbers.append(number)
        self._ticket_indexes.append(index)
        self.bytes += _NAME_BYTES

    def outcome(self, number: int, outcome: Outcome) -> None:
        """Note an outcome."""
        self._outcomes.append((number, outcome))
        self.bytes += _ANSWER_BYTES + len(outcome.result) + len(outcome.message)

    def error(self, number: int, error: RaftbatchError | Fatal) -> None:
        """Note that something was refused, or is not known."""
        self._errors.append((number, error))
        self.bytes += _ANSWER_BYTES + len(str(error))

    def cancelled(self, number: int, answers: Sequence[Verdict | RaftbatchError]) -> None:
        """Note what became of cancels."""
        self._cancelled.append((number, answers))
        self.bytes += _ANSWER_BYTES + _NAME_BYTES * len(answers)

    def acknowledged(self, number: int, answers: Sequence[Verdict | RaftbatchError]) -> None:
        """Note what became of acknowledgements."""
        self._acknowledged.append((number, answers))
        self.bytes += _ANSWER_BYTES + _NAME_BYTES * len(answers)

    def take(self) -> pb.SessionReply:
        """Return a message of what is noted: all, or as much as a message takes.

        Tickets leave before outcomes: for one number they come in that order.
        """
        reply = pb.SessionReply()
        left = self._take_tickets(reply)
        left = self._take_outcomes(reply, left)
        left = self._take_errors(reply, left)
        while self._cancelled and left > 0:
            number, answers = self._cancelled.pop(0)
            results = [values.cancel_result(each, self._address_of) for each in answers]
            reply.cancelled.add(number=number, results=results)
            left -= self._took(_ANSWER_BYTES + _NAME_BYTES * len(answers))
        while self._acknowledged and left > 0:
            number, answers = self._acknowledged.pop(0)
            results_or_none = []
            if any(answer is not Verdict.OK for answer in answers):
                results_or_none = [
                    values.acknowledge_result(each, self._address_of) for each in answers
                ]
            reply.acknowledged.add(number=number, results=results_or_none)
            left -= self._took(_ANSWER_BYTES + _NAME_BYTES * len(answers))
        return reply

    def _took(self, size: int) -> int:
        self.bytes -= size
        return size

    def _take_tickets(self, reply: pb.SessionReply) -> int:
        count = len(self._ticket_numbers)
        if count:
            reply.tickets.numbers.extend(self._ticket_numbers)
            reply.tickets.indexes.extend(self._ticket_indexes)
            self._ticket_numbers, self._ticket_indexes = [], []
        return MESSAGE_BYTES - self._took(_NAME_BYTES * count)

    def _take_outcomes(self, reply: pb.SessionReply, left: int) -> int:
        """Add outcomes, as many as there is room for; those of one run share its message."""
        add, taken, size = reply.outcomes.add, 0, 0
        run: Run | None = None
        message: pb.Run | None = None
        for number, outcome in self._outcomes:
            if size >= left:
                break
            if outcome.run is not run:
                run = outcome.run
                message = values.run_message(run)
            values.outcome_message(outcome, message, number, add)  # where it is to be: no copy
            size += _ANSWER_BYTES + len(outcome.result) + len(outcome.message)
            taken += 1
        del self._outcomes[:taken]
        return left - self._took(size)

    def _take_errors(self, reply: pb.SessionReply, left: int) -> int:
        """Add errors; numbers that failed for one reason in a row share it."""
        taken, size = 0, 0
        last: RaftbatchError | Fatal | None = None
        numbers: list[int] = []
        for number, error in self._errors:
            if size >= left:
                break
            if numbers and not _is_same(error, last):
                _add_error(reply, numbers, last, self._address_of)
                numbers = []
            last = error
            numbers.append(number)
            size += _ANSWER_BYTES + len(str(error))
            taken += 1
        if numbers:
            _add_error(reply, numbers, last, self._address_of)
        del self._errors[:taken]
        return left - self._took(size)


def _is_same(error: RaftbatchError | Fatal, last: RaftbatchError | Fatal | None) -> bool:
    """Return whether one message says both. Total. Deterministic."""
    return error is last or (
        type(error) is type(last)
        and isinstance(error, RaftbatchError)
        and isinstance(last, RaftbatchError)
        and (error.message, error.leader, error.retry_after_ms)
        == (last.message, last.leader, last.retry_after_ms)
    )


def _add_error(
    reply: pb.SessionReply,
    numbers: Sequence[int],
    error: RaftbatchError | Fatal | None,
    address_of: AddressOf,
) -> None:
    assert error is not None
    reply.errors.add(numbers=numbers, error=to_message(error, address_of))
