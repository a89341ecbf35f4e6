"""The HTTP port, over real sockets: what it answers, and what those come to who do not ask."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from coordinator.config import ServerLimits
from coordinator.rpc.http import HttpPort
from raftbatch.errors import CannotStart
from raftbatch.realworld import RealTLS, RealWorld, load_tls
from tests.e2e.cluster import free_ports
from tests.e2e.processes import LIMIT_S
from tests.network.certificates import Authority
from tests.unit.http_scene import HttpScene

LONG_S = 600.0
"""Far beyond the test's own limit: what ends a connection then is not its lifetime."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def said(self) -> Any:
        """The body, which is JSON."""
        assert self.headers["content-type"] == "application/json; charset=utf-8"
        return json.loads(self.body)


class Asked:
    """An open port.

    Attributes:
        scene: its node.
        port: it.
    """

    def __init__(self, scene: HttpScene, port: HttpPort) -> None:
        self.scene = scene
        self.port = port
        host, _, number = scene.node.config.addresses.http.rpartition(":")
        self._at = host, int(number)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect, and say nothing."""
        return await asyncio.open_connection(*self._at)

    async def raw(self, data: bytes) -> bytes:
        """Send bytes, and return all that comes until the other end closes."""
        reader, writer = await self.connect()
        try:
            writer.write(data)
            return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.close()

    async def ask(self, target: str, method: str = "GET", more: str = "") -> Answer:
        """Return the answer to a request."""
        data = await self.raw(f"{method} {target} HTTP/1.1\r\nHost: x\r\n{more}\r\n".encode())
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        pairs = (line.split(": ", 1) for line in lines)
        headers = {name.lower(): value for name, value in pairs}
        assert headers["connection"] == "close"
        return Answer(int(first.split()[1]), headers, body)

    @property
    def cut(self) -> dict[str, int]:
        """How many were cut, by why."""
        guard = self.port._guard
        assert guard is not None
        return guard.cut


Test = Callable[[Asked], Coroutine[Any, Any, None]]


def run(
    folder: Path,
    test: Test,
    tls: RealTLS | None = None,
    loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop,
    **limits: int,
) -> None:
    """Run a test against an open port, on the loop that nodes run on."""

    async def main() -> None:
        peer, client, http = free_ports(3)
        scene = HttpScene(folder, (peer, client, http))
        limits.setdefault("http_request_ms_max", int(LONG_S * 1000))
        server = ServerLimits(**limits)
        scene.node.config = dataclasses.replace(scene.node.config, server=server)
        port = HttpPort(scene.node, RealWorld(), tls)
        await port.open()
        try:
            async with asyncio.timeout(LIMIT_S):
                await test(Asked(scene, port))
        finally:
            await port.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


def test_live_and_ready_say_how_the_node_stands(tmp_path: Path) -> None:
    async def test(asked: Asked) -> None:
        live = await asked.ask("/livez")
        assert live.status == 200
        assert live.said == {
            "live": True,
            "node": "n1",
            "phase": "serving",
            "leader": "n1",
            "applied": 9,
            "commit": 9,
        }
        ready = await asked.ask("/readyz")
        assert ready.status == 503, "the port was not told that the log is open"
        assert ready.said["reasons"] == ["this node starts"]
        asked.scene.node.log = None
        assert (await asked.ask("/livez")).status == 200
        assert "leader" not in (await asked.ask("/livez")).said

    run(tmp_path, test)


def opened(asked: Asked) -> HttpScene:
    """Tell the port that the log is open; return the node's scene."""
    scene = asked.scene
    assert scene.node.log is not None
    scene.log.watch = lambda told: None  # type: ignore[attr-defined]
    asked.port.opened(scene.node.log)
    return scene


