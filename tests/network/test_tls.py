"""Certificates: what is wrong with them is said when they are loaded, and when they are shown."""

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from raftbatch.errors import CannotStart
from raftbatch.realworld import RealNetwork, RealTLS, load_tls
from raftbatch.world import Connection
from tests.network.certificates import Authority

Run = Callable[[Coroutine[Any, Any, None]], None]
PAST = ("20200101000000Z", "20200102000000Z")
FUTURE = ("20990101000000Z", "20990102000000Z")


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Return what runs a coroutine, once for each loop."""
    run = uvloop.run if request.param == "uvloop" else asyncio.run
    return lambda main: run(asyncio.wait_for(main, 60))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Return a new authority."""
    return Authority(tmp_path)


def unchecked(ca: str, certificate: str, key: str) -> RealTLS:
    """Return certificates as they would be in a process that loaded them while they were good."""
    contexts = []
    for protocol in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT):
        context = ssl.SSLContext(protocol)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(ca)
        context.load_cert_chain(certificate, key)
        contexts.append(context)
    server, client = contexts
    return RealTLS(server, client)


def test_tls_knows_the_name_of_its_own_certificate(authority: Authority) -> None:
    tls = load_tls(*authority.issue("n1"))
    assert tls.name == "n1"
    for context in (tls.server, tls.client):
        assert context.minimum_version is ssl.TLSVersion.TLSv1_3
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert not context.verify_flags & 0x200000  # the time is checked


def test_tls_says_which_file_is_wrong(authority: Authority, tmp_path: Path) -> None:
    ca, certificate, key = authority.issue("n1")
    _, other_certificate, other_key = authority.issue("n2")
    stranger = Authority(tmp_path, "stranger").issue("n1", file="strange")
    missing, garbage = str(tmp_path / "missing"), tmp_path / "garbage"
    garbage.write_text("no PEM\n", encoding="ascii")
    locked = tmp_path / "locked.key"
    locked.write_text(
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIH0\n-----END ENCRYPTED PRIVATE KEY-----\n",
        encoding="ascii",
    )
    for paths, words in (
        ((missing, certificate, key), f"{missing} cannot be read: No such file"),
        ((ca, missing, key), f"{missing} cannot be read: No such file"),
        ((ca, certificate, missing), f"{missing} cannot be read: No such file"),
        ((str(garbage), certificate, key), f"{garbage} holds no certificate"),
        ((ca, str(garbage), key), f"{garbage} and {key} are no certificate and key"),
        ((ca, certificate, str(garbage)), f"{certificate} and {garbage} are no certificate"),
        ((ca, certificate, str(locked)), f"{locked}"),
        ((ca, certificate, other_key), f"{other_key} is not the key of the certificate in"),
        ((ca, other_certificate, key), f"{key} is not the key of the certificate in"),
        ((ca, *stranger[1:]), f"{stranger[1]} is not accepted by the authority in {ca}"),
    ):
        with pytest.raises(CannotStart) as caught:
            load_tls(*paths)
        assert words in str(caught.value), str(caught.value)


def test_tls_says_that_the_clock_or_the_certificate_is_off(authority: Authority) -> None:
    for name, (start, end), words in (
        ("old", PAST, "expired"),
        ("new", FUTURE, "not yet valid"),
    ):
        with pytest.raises(CannotStart) as caught:
            load_tls(*authority.issue(name, start=start, end=end))
        text = str(caught.value)
        assert words in text
        assert f"{name}.pem is valid from Jan  1 " in text
        assert "clock" in text


def test_tls_of_a_client_may_be_good_for_nothing_else(authority: Authority) -> None:
    paths = authority.issue("web", "client", usage="clientAuth")
    tls = load_tls(*paths, is_client=True)
    assert tls.name == "web"
    assert tls.client.verify_mode is ssl.CERT_REQUIRED, "that was for the trial alone"
    with pytest.raises(CannotStart, match=r"web\.pem is not accepted by the authority"):
        load_tls(*paths)
    with pytest.raises(CannotStart, match=r"n1\.pem is not accepted by the authority"):
        load_tls(*authority.issue("n1", usage="serverAuth"), is_client=True)


async def shaken(server: RealTLS | None, client: RealTLS | None) -> tuple[str, str]:
    """Let two shake hands; return what each end says of it, or the name it sees."""
    network = RealNetwork()
    told: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def accept(connection: Connection) -> None:
        try:
            await connection.read(1)
            told.set_result(connection.certificate_name or "nobody")
        except ConnectionError as error:
            told.set_result(str(error))
        connection.abort()

    def refused(peer: str, error: OSError) -> None:
        assert peer.startswith("127.0.0.1:")
        told.set_result(str(error))

    listener = await network.listen("127.0.0.1:0", accept, server, refused)
    try:
        connection = await network.connect(listener.address, client)
        try:
            connection.write(b"?")
            await connection.read(1)
            seen = connection.certificate_name or "nobody"
        finally:
            connection.abort()
    except OSError as error:
        seen = str(error)
    said = await told
    await listener.close()
    await asyncio.sleep(0)
    return said, seen


def test_tls_names_both_ends_to_each_other(authority: Authority, run: Run) -> None:
    one, two = load_tls(*authority.issue("n1")), load_tls(*authority.issue("n2"))

    async def main() -> None:
        assert await shaken(one, two) == ("n2", "n1")

    run(main())


def test_tls_handshakes_that_fail_say_why_to_an_operator(
    authority: Authority, tmp_path: Path, run: Run
) -> None:
    good = load_tls(*authority.issue("n1"))
    stranger = load_tls(*Authority(tmp_path, "stranger").issue("n2"))
    old = unchecked(*authority.issue("old", start=PAST[0], end=PAST[1]))
    new = unchecked(*authority.issue("new", start=FUTURE[0], end=FUTURE[1]))
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.check_hostname = False
    bare.load_verify_locations(authority.certificate)

    async def main() -> None:
        # Who refuses knows why; the other end is only closed on, during its handshake or after it.
        closed = "may not accept our certificate"
        for server, client, words in (
            (old, good, "has expired, or this machine's clock is wrong"),
            (new, good, "is not valid yet, or this machine's clock is wrong"),
            (stranger, good, "is not of our authority"),
        ):
            said, seen = await shaken(server, client)
            assert words in seen
            assert closed in said
            if server is not stranger:  # whose own refusal would come first
                said, seen = await shaken(client, server)
                assert words in said
        said, seen = await shaken(good, RealTLS(bare, bare))
        assert "has shown no certificate" in said

    run(main())


def test_tls_against_none_is_said_in_words(authority: Authority, run: Run) -> None:
    tls = load_tls(*authority.issue("n1"))

    async def greedy(connection: Connection) -> None:
        await connection.read(100)
        connection.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        connection.close()

    async def main() -> None:
        network = RealNetwork()
        listener = await network.listen("127.0.0.1:0", greedy, None)
        with pytest.raises(ConnectionError, match="does not speak TLS"):
            await network.connect(listener.address, tls)
        await listener.close()
        told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        listener = await network.listen(
            "127.0.0.1:0", greedy, tls, lambda _peer, error: told.set_result(str(error))
        )
        connection = await network.connect(listener.address, None)
        connection.write(b"\0\0\0\x07raftbatch and more")
        assert "TLS" in await told
        connection.abort()
        await listener.close()

    run(main())
