from raftbatch.v1 import error_pb2 as _error_pb2
from raftbatch.v1 import model_pb2 as _model_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Want(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WANT_OUTCOME: _ClassVar[Want]
    WANT_TICKET: _ClassVar[Want]
    WANT_TICKET_AND_OUTCOME: _ClassVar[Want]

class OutcomeKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_KIND_OK: _ClassVar[OutcomeKind]
    OUTCOME_KIND_FAILED: _ClassVar[OutcomeKind]
    OUTCOME_KIND_EXPIRED: _ClassVar[OutcomeKind]
    OUTCOME_KIND_CANCELLED: _ClassVar[OutcomeKind]

class CancelState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CANCEL_STATE_NONE: _ClassVar[CancelState]
    CANCEL_STATE_CANCELLED: _ClassVar[CancelState]
    CANCEL_STATE_ENDED: _ClassVar[CancelState]
    CANCEL_STATE_REMEMBERED: _ClassVar[CancelState]
WANT_OUTCOME: Want
WANT_TICKET: Want
WANT_TICKET_AND_OUTCOME: Want
OUTCOME_KIND_OK: OutcomeKind
OUTCOME_KIND_FAILED: OutcomeKind
OUTCOME_KIND_EXPIRED: OutcomeKind
OUTCOME_KIND_CANCELLED: OutcomeKind
CANCEL_STATE_NONE: CancelState
CANCEL_STATE_CANCELLED: CancelState
CANCEL_STATE_ENDED: CancelState
CANCEL_STATE_REMEMBERED: CancelState

class Submission(_message.Message):
    __slots__ = ("request_id", "model", "version", "signature", "rows", "payload", "priority", "timeout_ms", "parameters", "traceparent", "number", "want")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    WANT_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    model: str
    version: str
    signature: str
    rows: int
    payload: bytes
    priority: int
    timeout_ms: int
    parameters: bytes
    traceparent: str
    number: int
    want: Want
    def __init__(self, request_id: _Optional[str] = ..., model: _Optional[str] = ..., version: _Optional[str] = ..., signature: _Optional[str] = ..., rows: _Optional[int] = ..., payload: _Optional[bytes] = ..., priority: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., parameters: _Optional[bytes] = ..., traceparent: _Optional[str] = ..., number: _Optional[int] = ..., want: _Optional[_Union[Want, str]] = ...) -> None: ...

class Ticket(_message.Message):
    __slots__ = ("request_id", "index")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    index: int
    def __init__(self, request_id: _Optional[str] = ..., index: _Optional[int] = ...) -> None: ...

class Outcome(_message.Message):
    __slots__ = ("kind", "final", "result", "code", "message", "index", "ended_index", "at_ms", "run", "number")
    KIND_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ENDED_INDEX_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    kind: OutcomeKind
    final: bool
    result: bytes
    code: str
    message: str
    index: int
    ended_index: int
    at_ms: int
    run: Run
    number: int
    def __init__(self, kind: _Optional[_Union[OutcomeKind, str]] = ..., final: bool = ..., result: _Optional[bytes] = ..., code: _Optional[str] = ..., message: _Optional[str] = ..., index: _Optional[int] = ..., ended_index: _Optional[int] = ..., at_ms: _Optional[int] = ..., run: _Optional[_Union[Run, _Mapping]] = ..., number: _Optional[int] = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("batch", "attempt", "fence", "executor", "incarnation", "queue_ns", "compute_input_ns", "infer_ns", "output_ns", "padded", "fingerprint")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    QUEUE_NS_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_INPUT_NS_FIELD_NUMBER: _ClassVar[int]
    INFER_NS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_NS_FIELD_NUMBER: _ClassVar[int]
    PADDED_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    batch: int
    attempt: int
    fence: int
    executor: str
    incarnation: int
    queue_ns: int
    compute_input_ns: int
    infer_ns: int
    output_ns: int
    padded: _containers.RepeatedScalarFieldContainer[int]
    fingerprint: bytes
    def __init__(self, batch: _Optional[int] = ..., attempt: _Optional[int] = ..., fence: _Optional[int] = ..., executor: _Optional[str] = ..., incarnation: _Optional[int] = ..., queue_ns: _Optional[int] = ..., compute_input_ns: _Optional[int] = ..., infer_ns: _Optional[int] = ..., output_ns: _Optional[int] = ..., padded: _Optional[_Iterable[int]] = ..., fingerprint: _Optional[bytes] = ...) -> None: ...

class SubmitRequest(_message.Message):
    __slots__ = ("tenant", "submissions", "forward")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    SUBMISSIONS_FIELD_NUMBER: _ClassVar[int]
    FORWARD_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    submissions: _containers.RepeatedCompositeFieldContainer[Submission]
    forward: bool
    def __init__(self, tenant: _Optional[str] = ..., submissions: _Optional[_Iterable[_Union[Submission, _Mapping]]] = ..., forward: bool = ...) -> None: ...

class SubmitReply(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SubmitResult]
    def __init__(self, results: _Optional[_Iterable[_Union[SubmitResult, _Mapping]]] = ...) -> None: ...

class SubmitResult(_message.Message):
    __slots__ = ("ticket", "error")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ticket: Ticket
    error: _error_pb2.Error
    def __init__(self, ticket: _Optional[_Union[Ticket, _Mapping]] = ..., error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ...) -> None: ...

class AwaitRequest(_message.Message):
    __slots__ = ("tenant", "request_id", "index", "wait_ms")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    request_id: str
    index: int
    wait_ms: int
    def __init__(self, tenant: _Optional[str] = ..., request_id: _Optional[str] = ..., index: _Optional[int] = ..., wait_ms: _Optional[int] = ...) -> None: ...

class AwaitReply(_message.Message):
    __slots__ = ("ticket", "outcome")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    ticket: Ticket
    outcome: Outcome
    def __init__(self, ticket: _Optional[_Union[Ticket, _Mapping]] = ..., outcome: _Optional[_Union[Outcome, _Mapping]] = ...) -> None: ...

class InferRequest(_message.Message):
    __slots__ = ("tenant", "submission", "wait_ms", "forward")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    SUBMISSION_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    FORWARD_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    submission: Submission
    wait_ms: int
    forward: bool
    def __init__(self, tenant: _Optional[str] = ..., submission: _Optional[_Union[Submission, _Mapping]] = ..., wait_ms: _Optional[int] = ..., forward: bool = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("tenant", "request_ids", "forward")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_IDS_FIELD_NUMBER: _ClassVar[int]
    FORWARD_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    request_ids: _containers.RepeatedScalarFieldContainer[str]
    forward: bool
    def __init__(self, tenant: _Optional[str] = ..., request_ids: _Optional[_Iterable[str]] = ..., forward: bool = ...) -> None: ...

class CancelReply(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[CancelResult]
    def __init__(self, results: _Optional[_Iterable[_Union[CancelResult, _Mapping]]] = ...) -> None: ...

class CancelResult(_message.Message):
    __slots__ = ("state", "error")
    STATE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    state: CancelState
    error: _error_pb2.Error
    def __init__(self, state: _Optional[_Union[CancelState, str]] = ..., error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ...) -> None: ...

class AcknowledgeRequest(_message.Message):
    __slots__ = ("tenant", "request_ids", "forward")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_IDS_FIELD_NUMBER: _ClassVar[int]
    FORWARD_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    request_ids: _containers.RepeatedScalarFieldContainer[str]
    forward: bool
    def __init__(self, tenant: _Optional[str] = ..., request_ids: _Optional[_Iterable[str]] = ..., forward: bool = ...) -> None: ...

class AcknowledgeReply(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[AcknowledgeResult]
    def __init__(self, results: _Optional[_Iterable[_Union[AcknowledgeResult, _Mapping]]] = ...) -> None: ...

class AcknowledgeResult(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ...) -> None: ...

class SessionRequest(_message.Message):
    __slots__ = ("tenant", "forward", "dropped", "submissions", "awaits", "cancels", "acknowledgements")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    FORWARD_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    SUBMISSIONS_FIELD_NUMBER: _ClassVar[int]
    AWAITS_FIELD_NUMBER: _ClassVar[int]
    CANCELS_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGEMENTS_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    forward: bool
    dropped: _containers.RepeatedScalarFieldContainer[int]
    submissions: _containers.RepeatedCompositeFieldContainer[Submission]
    awaits: _containers.RepeatedCompositeFieldContainer[SessionAwait]
    cancels: _containers.RepeatedCompositeFieldContainer[SessionNames]
    acknowledgements: _containers.RepeatedCompositeFieldContainer[SessionNames]
    def __init__(self, tenant: _Optional[str] = ..., forward: bool = ..., dropped: _Optional[_Iterable[int]] = ..., submissions: _Optional[_Iterable[_Union[Submission, _Mapping]]] = ..., awaits: _Optional[_Iterable[_Union[SessionAwait, _Mapping]]] = ..., cancels: _Optional[_Iterable[_Union[SessionNames, _Mapping]]] = ..., acknowledgements: _Optional[_Iterable[_Union[SessionNames, _Mapping]]] = ...) -> None: ...

class SessionAwait(_message.Message):
    __slots__ = ("number", "request_id", "index")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    number: int
    request_id: str
    index: int
    def __init__(self, number: _Optional[int] = ..., request_id: _Optional[str] = ..., index: _Optional[int] = ...) -> None: ...

class SessionNames(_message.Message):
    __slots__ = ("number", "request_ids")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_IDS_FIELD_NUMBER: _ClassVar[int]
    number: int
    request_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, number: _Optional[int] = ..., request_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class SessionReply(_message.Message):
    __slots__ = ("opened", "tickets", "outcomes", "errors", "cancelled", "acknowledged")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    TICKETS_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    opened: Opened
    tickets: SessionTickets
    outcomes: _containers.RepeatedCompositeFieldContainer[Outcome]
    errors: _containers.RepeatedCompositeFieldContainer[SessionError]
    cancelled: _containers.RepeatedCompositeFieldContainer[SessionCancelled]
    acknowledged: _containers.RepeatedCompositeFieldContainer[SessionAcknowledged]
    def __init__(self, opened: _Optional[_Union[Opened, _Mapping]] = ..., tickets: _Optional[_Union[SessionTickets, _Mapping]] = ..., outcomes: _Optional[_Iterable[_Union[Outcome, _Mapping]]] = ..., errors: _Optional[_Iterable[_Union[SessionError, _Mapping]]] = ..., cancelled: _Optional[_Iterable[_Union[SessionCancelled, _Mapping]]] = ..., acknowledged: _Optional[_Iterable[_Union[SessionAcknowledged, _Mapping]]] = ...) -> None: ...

class Opened(_message.Message):
    __slots__ = ("node_id", "leader", "in_flight_max", "message_bytes_max", "names_max")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_MAX_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    NAMES_MAX_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    leader: str
    in_flight_max: int
    message_bytes_max: int
    names_max: int
    def __init__(self, node_id: _Optional[str] = ..., leader: _Optional[str] = ..., in_flight_max: _Optional[int] = ..., message_bytes_max: _Optional[int] = ..., names_max: _Optional[int] = ...) -> None: ...

class SessionTickets(_message.Message):
    __slots__ = ("numbers", "indexes")
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    INDEXES_FIELD_NUMBER: _ClassVar[int]
    numbers: _containers.RepeatedScalarFieldContainer[int]
    indexes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, numbers: _Optional[_Iterable[int]] = ..., indexes: _Optional[_Iterable[int]] = ...) -> None: ...

class SessionError(_message.Message):
    __slots__ = ("numbers", "error")
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    numbers: _containers.RepeatedScalarFieldContainer[int]
    error: _error_pb2.Error
    def __init__(self, numbers: _Optional[_Iterable[int]] = ..., error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ...) -> None: ...

class SessionCancelled(_message.Message):
    __slots__ = ("number", "results")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    number: int
    results: _containers.RepeatedCompositeFieldContainer[CancelResult]
    def __init__(self, number: _Optional[int] = ..., results: _Optional[_Iterable[_Union[CancelResult, _Mapping]]] = ...) -> None: ...

class SessionAcknowledged(_message.Message):
    __slots__ = ("number", "results")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    number: int
    results: _containers.RepeatedCompositeFieldContainer[AcknowledgeResult]
    def __init__(self, number: _Optional[int] = ..., results: _Optional[_Iterable[_Union[AcknowledgeResult, _Mapping]]] = ...) -> None: ...

class NodesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class NodesReply(_message.Message):
    __slots__ = ("nodes", "node_id", "leader_id")
    NODES_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    LEADER_ID_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[NodeAddress]
    node_id: str
    leader_id: str
    def __init__(self, nodes: _Optional[_Iterable[_Union[NodeAddress, _Mapping]]] = ..., node_id: _Optional[str] = ..., leader_id: _Optional[str] = ...) -> None: ...

class NodeAddress(_message.Message):
    __slots__ = ("node_id", "address")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    address: str
    def __init__(self, node_id: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...

class ModelsRequest(_message.Message):
    __slots__ = ("name", "after_name", "after_version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    AFTER_NAME_FIELD_NUMBER: _ClassVar[int]
    AFTER_VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    after_name: str
    after_version: str
    def __init__(self, name: _Optional[str] = ..., after_name: _Optional[str] = ..., after_version: _Optional[str] = ...) -> None: ...

class ModelsReply(_message.Message):
    __slots__ = ("models", "index", "more")
    MODELS_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    models: _containers.RepeatedCompositeFieldContainer[_model_pb2.Model]
    index: int
    more: bool
    def __init__(self, models: _Optional[_Iterable[_Union[_model_pb2.Model, _Mapping]]] = ..., index: _Optional[int] = ..., more: bool = ...) -> None: ...
