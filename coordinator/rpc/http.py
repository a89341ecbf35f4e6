"""The HTTP port of a node: metrics, and whether it lives and is ready.

    GET /metrics                         for Prometheus, in the form that it asks for
    GET /livez                           200 while the loop turns and the log has not failed
    GET /readyz                          200 where the node serves, else 503 and why
    GET /readyz?model=NAME[/VERSION]     the same, and an executor has the model ready

Each path answers HEAD too. All but metrics answer JSON, and so does what is refused. The
loop that serves this is the node's own: that it answers says that it turns.

What lives here: paths, and the answers' form. What must never live here: HTTP itself
(aiohttp), a reason (`coordinator.readiness`), a number (`rpc.metrics`). Called by: the
composition root. One thread: the loop's; another makes the text of metrics.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from functools import partial
from http import HTTPStatus
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from coordinator.measures import Measures
from coordinator.node import Node
from coordinator.pulse import Pulse
from coordinator.raft.log import ReplicatedLog
from coordinator.readiness import why_no_model, why_not_ready
from coordinator.replica import Replica
from coordinator.rpc.guard import Bounds, Guard
from coordinator.rpc.metrics import NodeMetrics
from raftbatch.errors import CannotStart
from raftbatch.ids import is_loopback
from raftbatch.world import TLS, Listener, Worker, World

_LOG = logging.getLogger(__name__)

_LINE_BYTES_MAX = 4096
_HEADERS_MAX = 64
_METHODS = ("GET", "HEAD")


class HttpPort:
    """See the module's docstring. Made closed; `open` opens it.

    Args:
        node: whom it is about.
        world: the ports.
        tls: certificates, which those who ask must show too; None for none.
    """

    def __init__(self, node: Node, world: World, tls: TLS | None) -> None:
        self._node = node
        self._world = world
        self._tls = tls
        self._worker: Worker | None = None
        self._texts: dict[str, asyncio.Future[tuple[bytes, str]]] = {}  # under way
        self._pulse: Pulse | None = None
        self._listener: Listener | None = None
        self._guard: Guard | None = None
        self._metrics = NodeMetrics(node, lambda: self._guard.cut if self._guard else {})
        self._paths: dict[str, Callable[[web.BaseRequest], Awaitable[web.Response]]] = {
            "/livez": self._livez,
            "/metrics": self._exposed,
            "/readyz": self._readyz,
        }

    async def open(self) -> None:
        """Begin to serve.

        Raises:
            CannotStart: the port is in use or not ours, or would be open to all.
        """
        config = self._node.config
        listen = config.addresses.http_listen
        if self._tls is None and not config.cluster.is_insecure and not is_loopback(listen):
            raise CannotStart(
                f"{listen} can be reached from other machines, and without TLS whoever reaches it "
                "is answered: configure certificates, or listen on 127.0.0.1, or say with "
                "--insecure that the network is trusted"
            )
        limits = config.server
        lifetime_s = limits.http_request_ms_max / 1000
        make = partial(
            _Connection,
            web.Server(self._answer),
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # aiohttp takes it, and logs nothing
            logger=_Faults(__name__),
            keepalive_timeout=2 * lifetime_s,  # the guard is quicker
            lingering_time=0,
            max_line_size=_LINE_BYTES_MAX,
            max_field_size=_LINE_BYTES_MAX,
            max_headers=_HEADERS_MAX,
            auto_decompress=False,
            tcp_keepalive=False,
        )
        bounds = Bounds(limits.http_connections_max, lifetime_s, limits.http_request_bytes_max)
        self._guard = Guard(make, bounds)
        try:
            self._listener = await self._world.network.serve(listen, self._guard, self._tls)
        except OSError as error:
            raise CannotStart(
                f"cannot listen for HTTP at {listen}: {error.strerror or error}. Another process "
                "has the port, perhaps this node, which runs already, or the address is not this "
                "machine's: give the node another `http` or `http_listen`, or none"
            ) from None
        self._worker = self._world.workers.start("metrics")

    def opened(self, log: ReplicatedLog) -> None:
        """Take in that the node's log is open."""
        self._pulse = self._metrics.pulse = Pulse(self._world.clock, lambda: log.heard_commit)
        self._pulse.begin()
        if isinstance(self._node.replica, Replica):
            self._metrics.measures = Measures(self._node.replica, log.last_index)
            self._node.replica.listeners.append(self._metrics.measures)
        log.watch(self._metrics.look)

    async def close(self) -> None:
        """Answer nobody any more."""
        if self._pulse is not None:
            self._pulse.end()
        if self._listener is not None:
            await self._listener.close()
        if self._guard is not None:
            self._guard.close()
        for text in self._texts.values():
            text.cancel()
        if self._worker is not None:
            self._worker.close()

    # Answers.

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        answer = self._paths.get(request.path)
        if answer is None:
            paths = ", ".join(sorted(self._paths))
            response = _refused(HTTPStatus.NOT_FOUND, f"there is nothing here: ask for {paths}")
        elif request.method not in _METHODS:
            response = _refused(HTTPStatus.METHOD_NOT_ALLOWED, f"ask with {' or '.join(_METHODS)}")
            response.headers["Allow"] = ", ".join(_METHODS)
        else:
            response = await answer(request)
        return _last(response)

    async def _exposed(self, request: web.BaseRequest) -> web.Response:
        accept = request.headers.get("Accept", "")
        text = self._texts.get(accept)
        if text is None:  # else it is of this very moment, and does for all who ask so now
            make, content_type = self._metrics.exposing(accept)
            text = self._texts[accept] = asyncio.get_running_loop().create_future()
            assert self._worker is not None
            self._worker.submit(make, partial(self._made, accept, content_type))
        body, content_type = await asyncio.shield(text)
        return web.Response(body=body, headers={"Content-Type": content_type})

    def _made(self, accept: str, content_type: str, made: Future[bytes]) -> None:
        text = self._texts.pop(accept)
        error = made.exception()
        if error is None:
            text.set_result((made.result(), content_type))
        else:
            text.set_exception(error)
            text.exception()  # perhaps nobody waits any more

    async def _livez(self, _request: web.BaseRequest) -> web.Response:
        log = self._node.log
        failure = None if log is None else log.failure
        found = self._said({"live": failure is None})
        if failure is not None:
            found["reasons"] = [f"this node has failed: {failure}"]
        return _json(HTTPStatus.OK if failure is None else HTTPStatus.SERVICE_UNAVAILABLE, found)

    async def _readyz(self, request: web.BaseRequest) -> web.Response:
        asked = request.query.getall("model", [])
        if set(request.query) - {"model"} or len(asked) > 1 or "" in asked:
            said = "ask for /readyz, or for /readyz?model=NAME or /readyz?model=NAME/VERSION"
            return _refused(HTTPStatus.BAD_REQUEST, said)
        reasons = why_not_ready(self._node, self._pulse)
        said_of: dict[str, Any] = {}
        if asked:
            name, _, version = asked[0].rpartition("/") if "/" in asked[0] else (asked[0], "", "")
            said_of["model"] = asked[0]
            reasons = reasons or why_no_model(self._node, name, version)
        status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
        return _json(status, self._said({"ready": not reasons, "reasons": reasons} | said_of))

    def _said(self, found: dict[str, Any]) -> dict[str, Any]:
        """Return what every answer says of the node, behind what this one is about."""
        node, log = self._node, self._node.log
        said = {"node": node.config.node_id, "phase": node.phase.value}
        if log is None:
            return found | said
        return found | said | {"leader": log.leader, "applied": log.applied, "commit": log.commit}


