"""A caller that goes away in the midst of an answer is no fault of the node's."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

import grpc
import grpc.aio
import pytest

from coordinator.node import Node
from coordinator.rpc.gone import Gone


class FakeNode:
    """Knows no addresses."""

    def client_address(self, _node: str) -> str:
        """Return none."""
        return ""


class FakeContext:
    """A call whose writes fail, as gRPC has them fail.

    Args:
        error: of each write.
        lives: whether an end can be put to the call.
    """

    def __init__(self, error: BaseException, *, lives: bool) -> None:
        self._error = error
        self._lives = lives
        self.aborted: list[grpc.StatusCode] = []

    async def write(self, _message: object) -> None:
        """Fail."""
        raise self._error

    async def abort(self, code: grpc.StatusCode, *_: object) -> None:
        """End, as gRPC does, or fail to."""
        self.aborted.append(code)
        if not self._lives:
            raise grpc.aio.InternalError("Failed SendStatusFromServerOperation")
        raise grpc.aio.AbortError("Locally aborted.")


KINDS = {
    "Request": grpc.unary_unary_rpc_method_handler,
    "Entries": grpc.unary_stream_rpc_method_handler,
    "Take": grpc.stream_unary_rpc_method_handler,
    "Session": grpc.stream_stream_rpc_method_handler,
}


def call(kind: str, context: FakeContext) -> BaseException:
    """Return how a call ends whose handler writes."""

    async def serve(_request: object, inner: Any) -> None:
        await inner.write(b"")

    async def found(_details: object) -> Any:
        return KINDS[kind](cast("Any", serve))

    async def main() -> BaseException:
        gone = Gone(cast("Node", FakeNode()))
        handler: Any = await gone.intercept_service(found, cast("Any", None))
        served = (
            handler.unary_unary
            or handler.unary_stream
            or handler.stream_unary
            or handler.stream_stream
        )
        try:
            await served(None, context)
        except BaseException as error:  # noqa: BLE001 - a cancelled call is one
            return error
        raise AssertionError("it ended well")

    return asyncio.run(main())


@pytest.mark.parametrize("kind", KINDS)
def test_write_that_fails_for_want_of_a_reader_ends_as_a_cancelled_call(kind: str) -> None:
    context = FakeContext(grpc.aio.InternalError("Failed SendMessageOperation"), lives=False)
    assert isinstance(call(kind, context), asyncio.CancelledError)


def test_write_on_a_port_that_has_stopped_ends_as_a_cancelled_call() -> None:
    context = FakeContext(grpc.aio.BaseError("Server already stopped."), lives=True)
    assert isinstance(call("Session", context), asyncio.CancelledError)
    assert context.aborted == [], "nothing is asked of a port that is no more"


def test_write_that_fails_while_the_caller_listens_is_told_to_it_and_stays_a_fault() -> None:
    error = grpc.aio.InternalError("Failed grpc_call_start_batch: too many operations")
    context = FakeContext(error, lives=True)
    assert call("Session", context) is error
    assert context.aborted == [grpc.StatusCode.UNKNOWN]


@pytest.mark.parametrize("kind", [grpc.aio.AbortError, grpc.aio.UsageError, ValueError])
def test_other_errors_are_what_they_were(kind: type[Exception]) -> None:
    error = kind("why")
    context = FakeContext(error, lives=True)
    assert call("Entries", context) is error
    assert context.aborted == []


def test_call_that_nobody_serves_stays_one() -> None:
    async def nobody(_details: object) -> None:
        return None

    gone = Gone(cast("Node", FakeNode()))
    assert asyncio.run(gone.intercept_service(nobody, cast("Any", None))) is None


def test_call_that_is_cancelled_at_the_wrong_moment_is_no_error_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    Gone(cast("Node", FakeNode()))
    log = logging.getLogger("grpc._cython.cygrpc")
    log.error("one", exc_info=asyncio.CancelledError())
    log.error("two", exc_info=ValueError())
    log.error("three")
    assert [record.message for record in caplog.records] == ["two", "three"]