def test_readiness_follows_the_model_and_turns_false_when_the_node_stops(tmp_path: Path) -> None:
    async def test(asked: Asked) -> None:
        scene = opened(asked)
        assert (await asked.ask("/readyz")).status == 200
        missing = await asked.ask("/readyz?model=m")
        assert missing.status == 503
        assert missing.said["reasons"] == ["no executor has m/1 ready"]
        scene.join("gpu-1")
        for model in ("m", "m/1", "m%2F1"):
            there = await asked.ask(f"/readyz?model={model}")
            assert (there.status, there.said["ready"]) == (200, True)
        assert (await asked.ask("/readyz?model=m/2")).status == 503
        scene.node.stop_taking()
        for path in ("/readyz", "/readyz?model=m"):
            stops = await asked.ask(path)
            assert (stops.status, stops.said["reasons"]) == (503, ["this node stops"])
        assert (await asked.ask("/livez")).status == 200

    run(tmp_path, test)


def test_metrics_come_in_the_form_that_is_asked_for(tmp_path: Path) -> None:
    async def test(asked: Asked) -> None:
        opened(asked)
        plain = await asked.ask("/metrics")
        assert plain.status == 200
        assert plain.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert b"\nraftbatch_is_leader 1.0\n" in plain.body
        newer = await asked.ask("/metrics", more="Accept: application/openmetrics-text\r\n")
        assert newer.headers["content-type"].startswith("application/openmetrics-text")
        assert newer.body.endswith(b"# EOF\n")
        for accept in ("text/plain;version=x", "application/openmetrics-text;version=1.é"):
            odd = await asked.ask("/metrics", more=f"Accept: {accept}\r\n")
            assert odd.status == 200
            assert odd.headers["content-type"] == plain.headers["content-type"], "as plainly asked"

    run(tmp_path, test)


def test_head_answers_without_a_body(tmp_path: Path) -> None:
    async def test(asked: Asked) -> None:
        opened(asked)
        for path in ("/livez", "/readyz", "/metrics"):
            whole, head = await asked.ask(path), await asked.ask(path, "HEAD")
            assert (head.status, head.body) == (200, b"")
            assert head.headers["content-type"] == whole.headers["content-type"]
            assert int(head.headers["content-length"]) > 0
        assert (await asked.ask("/readyz?model=x", "HEAD")).status == 503

    run(tmp_path, test)


