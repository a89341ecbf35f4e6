"""What this node's copy of the scheduler holds, for people: windows, executors, models.

What lives here: the values that a status shows, bounded in number. What must never
live here: how they travel (`rpc`), or anything that decides. Called by: `node`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from coordinator.core.state import State
from coordinator.loads import Load

SHOWN_MAX = 100
"""Of each kind: a status is to be read, and made in no time."""


@dataclass(frozen=True, slots=True)
class WindowState:
    """Requests of one batch key that wait to be sealed.

    Attributes:
        opened: log time of its opening, and the first index that admitted into it.
        model: name and version.
        requests: how many.
        rows: theirs.
    """

    opened: tuple[int, int]
    model: tuple[str, str]
    requests: int
    rows: int


@dataclass(frozen=True, slots=True)
class ExecutorState:
    """An executor that is live: see `coordinator.core.values.Executor`; `held` takes slots.

    Its load is known where this node leads, once it has been heard of.
    """

    executor: str
    incarnation: int
    slots: int
    held: int
    is_draining: bool
    is_suspended: bool
    load: Load | None = None


@dataclass(frozen=True, slots=True)
class ModelState:
    """A model version.

    Attributes:
        model: name and version.
        requests: without an outcome.
        executors: that have it ready, and take new batches.
        is_deleting: whether it is being deleted.
    """

    model: tuple[str, str]
    requests: int
    executors: int
    is_deleting: bool


@dataclass(frozen=True, slots=True)
class Overview:
    """What an `api.Standing` counts, item by item; the first hundred of each."""

    windows: tuple[WindowState, ...]
    executors: tuple[ExecutorState, ...]
    models: tuple[ModelState, ...]


def overview(state: State, loads: Mapping[str, Load] | None = None) -> Overview:
    """Return what a state holds, and the load of its executors as far as that is known, by id."""
    executors = list(state.executors.values())
    windows = []
    for key, window in islice(state.windows.items(), SHOWN_MAX):
        opened = state.window_id(key)
        assert opened is not None  # none is empty
        windows.append(WindowState(opened, key[:2], window.requests, window.rows))
    able = Counter(
        [model for each in executors if each.takes_new for model in dict.fromkeys(each.models)]
    )
    models = [
        ModelState(
            model,
            state.model_use[model].requests,
            able[model],
            model in state.deleting,
        )
        for model in sorted(state.models)[:SHOWN_MAX]
    ]
    executors.sort(key=lambda each: each.executor)
    return Overview(
        tuple(windows),
        tuple(
            ExecutorState(
                each.executor,
                each.incarnation,
                each.slots,
                len(each.held),
                each.is_draining,
                each.is_suspended,
                (loads or {}).get(each.executor),
            )
            for each in executors[:SHOWN_MAX]
        ),
        tuple(models),
    )
