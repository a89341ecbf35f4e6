from raftbatch.v1 import error_pb2 as _error_pb2
from raftbatch.v1 import load_pb2 as _load_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LapseReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LAPSE_REASON_NONE: _ClassVar[LapseReason]
    LAPSE_REASON_EXECUTOR_LOST: _ClassVar[LapseReason]
    LAPSE_REASON_TIMED_OUT: _ClassVar[LapseReason]
    LAPSE_REASON_DRAINED: _ClassVar[LapseReason]
    LAPSE_REASON_REFUSED: _ClassVar[LapseReason]
    LAPSE_REASON_FAILED: _ClassVar[LapseReason]

class Ran(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RAN_NO: _ClassVar[Ran]
    RAN_YES: _ClassVar[Ran]
    RAN_UNKNOWN: _ClassVar[Ran]
LAPSE_REASON_NONE: LapseReason
LAPSE_REASON_EXECUTOR_LOST: LapseReason
LAPSE_REASON_TIMED_OUT: LapseReason
LAPSE_REASON_DRAINED: LapseReason
LAPSE_REASON_REFUSED: LapseReason
LAPSE_REASON_FAILED: LapseReason
RAN_NO: Ran
RAN_YES: Ran
RAN_UNKNOWN: Ran

class ModelVersion(_message.Message):
    __slots__ = ("name", "version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class Slot(_message.Message):
    __slots__ = ("batch", "fence")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    batch: int
    fence: int
    def __init__(self, batch: _Optional[int] = ..., fence: _Optional[int] = ...) -> None: ...

class JoinRequest(_message.Message):
    __slots__ = ("executor", "replaces", "slots", "models", "attributes")
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    REPLACES_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    executor: str
    replaces: int
    slots: int
    models: _containers.RepeatedCompositeFieldContainer[ModelVersion]
    attributes: bytes
    def __init__(self, executor: _Optional[str] = ..., replaces: _Optional[int] = ..., slots: _Optional[int] = ..., models: _Optional[_Iterable[_Union[ModelVersion, _Mapping]]] = ..., attributes: _Optional[bytes] = ...) -> None: ...

class JoinReply(_message.Message):
    __slots__ = ("incarnation", "lease_ms")
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    incarnation: int
    lease_ms: int
    def __init__(self, incarnation: _Optional[int] = ..., lease_ms: _Optional[int] = ...) -> None: ...

class ReadyRequest(_message.Message):
    __slots__ = ("executor", "incarnation", "models")
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    executor: str
    incarnation: int
    models: _containers.RepeatedCompositeFieldContainer[ModelVersion]
    def __init__(self, executor: _Optional[str] = ..., incarnation: _Optional[int] = ..., models: _Optional[_Iterable[_Union[ModelVersion, _Mapping]]] = ...) -> None: ...

class ReadyReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TailRequest(_message.Message):
    __slots__ = ("executor", "incarnation", "held", "seen_index")
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    SEEN_INDEX_FIELD_NUMBER: _ClassVar[int]
    executor: str
    incarnation: int
    held: _containers.RepeatedCompositeFieldContainer[Slot]
    seen_index: int
    def __init__(self, executor: _Optional[str] = ..., incarnation: _Optional[int] = ..., held: _Optional[_Iterable[_Union[Slot, _Mapping]]] = ..., seen_index: _Optional[int] = ...) -> None: ...

class FeedMessage(_message.Message):
    __slots__ = ("current", "changes", "more")
    CURRENT_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    current: Current
    changes: Changes
    more: bool
    def __init__(self, current: _Optional[_Union[Current, _Mapping]] = ..., changes: _Optional[_Union[Changes, _Mapping]] = ..., more: bool = ...) -> None: ...

class Current(_message.Message):
    __slots__ = ("index", "at_ms", "start", "keep", "shed", "drop", "draining", "suspended")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    SHED_FIELD_NUMBER: _ClassVar[int]
    DROP_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    index: int
    at_ms: int
    start: _containers.RepeatedCompositeFieldContainer[Assignment]
    keep: _containers.RepeatedCompositeFieldContainer[Slot]
    shed: _containers.RepeatedCompositeFieldContainer[Shed]
    drop: _containers.RepeatedCompositeFieldContainer[Slot]
    draining: bool
    suspended: bool
    def __init__(self, index: _Optional[int] = ..., at_ms: _Optional[int] = ..., start: _Optional[_Iterable[_Union[Assignment, _Mapping]]] = ..., keep: _Optional[_Iterable[_Union[Slot, _Mapping]]] = ..., shed: _Optional[_Iterable[_Union[Shed, _Mapping]]] = ..., drop: _Optional[_Iterable[_Union[Slot, _Mapping]]] = ..., draining: bool = ..., suspended: bool = ...) -> None: ...

class Changes(_message.Message):
    __slots__ = ("index", "at_ms", "start", "stop", "shed", "finished", "draining", "suspended")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    SHED_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    index: int
    at_ms: int
    start: _containers.RepeatedCompositeFieldContainer[Assignment]
    stop: _containers.RepeatedCompositeFieldContainer[Stop]
    shed: _containers.RepeatedCompositeFieldContainer[Shed]
    finished: _containers.RepeatedCompositeFieldContainer[Slot]
    draining: bool
    suspended: bool
    def __init__(self, index: _Optional[int] = ..., at_ms: _Optional[int] = ..., start: _Optional[_Iterable[_Union[Assignment, _Mapping]]] = ..., stop: _Optional[_Iterable[_Union[Stop, _Mapping]]] = ..., shed: _Optional[_Iterable[_Union[Shed, _Mapping]]] = ..., finished: _Optional[_Iterable[_Union[Slot, _Mapping]]] = ..., draining: bool = ..., suspended: bool = ...) -> None: ...

class Assignment(_message.Message):
    __slots__ = ("batch", "attempt", "fence", "model", "version", "signature", "numbers", "rows", "payloads", "parameters", "traceparents", "deadlines_ms")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENTS_FIELD_NUMBER: _ClassVar[int]
    DEADLINES_MS_FIELD_NUMBER: _ClassVar[int]
    batch: int
    attempt: int
    fence: int
    model: str
    version: str
    signature: str
    numbers: _containers.RepeatedScalarFieldContainer[int]
    rows: _containers.RepeatedScalarFieldContainer[int]
    payloads: _containers.RepeatedScalarFieldContainer[bytes]
    parameters: _containers.RepeatedScalarFieldContainer[bytes]
    traceparents: _containers.RepeatedScalarFieldContainer[str]
    deadlines_ms: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, batch: _Optional[int] = ..., attempt: _Optional[int] = ..., fence: _Optional[int] = ..., model: _Optional[str] = ..., version: _Optional[str] = ..., signature: _Optional[str] = ..., numbers: _Optional[_Iterable[int]] = ..., rows: _Optional[_Iterable[int]] = ..., payloads: _Optional[_Iterable[bytes]] = ..., parameters: _Optional[_Iterable[bytes]] = ..., traceparents: _Optional[_Iterable[str]] = ..., deadlines_ms: _Optional[_Iterable[int]] = ...) -> None: ...

class Stop(_message.Message):
    __slots__ = ("batch", "fence", "reason")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    batch: int
    fence: int
    reason: LapseReason
    def __init__(self, batch: _Optional[int] = ..., fence: _Optional[int] = ..., reason: _Optional[_Union[LapseReason, str]] = ...) -> None: ...

class Shed(_message.Message):
    __slots__ = ("batch", "fence", "numbers")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    batch: int
    fence: int
    numbers: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, batch: _Optional[int] = ..., fence: _Optional[int] = ..., numbers: _Optional[_Iterable[int]] = ...) -> None: ...

