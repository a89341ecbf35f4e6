"""The records of the log: what a leader can propose, each a decision with its preconditions.

An entry of the log is an ordered tuple of records with the term its proposer
led and the log time it read. Names are imperative. A record that carries many
requests has a column for each field, so that a request costs a place in some
tuples and no object of its own. What lives here: the values. What must never
live here: their bytes (`codec`), what they do (`coordinator.core`). Called by:
everything. Frozen; fields are only ever added, at the end.

Numbers: the leader gives each request and each batch its number, ahead of the
log, so that an Admit, the Seal that takes its requests and the Assign of that
batch can ride in one entry. Numbers only rise; `apply` refuses one that does
not. Order of numbers is log order.

Source: docs/ARCHITECTURE.md, "The log"; ADR 0007.
"""

from __future__ import annotations

from dataclasses import dataclass

from raftbatch.kinds import Key, LapseReason, Ran, Release
from raftbatch.settings import Model, Policy

REQUESTS_MAX = 65_536
"""Requests that one record may carry: an entry of 1 MiB holds fewer."""

RECORDS_MAX = 65_536
"""Records that one entry may carry."""


@dataclass(frozen=True, slots=True)
class Lead:
    """A term begins: the first record of a leader.

    Attributes:
        node: who leads.
        wall_ms: its wall clock, for display.
        feature_level: what all nodes are known to understand; never goes back.
    """

    node: str
    wall_ms: int
    feature_level: int


