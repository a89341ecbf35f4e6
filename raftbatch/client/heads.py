"""What stands before the inputs of a request as it is sent; what many have in common is made once.

What lives here: the fields of a Submission but its inputs and its number, as bytes. What must
never live here: inputs (`inputs`), or when it is sent (`asks`). Called by: `aio`.
"""

from __future__ import annotations

from math import ceil

from raftbatch.client import checks
from raftbatch.framing import tag_of, varint
from raftbatch.v1 import gateway_pb2 as pb

_KNOWN_MAX = 1024
_REQUEST_ID = tag_of(pb.Submission, "request_id")
_PAYLOAD = tag_of(pb.Submission, "payload")

_Key = tuple[str, str, str, int, float | None, int | None, int]


class Heads:
    """See the module's docstring."""

    def __init__(self) -> None:
        self._known: dict[_Key, bytes] = {}

    def head(
        self,
        request_id: str,
        payload_bytes: int,
        key: _Key,
        parameters: bytes = b"",
        traceparent: str = "",
    ) -> bytes:
        """Return what stands before a request's inputs.

        Args:
            request_id: of the request.
            payload_bytes: how many bytes of inputs follow.
            key: model, version, signature, rows, timeout in seconds or None, priority or
                None, and what is wanted (`Want`).
            parameters: for the model, beside the inputs.
            traceparent: W3C trace context.

        Raises:
            InvalidRequest: something is not of its kind, or no number that can be sent;
                definite.
        """
        common = self._known.get(key)
        if common is None:
            common = self._made(key)
        if parameters or traceparent:
            checks.text("traceparent", traceparent)
            more = pb.Submission(parameters=parameters, traceparent=traceparent)
            common += more.SerializeToString()
        checks.text("request id", request_id)
        name = request_id.encode()
        return b"".join(
            (common, _REQUEST_ID, varint(len(name)), name, _PAYLOAD, varint(payload_bytes))
        )

    def _made(self, key: _Key) -> bytes:
        model, version, signature, rows, timeout_s, priority, want = key
        checks.text("model", model)
        checks.text("version", version)
        submission = pb.Submission(
            model=model, version=version, signature=signature, rows=rows, want=pb.Want.Name(want)
        )
        if timeout_s is not None:
            checks.timeout(timeout_s)
            submission.timeout_ms = ceil(timeout_s * 1000)
        if priority is not None:
            checks.number("priority", priority, checks.PRIORITY_MAX)
            submission.priority = priority
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        found = self._known[key] = submission.SerializeToString()
        return found
