"""What a process says of what fails beside it: all, but for the end of a connection."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.tidy.tree import ROOT

_MAIN = """
import asyncio
from raftbatch.realworld.process import RealProcess

async def main():
    error = RuntimeError({text!r})
    context = {{"message": "Fatal error on SSL protocol", "exception": error}}
    asyncio.get_running_loop().call_exception_handler(context)

RealProcess().run(main())
"""
_ENDED = "unable to perform operation on <TCPTransport closed=True reading=False>; {why}"


@pytest.mark.parametrize(
    ("why", "is_told"), [("the handler is closed", False), ("another reason", True)]
)
def test_end_of_a_connection_is_no_complaint(why: str, is_told: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _MAIN.format(text=_ENDED.format(why=why))],
        cwd=ROOT,
        timeout=60,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (why in done.stderr) == is_told, done.stderr
