"""Loads of executors on the wire.

What lives here: that translation, and what a load may be. What must never live here:
what is done with it. Called by: the services. Total. Deterministic.
"""

from __future__ import annotations

from coordinator.loads import DeviceLoad, Load, ModelLoad
from raftbatch.settings import LOAD_ITEMS_MAX
from raftbatch.v1 import load_pb2 as pb

_COUNT_MAX = 1 << 16
_BYTES_MAX = 1 << 50
_NAME_LENGTH_MAX = 256
_PERMILLE_MAX = 1000


def load_of(message: pb.ExecutorLoad) -> Load | None:
    """Return what an executor says of itself; None where it makes no sense."""
    numbers = [message.memory_bytes, message.memory_limit_bytes]
    counts = [message.running, message.waiting]
    names = []
    for model in message.models:
        counts += [model.instances, model.busy]
        names += [model.name, model.version]
    for device in message.devices:
        numbers += [device.memory_bytes, device.memory_limit_bytes]
        names.append(device.device)
    if (
        max(len(message.models), len(message.devices)) > LOAD_ITEMS_MAX
        or max(numbers) > _BYTES_MAX
        or max(counts) > _COUNT_MAX
        or message.cpu_permille > _PERMILLE_MAX
        or any(not each or len(each) > _NAME_LENGTH_MAX or "\0" in each for each in names)
        or any(model.busy > model.instances for model in message.models)
    ):
        return None
    return Load(
        message.running,
        message.waiting,
        message.cpu_permille,
        message.memory_bytes,
        message.memory_limit_bytes,
        tuple(
            [
                ModelLoad((each.name, each.version), each.instances, each.busy)
                for each in message.models
            ]
        ),
        tuple(
            [
                DeviceLoad(each.device, each.memory_bytes, each.memory_limit_bytes)
                for each in message.devices
            ]
        ),
    )


def load_message(load: Load) -> pb.ExecutorLoad:
    """Return a load in the form in which it travels."""
    return pb.ExecutorLoad(
        running=load.running,
        waiting=load.waiting,
        cpu_permille=load.cpu_permille,
        memory_bytes=load.memory_bytes,
        memory_limit_bytes=load.memory_limit_bytes,
        models=[
            pb.ModelLoad(
                name=each.model[0],
                version=each.model[1],
                instances=each.instances,
                busy=each.busy,
            )
            for each in load.models
        ],
        devices=[
            pb.DeviceLoad(
                device=each.device,
                memory_bytes=each.memory_bytes,
                memory_limit_bytes=each.memory_limit_bytes,
            )
            for each in load.devices
        ],
    )
