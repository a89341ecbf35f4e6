"""What an executor is told: by the cluster's file, and where it is started.

    [models.echo]                        as coordinators read it; docs/LIMITS.md
    max_batch_size = 32
    [models.echo.executor]
    file = "models/echo.py"              relative to the file; or module = "a.b"
    class = "Echo"
    instances = 1                        child processes
    prefetch = 1                         batches that wait here beside those that run
    device = "cpu"                       "cuda", "cuda:1"; else cuda, if it is there
    threads = 2                          of each instance; else its part of the CPUs
    memory_bytes_max = 8_589_934_592     of each instance; else what there is
    padded_bytes_max = 268_435_456       inputs of what runs together, padded; more is split
    options = { mark = "!" }             the model's own

What lives here: reading that. What must never live here: a default that the machine
decides. Called by: `raftbatch executor`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from executor.core.values import ModelId
from executor.frames import PADDED_BYTES_MAX, Load
from executor.model import tensors_of
from raftbatch.config import Certificates, ClusterFile
from raftbatch.errors import InvalidRequest
from raftbatch.settings import Model
from raftbatch.tables import Table

INSTANCES_MAX = 64
SLOTS_MAX = 1024
"""As coordinators have it: what one executor may hold."""

_KEYS = (
    "file",
    "module",
    "class",
    "instances",
    "prefetch",
    "device",
    "threads",
    "memory_bytes_max",
    "padded_bytes_max",
    "options",
)
_MEMORY_BYTES_MAX = 1 << 50
_REPORT_BYTES_MAX = 24 << 20  # `record_bytes_max` of a leader, unless the file says otherwise
_REPORT_BYTES = 1 << 16  # of a report that holds one result: all but the result
_TIMEOUT_US = Model("", "").execution_timeout_microseconds


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """One model that the executor runs.

    Attributes:
        load: what each instance loads, but for its number.
        instances: child processes.
        prefetch: batches that wait here beside those that run.
        timeout_s: how long a batch may run; 0: for ever.
    """

    load: Load
    instances: int
    prefetch: int
    timeout_s: float

    @property
    def id(self) -> ModelId:
        """Name and version."""
        return self.load.name, self.load.version


@dataclass(frozen=True, slots=True)
class ExecutorConfig:
    """What an executor is told.

    Attributes:
        executor: its id.
        models: that it runs.
        addresses: client addresses of the nodes, by node.
        certificates: to show them; None without TLS.
        drain_s: how long what runs may take once it is told to stop.
        join_s: how long it tries to join at first.
        load_s: how long a model may take to load.
        cpus: that it may use.
        cluster: the cluster's name; a node of another one does not let it join.
    """

    executor: str
    models: tuple[ModelConfig, ...]
    addresses: Mapping[str, str]
    certificates: Certificates | None = None
    drain_s: float = 30.0
    join_s: float = 30.0
    load_s: float = 600.0
    cpus: int = 1
    cluster: str = ""

    @property
    def slots(self) -> int:
        """Batches that it can hold."""
        return sum([each.instances + each.prefetch for each in self.models])

    @property
    def loads(self) -> list[Load]:
        """What each child process loads."""
        return [
            replace(each.load, instance=number)
            for each in self.models
            for number in range(each.instances)
        ]


def executor_config(
    file: ClusterFile, executor: str, cpus: int, models: Sequence[str] = ()
) -> ExecutorConfig:
    """Return what a file tells an executor.

    Args:
        file: the cluster's.
        executor: its id.
        cpus: that it may use.
        models: names of those that it is to run; none: all that the file gives executors.

    Raises:
        InvalidRequest: something is wrong or missing; the message names file and key.
    """
    table = file.rest["models"]
    for name in models:
        if name not in table.values:
            there = ", ".join(sorted(table.values)) or "none"
            raise InvalidRequest(f"{file.path}: there is no model {name!r}, only {there}")
    found = []
    for name in sorted(table.values):
        of_model = table.table(name)
        own = of_model.table("executor")
        if models and name not in models:
            continue
        if own.values:
            found.append(_model(name, of_model, own))
        elif models:
            raise of_model.wrong("executor", "is missing: it names the file and the class")
    if not found:
        raise table.wrong(
            "", "no model has a table [models.NAME.executor], which names its file and class"
        )
    instances = sum([each.instances for each in found])
    threads = max(1, cpus // instances)
    most = _result_bytes_max(file)
    ready = tuple(
        [
            replace(
                each,
                load=replace(
                    each.load, threads=each.load.threads or threads, result_bytes_max=most
                ),
            )
            for each in found
        ]
    )
    config = ExecutorConfig(
        executor,
        ready,
        {str(node): each.client for node, each in file.nodes.items()},
        file.executor(executor),
        cpus=cpus,
        cluster=file.name,
    )
    if config.slots > SLOTS_MAX:
        raise table.wrong("", f"instances and prefetch ask for {config.slots} slots: {SLOTS_MAX}")
    return config


def _model(name: str, of_model: Table, own: Table) -> ModelConfig:
    own.check_known(_KEYS)
    if ("file" in own.values) == ("module" in own.values):
        raise own.wrong("", "file or module is named, and not both")
    instances = _between(own, "instances", 1, 1, INSTANCES_MAX)
    prefetch = _between(own, "prefetch", 1, 0, SLOTS_MAX)
    declared = [_declared(of_model, key) for key in ("inputs", "outputs")]
    load = Load(
        name,
        of_model.text("version", "1"),
        own.file("file") if "file" in own.values else "",
        own.text("module") if "module" in own.values else "",
        own.text("class"),
        declared[0],
        declared[1],
        of_model.whole("max_batch_size", 1) > 0,
        0,
        _between(own, "threads", 0, 0, 1024),
        own.text("device") if "device" in own.values else "",
        own.table("options").values,
        memory_bytes_max=_between(own, "memory_bytes_max", 0, 0, _MEMORY_BYTES_MAX),
        padded_bytes_max=_between(own, "padded_bytes_max", PADDED_BYTES_MAX, 1, _MEMORY_BYTES_MAX),
    )
    timeout_us = of_model.whole("execution_timeout_microseconds", _TIMEOUT_US)
    return ModelConfig(load, instances, prefetch, timeout_us / 1e6)


def _result_bytes_max(file: ClusterFile) -> int:
    """Return what one result may hold: a report of it alone is one record of the log."""
    most = _REPORT_BYTES_MAX
    if "leader" in file.rest:
        most = file.rest["leader"].whole("record_bytes_max", most)
    if "storage" in file.rest:
        entry = file.rest["storage"].whole("entry_bytes_max", 0)
        most = min(most, entry * 3 // 4) if entry else most
    return max(1, most - _REPORT_BYTES)


def _between(table: Table, key: str, default: int, least: int, most: int) -> int:
    value = table.whole(key, default)
    if not least <= value <= most:
        raise table.wrong(key, f"is {value}, which is not in {least} .. {most}")
    return value


def _declared(table: Table, key: str) -> tuple[Mapping[str, Any], ...]:
    """Return inputs or outputs, once they make sense."""
    values = table.values.get(key, [])
    if not isinstance(values, list) or any(not isinstance(each, dict) for each in values):
        raise table.wrong(key, f"is {values!r}, which is no list of tables")
    given = cast("list[dict[str, Any]]", values)
    try:
        tensors_of(given)
    except InvalidRequest as error:
        raise table.wrong(key, error.message) from None
    return tuple(given)
