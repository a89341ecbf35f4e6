"""What a request came to: its outputs, and which run gave them.

What lives here: results, and the exceptions that the other outcomes are. What must never
live here: a node. Called by: `answers`, and whoever asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from raftbatch.client.failures import RequestCancelled, RequestFailed
from raftbatch.client.values import from_tensor
from raftbatch.errors import DeadlineExceeded, InvalidRequest
from raftbatch.tensors import BYTES, Tensor, check_elements, decode
from raftbatch.v1 import gateway_pb2 as pb

if TYPE_CHECKING:
    from raftbatch.client.asks import Ask


_OK = pb.OUTCOME_KIND_OK
_BAD_OUTPUT = "bad_output"  # as executors call what models give them


class Result:
    """The outputs of a request whose outcome is `ok`.

    Outputs are had by name, as numpy arrays (as nested lists where numpy is not installed),
    and BYTES as texts. What went in without the batch axis comes out without it. They are
    read when they are asked for.

    Args:
        request_id: of the request.
        outcome: what the node says.
        run: which run gave it, as bytes, where they are made already.
        is_single: see below.

    Attributes:
        request_id: of the request.
        index: of its ticket.
        ended_index: of the log entry that holds the outcome.
        at_ms: log time of that.
        payload: the outputs as they came, in the form of `raftbatch/tensors.py`.
        is_single: whether its inputs had no batch axis.
    """

    __slots__ = ("_run", "at_ms", "ended_index", "index", "is_single", "payload", "request_id")

    def __init__(
        self,
        request_id: str,
        outcome: pb.Outcome,
        run: bytes | None = None,
        *,
        is_single: bool = False,
    ) -> None:
        self.request_id = request_id
        self.index: int = outcome.index
        self.ended_index: int = outcome.ended_index
        self.at_ms: int = outcome.at_ms
        self.payload: bytes = outcome.result
        self.is_single = is_single
        # Bytes: the message would keep all others that came with it.
        self._run = outcome.run.SerializeToString() if run is None else run

    def __getitem__(self, name: str) -> Any:
        """Return an output.

        Raises:
            KeyError: there is none of that name.
            RequestFailed: what came is no output; definite.
            InvalidRequest: BYTES are no text (see `tensors`); definite.
        """
        for tensor in self.tensors:
            if tensor.name == name:
                try:
                    return from_tensor(tensor, is_single=self.is_single)
                except InvalidRequest:
                    self._check(tensor)
                    raise
        raise KeyError(f"{name}: the outputs are {', '.join(self)}")

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the outputs."""
        return iter([tensor.name for tensor in self.tensors])

    def __repr__(self) -> str:
        """Return the id and the size."""
        return f"Result({self.request_id}, index={self.index}, {len(self.payload)} bytes)"

    def keys(self) -> list[str]:
        """Return the names of the outputs: `dict(result)` holds them all."""
        return list(self)

    @property
    def value(self) -> Any:
        """The only output.

        Raises:
            RequestFailed: what came is no output; definite.
            InvalidRequest: there are others, or none; definite.
        """
        names = list(self)
        if len(names) != 1:
            raise InvalidRequest(f"there is not one output: {', '.join(names) or 'none'}")
        return self[names[0]]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The outputs, as raw bytes with their shapes.

        Raises:
            RequestFailed: what came is no envelope; definite.
        """
        try:
            return decode(self.payload)
        except InvalidRequest as error:
            raise self._unreadable(error) from None

    @property
    def run(self) -> pb.Run:
        """Which run gave it: batch, attempt, executor, and how long each part took."""
        return pb.Run.FromString(self._run)

    def _check(self, tensor: Tensor) -> None:
        """Look whether BYTES are elements at all."""
        if tensor.datatype == BYTES:
            try:
                check_elements(tensor)
            except InvalidRequest as error:
                raise self._unreadable(error) from None

    def _unreadable(self, error: InvalidRequest) -> RequestFailed:
        """Return what it is for whoever asked: the executor's fault, and not theirs."""
        message = f"the output of {self.request_id} cannot be read: {error.message}"
        return RequestFailed(message, code=_BAD_OUTPUT)


class Runs:
    """The runs of a message's outcomes, as bytes: outcomes of one run stand together."""

    __slots__ = ("_key", "_run")

    def __init__(self) -> None:
        self._key = (0, 0, 0, 0)
        self._run = b""

    def of(self, outcome: pb.Outcome) -> bytes:
        """Return the run of an outcome."""
        run = outcome.run
        key = (run.batch, run.fence, run.infer_ns, run.output_ns)
        if key != self._key:
            self._key, self._run = key, run.SerializeToString()
        return self._run


def of_outcome(ask: Ask, outcome: pb.Outcome, runs: Runs) -> None:
    """Give a request's outcome to whoever waits for it."""
    kind = outcome.kind
    if kind == _OK:
        single, run = ask.is_single, runs.of(outcome)
        ask.answer.set_result(Result(ask.request_id, outcome, run, is_single=single))
    elif kind == pb.OUTCOME_KIND_FAILED:
        message = outcome.message or f"the model failed ({outcome.code})"
        ask.answer.set_exception(RequestFailed(message, code=outcome.code))
    elif kind == pb.OUTCOME_KIND_EXPIRED:
        message = outcome.message or f"{ask.request_id} had no outcome before its deadline"
        ask.answer.set_exception(DeadlineExceeded(message))
    else:
        message = outcome.message or f"{ask.request_id} was cancelled"
        ask.answer.set_exception(RequestCancelled(message))