class ReportRequest(_message.Message):
    __slots__ = ("reports",)
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    reports: _containers.RepeatedCompositeFieldContainer[Report]
    def __init__(self, reports: _Optional[_Iterable[_Union[Report, _Mapping]]] = ...) -> None: ...

class ReportReply(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[ReportResult]
    def __init__(self, results: _Optional[_Iterable[_Union[ReportResult, _Mapping]]] = ...) -> None: ...

class ReportResult(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("complete", "lapse", "free", "probe")
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    LAPSE_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    PROBE_FIELD_NUMBER: _ClassVar[int]
    complete: Complete
    lapse: Lapse
    free: Free
    probe: Probe
    def __init__(self, complete: _Optional[_Union[Complete, _Mapping]] = ..., lapse: _Optional[_Union[Lapse, _Mapping]] = ..., free: _Optional[_Union[Free, _Mapping]] = ..., probe: _Optional[_Union[Probe, _Mapping]] = ...) -> None: ...

class Complete(_message.Message):
    __slots__ = ("batch", "attempt", "fence", "executor", "incarnation", "last", "queue_ns", "compute_input_ns", "infer_ns", "output_ns", "padded", "fingerprint", "numbers", "results", "failures")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    QUEUE_NS_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_INPUT_NS_FIELD_NUMBER: _ClassVar[int]
    INFER_NS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_NS_FIELD_NUMBER: _ClassVar[int]
    PADDED_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
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
    padded: _containers.RepeatedScalarFieldContainer[int]
    fingerprint: bytes
    numbers: _containers.RepeatedScalarFieldContainer[int]
    results: _containers.RepeatedScalarFieldContainer[bytes]
    failures: _containers.RepeatedCompositeFieldContainer[Failure]
    def __init__(self, batch: _Optional[int] = ..., attempt: _Optional[int] = ..., fence: _Optional[int] = ..., executor: _Optional[str] = ..., incarnation: _Optional[int] = ..., last: bool = ..., queue_ns: _Optional[int] = ..., compute_input_ns: _Optional[int] = ..., infer_ns: _Optional[int] = ..., output_ns: _Optional[int] = ..., padded: _Optional[_Iterable[int]] = ..., fingerprint: _Optional[bytes] = ..., numbers: _Optional[_Iterable[int]] = ..., results: _Optional[_Iterable[bytes]] = ..., failures: _Optional[_Iterable[_Union[Failure, _Mapping]]] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("number", "code", "message")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    number: int
    code: str
    message: str
    def __init__(self, number: _Optional[int] = ..., code: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class Lapse(_message.Message):
    __slots__ = ("batch", "attempt", "fence", "reason", "ran", "stopped", "code", "message")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RAN_FIELD_NUMBER: _ClassVar[int]
    STOPPED_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    batch: int
    attempt: int
    fence: int
    reason: LapseReason
    ran: Ran
    stopped: bool
    code: str
    message: str
    def __init__(self, batch: _Optional[int] = ..., attempt: _Optional[int] = ..., fence: _Optional[int] = ..., reason: _Optional[_Union[LapseReason, str]] = ..., ran: _Optional[_Union[Ran, str]] = ..., stopped: bool = ..., code: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class Free(_message.Message):
    __slots__ = ("executor", "incarnation", "slots")
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    executor: str
    incarnation: int
    slots: _containers.RepeatedCompositeFieldContainer[Slot]
    def __init__(self, executor: _Optional[str] = ..., incarnation: _Optional[int] = ..., slots: _Optional[_Iterable[_Union[Slot, _Mapping]]] = ...) -> None: ...

class Probe(_message.Message):
    __slots__ = ("executor", "incarnation", "succeeded")
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    executor: str
    incarnation: int
    succeeded: bool
    def __init__(self, executor: _Optional[str] = ..., incarnation: _Optional[int] = ..., succeeded: bool = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("executor", "incarnation", "tailed_index", "holdings", "load")
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    TAILED_INDEX_FIELD_NUMBER: _ClassVar[int]
    HOLDINGS_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    executor: str
    incarnation: int
    tailed_index: int
    holdings: _containers.RepeatedCompositeFieldContainer[Holding]
    load: _load_pb2.ExecutorLoad
    def __init__(self, executor: _Optional[str] = ..., incarnation: _Optional[int] = ..., tailed_index: _Optional[int] = ..., holdings: _Optional[_Iterable[_Union[Holding, _Mapping]]] = ..., load: _Optional[_Union[_load_pb2.ExecutorLoad, _Mapping]] = ...) -> None: ...

class Holding(_message.Message):
    __slots__ = ("batch", "fence", "running")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    batch: int
    fence: int
    running: bool
    def __init__(self, batch: _Optional[int] = ..., fence: _Optional[int] = ..., running: bool = ...) -> None: ...

class HeartbeatReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("executor", "incarnation", "on")
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ON_FIELD_NUMBER: _ClassVar[int]
    executor: str
    incarnation: int
    on: bool
    def __init__(self, executor: _Optional[str] = ..., incarnation: _Optional[int] = ..., on: bool = ...) -> None: ...

class DrainReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LeaveRequest(_message.Message):
    __slots__ = ("executor", "incarnation", "running")
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    executor: str
    incarnation: int
    running: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, executor: _Optional[str] = ..., incarnation: _Optional[int] = ..., running: _Optional[_Iterable[int]] = ...) -> None: ...

class LeaveReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
