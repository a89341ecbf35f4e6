"""What executors have to do, as their heartbeats say: volatile, of the leader alone, for people.

What lives here: those values, and the newest of each executor. What must never live
here: a decision, or how they travel (`rpc`). Called by: `api`, `overview`. One thread:
the loop's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from coordinator.core.values import Executor


@dataclass(frozen=True, slots=True)
class ModelLoad:
    """Instances of a model version, and how many of them run something."""

    model: tuple[str, str]
    instances: int
    busy: int


@dataclass(frozen=True, slots=True)
class DeviceLoad:
    """Memory of a device, in use and in all, in bytes."""

    device: str
    memory_bytes: int
    memory_limit_bytes: int


@dataclass(frozen=True, slots=True)
class Load:
    """What an executor has to do at one moment; 0 for what it cannot tell.

    Attributes:
        running: batches that run.
        waiting: batches that wait in its slots.
        cpu_permille: of the CPUs that it may use, in thousandths.
        memory_bytes: resident, its models' processes included.
        memory_limit_bytes: what it may have.
        models: that it runs.
        devices: but the CPU.
    """

    running: int
    waiting: int
    cpu_permille: int
    memory_bytes: int
    memory_limit_bytes: int
    models: tuple[ModelLoad, ...] = ()
    devices: tuple[DeviceLoad, ...] = ()


class Loads:
    """The newest load of each executor, for as long as it counts.

    Attributes:
        fresh_s: a load that is older, in seconds, says nothing any more.
    """

    def __init__(self) -> None:
        self.fresh_s = 10.0
        self._loads: dict[str, tuple[int, float, Load]] = {}  # who was heard of last stands last

    def take(self, executor: str, incarnation: int, load: Load) -> None:
        """Take in the load of an incarnation that is live, by the leader's word."""
        now_s = asyncio.get_running_loop().time()
        self._loads.pop(executor, None)
        self._loads[executor] = incarnation, now_s, load
        oldest = next(iter(self._loads))
        if self._loads[oldest][1] < now_s - self.fresh_s:
            del self._loads[oldest]

    def of(self, executors: Mapping[str, Executor]) -> dict[str, Load]:
        """Return what is known of those that are live, by id."""
        since_s = asyncio.get_running_loop().time() - self.fresh_s
        return {
            name: load
            for name, (incarnation, at_s, load) in self._loads.items()
            if at_s >= since_s
            and (live := executors.get(name)) is not None
            and live.incarnation == incarnation
        }
