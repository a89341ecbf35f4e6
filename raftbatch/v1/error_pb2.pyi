from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class Error(_message.Message):
    __slots__ = ("slug", "message", "definite", "leader", "retry_after_ms")
    SLUG_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DEFINITE_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    slug: str
    message: str
    definite: bool
    leader: str
    retry_after_ms: int
    def __init__(self, slug: _Optional[str] = ..., message: _Optional[str] = ..., definite: bool = ..., leader: _Optional[str] = ..., retry_after_ms: _Optional[int] = ...) -> None: ...
