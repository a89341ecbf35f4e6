"""What an executor says of its load, with each heartbeat.

What lives here: that message. What must never live here: a decision. Called by: the agent.
Total. Deterministic.
"""

from __future__ import annotations

from collections.abc import Mapping

from executor.core.holdings import BUSY
from executor.core.instances import At
from executor.core.machine import Machine
from executor.core.values import DeviceMemory, ModelId, Stage
from executor.usage import Usage
from raftbatch.settings import LOAD_ITEMS_MAX
from raftbatch.v1 import load_pb2 as pb

_AT_WORK = (At.RUNNING, At.WARMING, At.KILLED)


def load_of(machine: Machine, usage: Usage, devices: Mapping[int, DeviceMemory]) -> pb.ExecutorLoad:
    """Return an executor's load.

    Args:
        machine: what it holds and does.
        usage: what it takes of the machine.
        devices: memory of each instance's device, as of its last batch.
    """
    stages = [each.stage for each in machine.holdings.held.values()]
    models: dict[ModelId, pb.ModelLoad] = {}
    for each in machine.instances:
        name, version = each.model
        found = models.setdefault(each.model, pb.ModelLoad(name=name, version=version))
        found.instances += 1
        found.busy += each.at in _AT_WORK
    by_device = {each.device: each for _, each in sorted(devices.items())}
    return pb.ExecutorLoad(
        running=sum([stage in BUSY for stage in stages]),
        waiting=stages.count(Stage.WAITING),
        cpu_permille=usage.cpu_permille,
        memory_bytes=usage.memory_bytes,
        memory_limit_bytes=usage.memory_limit_bytes,
        models=list(models.values())[:LOAD_ITEMS_MAX],
        devices=[
            pb.DeviceLoad(
                device=each.device,
                memory_bytes=each.memory_bytes,
                memory_limit_bytes=each.memory_limit_bytes,
            )
            for each in list(by_device.values())[:LOAD_ITEMS_MAX]
        ],
    )