@dataclass(frozen=True, slots=True)
class Admit:
    """Take requests in. Columns of equal length but for `keys` and `tenants`.

    Attributes:
        first: number of the first request; the others follow it.
        keys: distinct batch keys.
        tenants: distinct tenants.
        key: place in `keys`, of each request.
        tenant: place in `tenants`.
        request_id: chosen by the client.
        content_hash: of what was asked for; the same id with another is a conflict.
        rows: of the batch axis.
        priority: 0 is the most urgent.
        timeout_ms: 0: the model's default.
        payload: the envelope (`tensors`), opaque.
        parameters: of the request, opaque.
        traceparent: W3C trace context; empty: none.
    """

    first: int
    keys: tuple[Key, ...]
    tenants: tuple[str, ...]
    key: tuple[int, ...]
    tenant: tuple[int, ...]
    request_id: tuple[str, ...]
    content_hash: tuple[bytes, ...]
    rows: tuple[int, ...]
    priority: tuple[int, ...]
    timeout_ms: tuple[int, ...]
    payload: tuple[bytes, ...]
    parameters: tuple[bytes, ...]
    traceparent: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cancel:
    """Give requests the outcome `cancelled`, unless they have one; columns."""

    tenant: tuple[str, ...]
    request_id: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Clients have read these outcomes: the bytes may go, the ids stay known; columns."""

    tenant: tuple[str, ...]
    request_id: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forget:
    """An operator's purge of outcomes before their retention is over; columns."""

    tenant: tuple[str, ...]
    request_id: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Seal:
    """Make a batch of requests that wait in the window of one key.

    Attributes:
        batch: its number.
        key: whose window.
        reason: why now.
        numbers: the requests, in the batch's order.
    """

    batch: int
    key: Key
    reason: Release
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Assign:
    """Bind a batch to an executor; the index of the entry becomes the fence.

    Attributes:
        batch: its number.
        attempt: which assignment of it this is, from 1: a precondition.
        executor: whose slot.
        incarnation: of the executor.
    """

    batch: int
    attempt: int
    executor: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class Lapse:
    """Take an assignment back.

    Attributes:
        batch: its number.
        attempt: the attempt that is taken back.
        fence: of that attempt.
        reason: why.
        ran: whether it was running.
        stopped: whether the executor has said that it holds it no longer: only then,
            or with `Free`, does the slot return.
        code: of the failure, a slug; empty: none.
        message: of the failure, for people.
    """

    batch: int
    attempt: int
    fence: int
    reason: LapseReason
    ran: Ran
    stopped: bool
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Complete:
    """What an executor reports of a batch, or of a part of it; columns for its requests.

    Attributes:
        batch: its number.
        attempt: that ran.
        fence: of that attempt.
        executor: who ran it.
        incarnation: of the executor.
        last: whether this is the last part; the slot returns with it.
        queue_ns: time between the arrival at the executor and the start.
        compute_input_ns: gathering and moving the inputs.
        infer_ns: running the model.
        output_ns: moving and splitting the outputs.
        padded: the shape that ran, after padding.
        fingerprint: model content, library versions, device, padding plan.
        numbers: requests that this part is about.
        kind: OK or FAILED, of each.
        code: of a failure, a slug.
        message: of a failure, for people.
        result: the outputs, an envelope, opaque.
    """

    batch: int
    attempt: int
    fence: int
    executor: str
    incarnation: int
    last: bool
    queue_ns: int
    compute_input_ns: int
    infer_ns: int
    output_ns: int
    padded: tuple[int, ...]
    fingerprint: bytes
    numbers: tuple[int, ...]
    kind: tuple[int, ...]
    code: tuple[str, ...]
    message: tuple[str, ...]
    result: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Bisect:
    """Halve an exhausted batch, in log order; `right` is not used where one request is left."""

    batch: int
    left: int
    right: int


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Set aside the one request of an exhausted batch: its outcome is `failed`."""

    batch: int


@dataclass(frozen=True, slots=True)
class ReleaseQuarantined:
    """Drop requests from quarantine; their outcomes stay what they are."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """An executor appears; the index of the entry becomes its incarnation.

    Attributes:
        executor: its id.
        replaces: the incarnation that this process follows, which is over; 0: none.
        slots: batches it can hold.
        models: versions it has ready: name and version.
        attributes: device, libraries, for display; opaque.
    """

    executor: str
    replaces: int
    slots: int
    models: tuple[tuple[str, str], ...]
    attributes: bytes


@dataclass(frozen=True, slots=True)
class Ready:
    """An executor now has these model versions ready, and no others."""

    executor: str
    incarnation: int
    models: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Drain:
    """An executor finishes what it runs and gets nothing new; or, `on` false, does again."""

    executor: str
    incarnation: int
    on: bool


@dataclass(frozen=True, slots=True)
class Leave:
    """An incarnation ends; what it held lapses.

    Attributes:
        executor: its id.
        incarnation: that ends.
        lost: whether it was declared lost, rather than gone by its own will.
        running: batches that are known to have been running there.
    """

    executor: str
    incarnation: int
    lost: bool
    running: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Free:
    """An executor confirms that it has stopped lapsed assignments: their slots return.

    Attributes:
        executor: its id.
        incarnation: of the executor.
        batches: columns: the batch of each assignment ...
        fences: ... and its fence.
    """

    executor: str
    incarnation: int
    batches: tuple[int, ...]
    fences: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Probe:
    """A suspended executor ran its warm-up batch; success ends the suspension."""

    executor: str
    incarnation: int
    succeeded: bool


@dataclass(frozen=True, slots=True)
class PutModel:
    """Add a model version, or change its settings."""

    model: Model


@dataclass(frozen=True, slots=True)
class DeleteModel:
    """Remove a model version: its waiting requests fail, running ones finish."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class PutPolicy:
    """Change the cluster's limits."""

    policy: Policy


@dataclass(frozen=True, slots=True)
class Advance:
    """Nothing but time: what is due is ended though nothing else happens."""


Record = (
    Lead
    | Admit
    | Cancel
    | Acknowledge
    | Forget
    | Seal
    | Assign
    | Lapse
    | Complete
    | Bisect
    | Quarantine
    | ReleaseQuarantined
    | Join
    | Ready
    | Drain
    | Leave
    | Free
    | Probe
    | PutModel
    | DeleteModel
    | PutPolicy
    | Advance
)


@dataclass(frozen=True, slots=True)
class Entry:
    """The content of one log index.

    Attributes:
        term: that its proposer led; `apply` refuses it where Raft's differs.
        at_ms: log time, as the proposer counted it.
        records: in order.
        checksum: CRC-32 of its bytes, for the digest; not part of them.
    """

    term: int
    at_ms: int
    records: tuple[Record, ...]
    checksum: int = 0
