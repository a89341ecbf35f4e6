"""What an error of a model means: what it is called, and whether its process can go on.

Memory that ran out is told from a mistake, as the batch may well run in halves. Of the
device's the process gets over; of the machine's it may hold what it should not, and after
an error of CUDA itself nothing runs on that device any more: then it is replaced.

What lives here: that. What must never live here: what is done about it. Called by:
`executor.runtime`. Total.
"""

from __future__ import annotations

import traceback

from executor.core.values import Failure
from executor.loading import plain, said

MODEL_FAILED = "model_failed"
OUT_OF_MEMORY = "out_of_memory"

_DEVICE_MEMORY = ("OutOfMemoryError",)  # torch's; by name, since torch may not be here
_OF_DEVICE = "CUDA error: out of memory"
_OF_MACHINE = "DefaultCPUAllocator: "
_DEVICE_GONE = "CUDA error: "


def failure_of(error: BaseException) -> Failure:
    """Return what an error of a model means."""
    names = [each.__name__ for each in type(error).__mro__]
    text = plain(error) if isinstance(error, RuntimeError) else ""
    if any(name in _DEVICE_MEMORY for name in names) or _OF_DEVICE in text:
        return Failure(OUT_OF_MEMORY, said(error))
    if isinstance(error, MemoryError) or _OF_MACHINE in text:
        return Failure(OUT_OF_MEMORY, said(error), is_lasting=True)
    return Failure(MODEL_FAILED, said(error), is_lasting=_DEVICE_GONE in text)


def let_go(error: BaseException) -> None:
    """Drop what the code held that raised it: of memory that ran out, most is there."""
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        traceback.clear_frames(each.__traceback__)
        each = each.__cause__ or each.__context__
