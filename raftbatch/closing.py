"""What is closed when its context is left.

What lives here: that, for whatever has a `close`. What must never live here: what closing means.
Called by: the SDK, readers of files, harnesses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closing(ABC):
    """See the module's docstring."""

    __slots__ = ()

    def __enter__(self) -> Self:
        """Return it, as it is."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    @abstractmethod
    def close(self) -> None:
        """End it. Harmless when repeated."""
