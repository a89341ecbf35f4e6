"""How a model is run: on numpy arrays, or on torch tensors under `inference_mode`.

torch is imported when a model asks for it, and in its own process alone. What is done
for a GPU (pinned buffers, copies on a stream of their own) has been run on none, and is
not tested.

What lives here: devices, and arrays to tensors and back. What must never live here:
requests. Called by: `executor.runtime`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from executor.collate import BF16
from executor.core.values import DeviceMemory
from executor.frames import Load
from executor.loading import CannotLoad, said
from executor.model import NUMPY, TORCH, Tensor


class Backend(Protocol):
    """Runs a model's functions.

    Attributes:
        device: where.
        detail: of device and libraries, for people.
    """

    device: str
    detail: str

    def inputs(self, declared: tuple[Tensor, ...], inputs: dict[str, Any], /) -> dict[str, Any]:
        """Return inputs as the model takes them."""
        ...

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of the model."""
        ...

    def outputs(self, outputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the model gave as arrays, or lists."""
        ...

    def recover(self) -> None:
        """Give memory back after it ran out."""
        ...

    def memory(self) -> DeviceMemory | None:
        """Return how much memory of the device is in use; None: it is the CPU."""
        ...


def backend_of(load: Load, name: str) -> Backend:
    """Return the backend that a model names.

    Raises:
        CannotLoad: there is no such one, or what it needs is not there.
    """
    if type(name) is not str:
        raise CannotLoad(f"{load.name}: its backend is a {type(name).__name__}, and no text")
    if name == NUMPY:
        return _Numpy()
    if name != TORCH:
        raise CannotLoad(f"{load.name}: backend {name!r} is unknown: it is {NUMPY} or {TORCH}")
    try:
        return _Torch(load)
    except ModuleNotFoundError as error:
        raise CannotLoad(
            f"{load.name} needs {error.name}, which is not installed: "
            "pip install 'raftbatch[executor]'"
        ) from None
    except (ImportError, OSError) as error:  # it is there, and lacks something itself
        raise CannotLoad(f"{load.name} needs torch, which does not import: {said(error)}") from None


class _Numpy:
    def __init__(self) -> None:
        import numpy as np

        self.device = "cpu"
        self.detail = f"numpy {np.__version__}"

    def inputs(self, _declared: tuple[Tensor, ...], inputs: dict[str, Any]) -> dict[str, Any]:
        return inputs

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    def outputs(self, outputs: Mapping[str, Any]) -> dict[str, Any]:
        return dict(outputs)

    def recover(self) -> None:
        """Nothing is kept."""

    def memory(self) -> None:
        """Return that it is the CPU."""


class _Torch:
    def __init__(self, load: Load) -> None:
        import torch

        self._torch: Any = torch
        torch.set_num_threads(load.threads)
        wanted = load.device
        has_cuda = torch.cuda.is_available()
        if wanted.startswith("cuda") and not has_cuda:
            raise CannotLoad(f"{load.name}: device is {wanted!r}, and torch sees no GPU here")
        if wanted in ("", "cuda"):
            count = torch.cuda.device_count() if has_cuda else 0
            wanted = f"cuda:{load.instance % count}" if count else "cpu"
        self.device = wanted
        self.detail = f"torch {torch.__version__}, {load.threads} threads"
        self._is_cuda = wanted.startswith("cuda")
        self._copies: Any = None
        if self._is_cuda:
            torch.cuda.set_device(wanted)
            self.detail += f", {torch.cuda.get_device_name(wanted)}"
            self._copies = torch.cuda.Stream(wanted)

    def inputs(self, declared: tuple[Tensor, ...], inputs: dict[str, Any]) -> dict[str, Any]:
        datatypes = {each.name: each.datatype for each in declared}
        found = {}
        for name, value in inputs.items():
            if isinstance(value, list):
                found[name] = value
                continue
            own = value if value.flags.writeable else value.copy()  # torch wants to be able to
            tensor = self._torch.from_numpy(own)
            if datatypes[name] == BF16:
                tensor = tensor.view(self._torch.bfloat16)
            found[name] = self._moved(tensor)
        if self._is_cuda:
            self._torch.cuda.current_stream().wait_stream(self._copies)
        return found

    def _moved(self, tensor: Any) -> Any:
        if not self._is_cuda:
            return tensor
        with self._torch.cuda.stream(self._copies):
            moved = tensor.pin_memory().to(self.device, non_blocking=True)
        # Else its memory could be given to the next copy while a kernel still reads it.
        moved.record_stream(self._torch.cuda.current_stream())
        return moved

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        with self._torch.inference_mode():
            return function(*arguments)

    def outputs(self, outputs: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._output(value) for name, value in outputs.items()}

    def _output(self, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [self._output(each) for each in value]
        if not isinstance(value, self._torch.Tensor):
            return value
        tensor = value.detach().to("cpu").contiguous()
        if tensor.dtype is self._torch.bfloat16:
            tensor = tensor.view(self._torch.int16)
        return tensor.numpy()

    def recover(self) -> None:
        """Let the caching allocator give back what no tensor holds."""
        if self._is_cuda:
            self._torch.cuda.empty_cache()

    def memory(self) -> DeviceMemory | None:
        """Ask the driver, which counts what other processes use too."""
        if not self._is_cuda:
            return None
        free, total = self._torch.cuda.mem_get_info(self.device)
        return DeviceMemory(self.device, total - free, total)