def test_what_is_not_there_is_told_as_json(tmp_path: Path) -> None:
    async def test(asked: Asked) -> None:
        nothing = await asked.ask("/nothing")
        assert (nothing.status, nothing.said["error"]["code"]) == (404, "not_found")
        assert "/metrics" in nothing.said["error"]["message"]
        for method in ("POST", "DELETE", "OPTIONS"):
            wrong = await asked.ask("/metrics", method, "Content-Length: 0\r\n")
            assert (wrong.status, wrong.headers["allow"]) == (405, "GET, HEAD")
            assert wrong.said["error"]["code"] == "method_not_allowed"
        for query in ("model=", "model=a&model=b", "modell=a"):
            bad = await asked.ask(f"/readyz?{query}")
            assert (bad.status, bad.said["error"]["code"]) == (400, "bad_request")

    run(tmp_path, test)


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS, where there is none
        b"\0" * 5000,
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nX: " + b"x" * 9000 + b"\r\n\r\n",
        b"GET /livez HTTP/1.1\r\n" + b"X: 1\r\n" * 500 + b"\r\n",
        b"GET /livez HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\n" + b"x" * 9000,
    ],
)
def test_garbage_is_refused_and_forgotten(
    tmp_path: Path, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(asked: Asked) -> None:
        found = await asked.raw(data)
        assert found == b"" or found.startswith((b"HTTP/1.0 4", b"HTTP/1.1 4", b"HTTP/1.1 200"))
        if b" 400 " in found[:16]:
            said = json.loads(found.partition(b"\r\n\r\n")[2])["error"]
            assert said["code"] == "bad_request"
            assert said["message"].startswith("the request cannot be read: ")
            assert b"Server: raftbatch\r\n" in found
        assert (await asked.ask("/livez")).status == 200

    run(tmp_path, test)
    assert caplog.records == [], "what clients send is no news"


@pytest.mark.slow
def test_request_that_never_ends_is_cut(tmp_path: Path) -> None:
    async def test(asked: Asked) -> None:
        assert await asked.raw(b"GET /livez HTTP/1.1\r\nX: ") == b""
        assert await asked.raw(b"") == b""
        assert asked.cut["slow"] == 2
        assert (await asked.ask("/livez")).status == 200

    run(tmp_path, test, http_request_ms_max=1000)


def test_too_much_in_one_request_is_cut(tmp_path: Path) -> None:
    async def test(asked: Asked) -> None:
        body = b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 999999\r\n\r\n" + bytes(500_000)
        await asked.raw(body)
        reader, writer = await asked.connect()
        writer.write(b"GET /livez HTTP/1.1\r\n")
        for _ in range(200):
            writer.write(b"X: " + b"x" * 1000 + b"\r\n")
        try:
            await reader.read()
        except ConnectionResetError:
            pass
        writer.close()
        assert (await asked.ask("/livez")).status == 200

    run(tmp_path, test)


def test_connection_beyond_the_limit_ends_the_oldest_and_the_others_go_on(tmp_path: Path) -> None:
    async def test(asked: Asked) -> None:
        held = [await asked.connect() for _ in range(3)]
        for _, writer in held:
            writer.write(b"GET /livez HTTP/1.1\r\n")
        # This one is accepted behind them, so they were there before.
        assert (await asked.ask("/livez")).status == 200
        assert asked.cut == {"full": 1, "slow": 0, "long": 0}
        ends = []
        for reader, writer in held:
            writer.write(b"Host: x\r\n\r\n")
            try:
                ends.append((await reader.read())[9:12])
            except ConnectionResetError:
                ends.append(b"")
            writer.close()
        assert ends == [b"", b"200", b"200"]

    run(tmp_path, test, http_connections_max=3)


def test_second_request_of_a_connection_is_not_read(tmp_path: Path) -> None:
    async def test(asked: Asked) -> None:
        one = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
        assert (await asked.raw(one * 50)).count(b"HTTP/1.1 200") == 1

    run(tmp_path, test)


def test_fault_of_ours_is_logged_and_answered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(asked: Asked) -> None:
        asked.port._metrics = None  # type: ignore[assignment]
        broken = await asked.ask("/metrics")
        assert broken.status == 500
        assert broken.said["error"]["message"] == "this node failed to answer, and its log says why"

    run(tmp_path, test)
    assert len(caplog.records) == 1
    assert caplog.records[0].exc_info is not None


def test_port_in_use_is_said(tmp_path: Path) -> None:
    async def test(asked: Asked) -> None:
        again = HttpPort(asked.scene.node, RealWorld(), None)
        at = asked.scene.node.config.addresses.http
        with pytest.raises(CannotStart, match=f"cannot listen for HTTP at {at}: .*in use"):
            await again.open()
        await again.close()

    run(tmp_path, test)


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_port_with_certificates_answers_those_who_have_one(
    tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    own, operator = load_tls(*authority.issue("n1")), load_tls(*authority.issue("operator"))
    stranger = load_tls(*other.issue("stranger"))
    nobody = ssl.create_default_context(cafile=authority.certificate)
    nobody.check_hostname = False

    async def test(asked: Asked) -> None:
        host, _, number = asked.scene.node.config.addresses.http.rpartition(":")

        async def status(context: ssl.SSLContext | None) -> bytes:
            try:
                reader, writer = await asyncio.open_connection(host, int(number), ssl=context)
            except OSError:
                return b""
            try:
                writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
                return (await reader.read())[9:12]
            except OSError:
                return b""
            finally:
                writer.close()

        assert await status(operator.client) == b"200"
        for context in (nobody, stranger.client, None):
            assert await status(context) == b"", context

    run(tmp_path, test, tls=own, loop=loop)
