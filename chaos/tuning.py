"""Constants of the product, set otherwise for the time of one run: its logs are short.

What lives here: setting them, and setting them back, whatever a run ends with: tests of
the product run in the same process. What must never live here: a value. Called by: the
suites.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def tuned(*settings: tuple[ModuleType, str, object]) -> Iterator[None]:
    """Set constants, each by module, name and value; they are as before in the end.

    Raises:
        AttributeError: a module has no such constant.
    """
    before = [(module, name, getattr(module, name)) for module, name, _ in settings]
    try:
        for module, name, value in settings:
            setattr(module, name, value)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
