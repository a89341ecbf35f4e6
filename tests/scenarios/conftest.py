"""`--rewrite`: let the scripts' traces be as they are now."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write the traces of tests/scenarios/*.txt anew; look at the difference",
    )
