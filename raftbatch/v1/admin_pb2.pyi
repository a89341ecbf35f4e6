from raftbatch.v1 import load_pb2 as _load_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatusReply(_message.Message):
    __slots__ = ("node_id", "cluster_name", "phase", "waiting", "cluster_id", "incarnation", "role", "term", "leader", "leader_address", "commit", "applied", "digest", "members", "peers", "space", "counters", "scheduler")
    class CountersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_NAME_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    SPACE_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULER_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    cluster_name: str
    phase: str
    waiting: _containers.RepeatedCompositeFieldContainer[Waiting]
    cluster_id: str
    incarnation: int
    role: str
    term: int
    leader: str
    leader_address: str
    commit: int
    applied: int
    digest: bytes
    members: _containers.RepeatedCompositeFieldContainer[MemberStatus]
    peers: _containers.RepeatedCompositeFieldContainer[PeerStatus]
    space: str
    counters: _containers.ScalarMap[str, int]
    scheduler: SchedulerStatus
    def __init__(self, node_id: _Optional[str] = ..., cluster_name: _Optional[str] = ..., phase: _Optional[str] = ..., waiting: _Optional[_Iterable[_Union[Waiting, _Mapping]]] = ..., cluster_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., role: _Optional[str] = ..., term: _Optional[int] = ..., leader: _Optional[str] = ..., leader_address: _Optional[str] = ..., commit: _Optional[int] = ..., applied: _Optional[int] = ..., digest: _Optional[bytes] = ..., members: _Optional[_Iterable[_Union[MemberStatus, _Mapping]]] = ..., peers: _Optional[_Iterable[_Union[PeerStatus, _Mapping]]] = ..., space: _Optional[str] = ..., counters: _Optional[_Mapping[str, int]] = ..., scheduler: _Optional[_Union[SchedulerStatus, _Mapping]] = ...) -> None: ...

class SchedulerStatus(_message.Message):
    __slots__ = ("at_ms", "requests", "batches", "outcomes", "quarantined", "windows_total", "windows", "executors_total", "executors", "models_total", "models")
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    QUARANTINED_FIELD_NUMBER: _ClassVar[int]
    WINDOWS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    WINDOWS_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_FIELD_NUMBER: _ClassVar[int]
    MODELS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    at_ms: int
    requests: int
    batches: int
    outcomes: int
    quarantined: int
    windows_total: int
    windows: _containers.RepeatedCompositeFieldContainer[WindowStatus]
    executors_total: int
    executors: _containers.RepeatedCompositeFieldContainer[ExecutorStatus]
    models_total: int
    models: _containers.RepeatedCompositeFieldContainer[ModelStatus]
    def __init__(self, at_ms: _Optional[int] = ..., requests: _Optional[int] = ..., batches: _Optional[int] = ..., outcomes: _Optional[int] = ..., quarantined: _Optional[int] = ..., windows_total: _Optional[int] = ..., windows: _Optional[_Iterable[_Union[WindowStatus, _Mapping]]] = ..., executors_total: _Optional[int] = ..., executors: _Optional[_Iterable[_Union[ExecutorStatus, _Mapping]]] = ..., models_total: _Optional[int] = ..., models: _Optional[_Iterable[_Union[ModelStatus, _Mapping]]] = ...) -> None: ...

class WindowStatus(_message.Message):
    __slots__ = ("opened_ms", "first_index", "model", "version", "requests", "rows")
    OPENED_MS_FIELD_NUMBER: _ClassVar[int]
    FIRST_INDEX_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    opened_ms: int
    first_index: int
    model: str
    version: str
    requests: int
    rows: int
    def __init__(self, opened_ms: _Optional[int] = ..., first_index: _Optional[int] = ..., model: _Optional[str] = ..., version: _Optional[str] = ..., requests: _Optional[int] = ..., rows: _Optional[int] = ...) -> None: ...

class ExecutorStatus(_message.Message):
    __slots__ = ("executor", "incarnation", "slots", "held", "draining", "suspended", "load")
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    executor: str
    incarnation: int
    slots: int
    held: int
    draining: bool
    suspended: bool
    load: _load_pb2.ExecutorLoad
    def __init__(self, executor: _Optional[str] = ..., incarnation: _Optional[int] = ..., slots: _Optional[int] = ..., held: _Optional[int] = ..., draining: bool = ..., suspended: bool = ..., load: _Optional[_Union[_load_pb2.ExecutorLoad, _Mapping]] = ...) -> None: ...

