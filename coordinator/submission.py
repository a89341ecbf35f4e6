"""A request as it comes in: what it may be, its batch key, and the hash of what it asks for.

Whatever stands in the log must be readable by every replica, so the bounds of a
record's fields are held here, before anything is proposed. What lives here: those
checks, and the hash. What must never live here: what the state says to it
(`coordinator.core`), or tensors. Called by: `api`, and doors that make submissions.
Total but for InvalidRequest and PayloadTooLarge. Deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from raftbatch.errors import InvalidRequest, PayloadTooLarge
from raftbatch.fields import BLOB_BYTES_MAX, NAME_LENGTH_MAX, PRIORITY_MAX, TEXT_LENGTH_MAX

PARAMETERS_BYTES_MAX = 1 << 20
TIMEOUT_MS_MAX = 1 << 40
ROWS_MAX = 1 << 40
CONTENT_HASH_BYTES = 16
"""Two requests of one tenant and id are compared, never many: 16 bytes are plenty."""


class Submission(NamedTuple):
    """A request that a client asks for.

    Attributes:
        tenant: whose it is: 1 .. 256 characters, no NUL, as are the names below.
        request_id: chosen by the client; the same id is the same request.
        model: its name.
        version: of the model; empty: the newest, by number, then by name.
        signature: what else must be equal for requests to share a batch: datatypes, and
            shapes without the batch axis, free dimensions as their buckets. Up to 4096
            characters.
        rows: of the batch axis, from 1; 1 where the model has none.
        payload: the envelope (`tensors`), opaque here.
        priority: 0 is the most urgent; None: the model's default.
        timeout_ms: 0: the model's default.
        parameters: of the request, opaque here.
        traceparent: W3C trace context, up to 256 characters, of which it has 55; empty: none. No
            limit of what waits counts it.
    """

    tenant: str
    request_id: str
    model: str
    version: str
    signature: str
    rows: int
    payload: bytes
    priority: int | None = None
    timeout_ms: int = 0
    parameters: bytes = b""
    traceparent: str = ""


def check(submission: Submission) -> None:
    """Hold a submission against what a record may carry.

    Raises:
        InvalidRequest: definite; a field is not of its kind, or out of its range.
        PayloadTooLarge: definite; payload or parameters are too large for any record.
    """
    tenant, request_id, model, version, signature, rows, payload = submission[:7]
    priority, timeout_ms, parameters, traceparent = submission[7:]
    texts = tenant, request_id, model, version, signature, traceparent
    if not (
        {*map(type, texts)} == {str}
        and tenant
        and request_id
        and model
        and len(joined := "".join(texts)) <= NAME_LENGTH_MAX
        and joined.isascii()
        and "\0" not in joined
    ):  # perhaps one of them is too long, or none at all: mostly not
        _check_texts(submission)
    if type(rows) is not int or not 1 <= rows <= ROWS_MAX:
        raise InvalidRequest(f"rows are not in 1 .. {ROWS_MAX}")
    if priority is not None and (type(priority) is not int or not 0 <= priority <= PRIORITY_MAX):
        raise InvalidRequest(f"the priority is not in 0 .. {PRIORITY_MAX}")
    if type(timeout_ms) is not int or not 0 <= timeout_ms <= TIMEOUT_MS_MAX:
        raise InvalidRequest(f"timeout_ms is not in 0 .. {TIMEOUT_MS_MAX}")
    if type(payload) is not bytes or type(parameters) is not bytes:
        raise InvalidRequest("payload and parameters are bytes")
    if len(payload) > BLOB_BYTES_MAX:
        raise PayloadTooLarge(f"a payload of {len(payload)} bytes is more than {BLOB_BYTES_MAX}")
    if len(parameters) > PARAMETERS_BYTES_MAX:
        raise PayloadTooLarge(
            f"parameters of {len(parameters)} bytes are more than {PARAMETERS_BYTES_MAX}"
        )


def are_plain(submissions: Sequence[Submission]) -> bool:
    """Return whether `check` has surely nothing to say of any: asked of all, column by column.

    Args:
        submissions: one at least.
    """
    columns = tuple(zip(*submissions, strict=True))
    tenants, request_ids, models, versions, signatures, rows, payloads = columns[:7]
    priorities, timeouts, parameters, traceparents = columns[7:]
    texts = (*tenants, *request_ids, *models, *versions, *signatures, *traceparents)
    chosen = [each for each in priorities if each is not None]
    if not (
        all((*tenants, *request_ids, *models))
        and _are_short(texts)
        and {*map(type, (*rows, *timeouts, *chosen))} == {int}
        and {*map(type, (*payloads, *parameters))} == {bytes}
    ):
        return False
    return (
        1 <= min(rows) <= max(rows) <= ROWS_MAX
        and 0 <= min(timeouts) <= max(timeouts) <= TIMEOUT_MS_MAX
        and 0 <= min(chosen, default=0) <= max(chosen, default=0) <= PRIORITY_MAX
        and max(map(len, payloads)) <= BLOB_BYTES_MAX
        and max(map(len, parameters)) <= PARAMETERS_BYTES_MAX
    )


def _check_texts(submission: Submission) -> None:
    check_name("tenant", submission.tenant)
    check_name("request id", submission.request_id)
    check_name("model", submission.model)
    check_text("version", submission.version, 0, NAME_LENGTH_MAX)
    check_text("signature", submission.signature, 0, TEXT_LENGTH_MAX)
    check_text("traceparent", submission.traceparent, 0, NAME_LENGTH_MAX)


def check_name(what: str, name: str) -> None:
    """Make sure that a name can stand in a record.

    Raises:
        InvalidRequest: definite; it is empty, too long, or not text.
    """
    check_text(what, name, 1, NAME_LENGTH_MAX)


def check_names(what: str, names: Sequence[str]) -> None:
    """Make sure that each of many names can stand in a record.

    Raises:
        InvalidRequest: definite; one cannot.
    """
    if all(names) and _are_short(names):
        return
    for name in names:  # one of them is wrong, or beyond ASCII, or there is none
        check_name(what, name)


def _are_short(texts: Sequence[str]) -> bool:
    """Return whether all are surely such as `check_text` lets pass, the empty one too."""
    if {*map(type, texts)} != {str}:
        return False
    some = {*texts}  # mostly few of them differ, but for ids
    joined = "".join(some)
    return max(map(len, some)) <= NAME_LENGTH_MAX and joined.isascii() and "\0" not in joined


def check_text(what: str, text: str, least: int, most: int) -> None:
    """Make sure that a text can stand in a record.

    Raises:
        InvalidRequest: definite; it cannot.
    """
    if type(text) is not str or not least <= len(text) <= most or "\0" in text:
        raise InvalidRequest(f"{what}: a text of {least} .. {most} characters without NUL is asked")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidRequest(f"{what}: half a character (a surrogate) is in it") from None


def content_hash(submission: Submission) -> bytes:
    """Return the hash of what is asked for: model and version as they are named, and the inputs.

    Priority and timeout are not in it, since a second try may state what is left of them;
    nor what follows from the payload by the model's settings, which may change between two
    tries.
    """
    parameters = submission.parameters
    found = sha256(_head(submission.model, submission.version, len(parameters)) + parameters)
    found.update(submission.payload)
    return found.digest()[:CONTENT_HASH_BYTES]


@lru_cache(maxsize=256)
def _head(model: str, version: str, size: int) -> bytes:
    return f"{model}\0{version}\0{size}\0".encode()
