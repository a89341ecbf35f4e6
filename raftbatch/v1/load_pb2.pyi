from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ExecutorLoad(_message.Message):
    __slots__ = ("running", "waiting", "cpu_permille", "memory_bytes", "memory_limit_bytes", "models", "devices")
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    CPU_PERMILLE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    running: int
    waiting: int
    cpu_permille: int
    memory_bytes: int
    memory_limit_bytes: int
    models: _containers.RepeatedCompositeFieldContainer[ModelLoad]
    devices: _containers.RepeatedCompositeFieldContainer[DeviceLoad]
    def __init__(self, running: _Optional[int] = ..., waiting: _Optional[int] = ..., cpu_permille: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., memory_limit_bytes: _Optional[int] = ..., models: _Optional[_Iterable[_Union[ModelLoad, _Mapping]]] = ..., devices: _Optional[_Iterable[_Union[DeviceLoad, _Mapping]]] = ...) -> None: ...

class ModelLoad(_message.Message):
    __slots__ = ("name", "version", "instances", "busy")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    INSTANCES_FIELD_NUMBER: _ClassVar[int]
    BUSY_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    instances: int
    busy: int
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., instances: _Optional[int] = ..., busy: _Optional[int] = ...) -> None: ...

class DeviceLoad(_message.Message):
    __slots__ = ("device", "memory_bytes", "memory_limit_bytes")
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    device: str
    memory_bytes: int
    memory_limit_bytes: int
    def __init__(self, device: _Optional[str] = ..., memory_bytes: _Optional[int] = ..., memory_limit_bytes: _Optional[int] = ...) -> None: ...