class ModelStatus(_message.Message):
    __slots__ = ("name", "version", "requests", "executors", "deleting")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_FIELD_NUMBER: _ClassVar[int]
    DELETING_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    requests: int
    executors: int
    deleting: bool
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., requests: _Optional[int] = ..., executors: _Optional[int] = ..., deleting: bool = ...) -> None: ...

class Waiting(_message.Message):
    __slots__ = ("node_id", "why")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    why: str
    def __init__(self, node_id: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class MemberStatus(_message.Message):
    __slots__ = ("node_id", "incarnation", "address", "client_address", "rank", "progress")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    incarnation: int
    address: str
    client_address: str
    rank: str
    progress: Progress
    def __init__(self, node_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., address: _Optional[str] = ..., client_address: _Optional[str] = ..., rank: _Optional[str] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("match", "feeding", "connected", "in_flight_bytes")
    MATCH_FIELD_NUMBER: _ClassVar[int]
    FEEDING_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_BYTES_FIELD_NUMBER: _ClassVar[int]
    match: int
    feeding: str
    connected: bool
    in_flight_bytes: int
    def __init__(self, match: _Optional[int] = ..., feeding: _Optional[str] = ..., connected: bool = ..., in_flight_bytes: _Optional[int] = ...) -> None: ...

class PeerStatus(_message.Message):
    __slots__ = ("node_id", "address", "incarnation", "queued_bytes", "refusal", "differs")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    QUEUED_BYTES_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    DIFFERS_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    address: str
    incarnation: int
    queued_bytes: int
    refusal: str
    differs: str
    def __init__(self, node_id: _Optional[str] = ..., address: _Optional[str] = ..., incarnation: _Optional[int] = ..., queued_bytes: _Optional[int] = ..., refusal: _Optional[str] = ..., differs: _Optional[str] = ...) -> None: ...

class MembersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class MembersReply(_message.Message):
    __slots__ = ("members",)
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedCompositeFieldContainer[MemberStatus]
    def __init__(self, members: _Optional[_Iterable[_Union[MemberStatus, _Mapping]]] = ...) -> None: ...

class AddRequest(_message.Message):
    __slots__ = ("node_id", "address", "stays_learner")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    STAYS_LEARNER_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    address: str
    stays_learner: bool
    def __init__(self, node_id: _Optional[str] = ..., address: _Optional[str] = ..., stays_learner: bool = ...) -> None: ...

class AddReply(_message.Message):
    __slots__ = ("incarnation",)
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    incarnation: int
    def __init__(self, incarnation: _Optional[int] = ...) -> None: ...

class PromoteRequest(_message.Message):
    __slots__ = ("node_id",)
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    def __init__(self, node_id: _Optional[str] = ...) -> None: ...

class PromoteReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RemoveRequest(_message.Message):
    __slots__ = ("node_id", "force")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    force: bool
    def __init__(self, node_id: _Optional[str] = ..., force: bool = ...) -> None: ...

class RemoveReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class MoveRequest(_message.Message):
    __slots__ = ("node_id", "address")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    address: str
    def __init__(self, node_id: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...

class MoveReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TransferRequest(_message.Message):
    __slots__ = ("node_id",)
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    def __init__(self, node_id: _Optional[str] = ...) -> None: ...

class TransferReply(_message.Message):
    __slots__ = ("node_id", "led_already")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    LED_ALREADY_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    led_already: bool
    def __init__(self, node_id: _Optional[str] = ..., led_already: bool = ...) -> None: ...

class EntriesRequest(_message.Message):
    __slots__ = ("first", "last", "follow", "payloads", "newest")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    first: int
    last: int
    follow: bool
    payloads: bool
    newest: int
    def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ..., follow: bool = ..., payloads: bool = ..., newest: _Optional[int] = ...) -> None: ...

class EntriesReply(_message.Message):
    __slots__ = ("span", "entries")
    SPAN_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    span: LogSpan
    entries: _containers.RepeatedCompositeFieldContainer[LogEntry]
    def __init__(self, span: _Optional[_Union[LogSpan, _Mapping]] = ..., entries: _Optional[_Iterable[_Union[LogEntry, _Mapping]]] = ...) -> None: ...

class LogSpan(_message.Message):
    __slots__ = ("node_id", "first", "applied")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    first: int
    applied: int
    def __init__(self, node_id: _Optional[str] = ..., first: _Optional[int] = ..., applied: _Optional[int] = ...) -> None: ...

class LogEntry(_message.Message):
    __slots__ = ("index", "term", "size", "data", "more", "membership")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    MEMBERSHIP_FIELD_NUMBER: _ClassVar[int]
    index: int
    term: int
    size: int
    data: bytes
    more: bool
    membership: str
    def __init__(self, index: _Optional[int] = ..., term: _Optional[int] = ..., size: _Optional[int] = ..., data: _Optional[bytes] = ..., more: bool = ..., membership: _Optional[str] = ...) -> None: ...

class RequestRequest(_message.Message):
    __slots__ = ("tenant", "request_id")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    request_id: str
    def __init__(self, tenant: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class RequestReply(_message.Message):
    __slots__ = ("applied", "at_ms", "number", "index", "admitted_ms", "deadline_ms", "model", "version", "rows", "size", "batch", "outcome", "quarantined")
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ADMITTED_MS_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    QUARANTINED_FIELD_NUMBER: _ClassVar[int]
    applied: int
    at_ms: int
    number: int
    index: int
    admitted_ms: int
    deadline_ms: int
    model: str
    version: str
    rows: int
    size: int
    batch: int
    outcome: KnownOutcome
    quarantined: bool
    def __init__(self, applied: _Optional[int] = ..., at_ms: _Optional[int] = ..., number: _Optional[int] = ..., index: _Optional[int] = ..., admitted_ms: _Optional[int] = ..., deadline_ms: _Optional[int] = ..., model: _Optional[str] = ..., version: _Optional[str] = ..., rows: _Optional[int] = ..., size: _Optional[int] = ..., batch: _Optional[int] = ..., outcome: _Optional[_Union[KnownOutcome, _Mapping]] = ..., quarantined: bool = ...) -> None: ...

class KnownOutcome(_message.Message):
    __slots__ = ("kind", "code", "message", "result_bytes", "index", "at_ms", "kept", "batch", "attempt", "fence", "executor", "infer_ns")
    KIND_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RESULT_BYTES_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    INFER_NS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    code: str
    message: str
    result_bytes: int
    index: int
    at_ms: int
    kept: bool
    batch: int
    attempt: int
    fence: int
    executor: str
    infer_ns: int
    def __init__(self, kind: _Optional[str] = ..., code: _Optional[str] = ..., message: _Optional[str] = ..., result_bytes: _Optional[int] = ..., index: _Optional[int] = ..., at_ms: _Optional[int] = ..., kept: bool = ..., batch: _Optional[int] = ..., attempt: _Optional[int] = ..., fence: _Optional[int] = ..., executor: _Optional[str] = ..., infer_ns: _Optional[int] = ...) -> None: ...

class BatchRequest(_message.Message):
    __slots__ = ("batch",)
    BATCH_FIELD_NUMBER: _ClassVar[int]
    batch: int
    def __init__(self, batch: _Optional[int] = ...) -> None: ...

class BatchReply(_message.Message):
    __slots__ = ("applied", "at_ms", "batch", "root", "model", "version", "reason", "sealed_ms", "requests", "rows", "members", "assigned", "failed", "executor", "fence")
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    ROOT_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SEALED_MS_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    applied: int
    at_ms: int
    batch: int
    root: int
    model: str
    version: str
    reason: str
    sealed_ms: int
    requests: int
    rows: int
    members: _containers.RepeatedCompositeFieldContainer[BatchMember]
    assigned: int
    failed: int
    executor: str
    fence: int
    def __init__(self, applied: _Optional[int] = ..., at_ms: _Optional[int] = ..., batch: _Optional[int] = ..., root: _Optional[int] = ..., model: _Optional[str] = ..., version: _Optional[str] = ..., reason: _Optional[str] = ..., sealed_ms: _Optional[int] = ..., requests: _Optional[int] = ..., rows: _Optional[int] = ..., members: _Optional[_Iterable[_Union[BatchMember, _Mapping]]] = ..., assigned: _Optional[int] = ..., failed: _Optional[int] = ..., executor: _Optional[str] = ..., fence: _Optional[int] = ...) -> None: ...

class BatchMember(_message.Message):
    __slots__ = ("number", "tenant", "request_id")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    number: int
    tenant: str
    request_id: str
    def __init__(self, number: _Optional[int] = ..., tenant: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...
