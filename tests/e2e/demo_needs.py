"""What tests of the demo need beside the development environment: torch, and a model's weights."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from executor.examples.embedder import INSTALL, PACKAGE

needs_demo = pytest.mark.skipif(
    find_spec("torch") is None or find_spec(PACKAGE) is None,
    reason=f"torch or the demo's weights are not installed: make demo, or {INSTALL}",
)
