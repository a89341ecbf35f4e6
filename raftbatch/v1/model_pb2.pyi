from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class Model(_message.Message):
    __slots__ = ("name", "version", "max_batch_size", "max_batch_bytes", "preferred_batch_size", "max_queue_delay_microseconds", "seal_when_idle", "priority_levels", "default_priority_level", "priority_aging_ms", "default_timeout_ms", "requests_waiting_max", "rows_waiting_max", "bytes_waiting_max", "execution_timeout_microseconds", "attempts_max", "assigned_max", "backoff_initial_ms", "backoff_permille", "backoff_max_ms", "content", "config", "deleting")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MAX_BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    MAX_BATCH_BYTES_FIELD_NUMBER: _ClassVar[int]
    PREFERRED_BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    MAX_QUEUE_DELAY_MICROSECONDS_FIELD_NUMBER: _ClassVar[int]
    SEAL_WHEN_IDLE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_LEVELS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_PRIORITY_LEVEL_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_AGING_MS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_WAITING_MAX_FIELD_NUMBER: _ClassVar[int]
    ROWS_WAITING_MAX_FIELD_NUMBER: _ClassVar[int]
    BYTES_WAITING_MAX_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_TIMEOUT_MICROSECONDS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_MAX_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_MAX_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_INITIAL_MS_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_PERMILLE_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_MAX_MS_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    DELETING_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    max_batch_size: int
    max_batch_bytes: int
    preferred_batch_size: _containers.RepeatedScalarFieldContainer[int]
    max_queue_delay_microseconds: int
    seal_when_idle: bool
    priority_levels: int
    default_priority_level: int
    priority_aging_ms: int
    default_timeout_ms: int
    requests_waiting_max: int
    rows_waiting_max: int
    bytes_waiting_max: int
    execution_timeout_microseconds: int
    attempts_max: int
    assigned_max: int
    backoff_initial_ms: int
    backoff_permille: int
    backoff_max_ms: int
    content: bytes
    config: bytes
    deleting: bool
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., max_batch_size: _Optional[int] = ..., max_batch_bytes: _Optional[int] = ..., preferred_batch_size: _Optional[_Iterable[int]] = ..., max_queue_delay_microseconds: _Optional[int] = ..., seal_when_idle: bool = ..., priority_levels: _Optional[int] = ..., default_priority_level: _Optional[int] = ..., priority_aging_ms: _Optional[int] = ..., default_timeout_ms: _Optional[int] = ..., requests_waiting_max: _Optional[int] = ..., rows_waiting_max: _Optional[int] = ..., bytes_waiting_max: _Optional[int] = ..., execution_timeout_microseconds: _Optional[int] = ..., attempts_max: _Optional[int] = ..., assigned_max: _Optional[int] = ..., backoff_initial_ms: _Optional[int] = ..., backoff_permille: _Optional[int] = ..., backoff_max_ms: _Optional[int] = ..., content: _Optional[bytes] = ..., config: _Optional[bytes] = ..., deleting: bool = ...) -> None: ...