class _Connection(web.RequestHandler):
    """aiohttp's, but for what it says of requests that it cannot read, and of faults."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return what is answered; what is wrong in detail is news to nobody but our log."""
        super().handle_error(request, status, exc, message)
        if status == HTTPStatus.INTERNAL_SERVER_ERROR:
            text = "this node failed to answer, and its log says why"
        else:
            text = (
                "the request cannot be read: it is no HTTP, or a line of it is too long, or there "
                "are too many of them"
            )
        return _last(_refused(HTTPStatus(status), text))


class _Faults(logging.Logger):
    """What aiohttp says: what clients sent is not worth a line, a fault of ours is."""

    def __init__(self, name: str) -> None:
        super().__init__(name, logging.WARNING)
        self.parent = _LOG

    def exception(self, msg: object, *args: object, exc_info: Any = True, **_: Any) -> None:
        if not isinstance(exc_info, HttpProcessingError):
            _LOG.error(msg, *args, exc_info=exc_info)


def _last(response: web.Response) -> web.Response:
    """Return an answer as each leaves; a connection serves one request."""
    response.headers["Cache-Control"] = "no-store"
    response.headers["Server"] = "raftbatch"
    response.force_close()
    return response


def _refused(status: HTTPStatus, message: str) -> web.Response:
    code = status.phrase.lower().replace(" ", "_")
    return _json(status, {"error": {"code": code, "message": message}})


def _json(status: HTTPStatus, found: Mapping[str, Any]) -> web.Response:
    text = json.dumps(found) + "\n"
    return web.Response(status=status, text=text, content_type="application/json")
