"""A process at a node, which the tests tell what to send, and ask what has come.

    python -m tests.fabric.agent

It answers each line of JSON, `{"do": name, ...}`, with one. It echoes on one TCP port, on another
takes what comes and says its digest, and keeps the datagrams that come on a UDP port.
"""

import hashlib
import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

ECHO = 7001
SINK = 7002
DATAGRAMS = 7003
LIMIT_S = 60.0
_BUFFER_BYTES = 8 << 20  # no datagram is lost here


def datagrams(address: str = "") -> socket.socket:
    """Return a socket that takes the datagrams of its address."""
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found.setsockopt(socket.SOL_SOCKET, 33, _BUFFER_BYTES)  # SO_RCVBUFFORCE: we are root
    found.settimeout(LIMIT_S)
    found.bind((address, DATAGRAMS))
    return found


class Agent:
    """What a test can ask for: one method each."""

    def __init__(self) -> None:
        self._datagrams = datagrams()
        self._kept: socket.socket | None = None
        for port, answer in ((ECHO, _echo), (SINK, _sink)):
            listener = socket.create_server(("", port))
            threading.Thread(target=_serve, args=(listener, answer), daemon=True).start()

    def connect(self, to: str, limit_s: float = LIMIT_S) -> str:
        """Connect, keep the connection, say how it went; the one before is cut short."""
        if self._kept is not None:
            _cut(self._kept)
            self._kept = None
        try:
            self._kept = socket.create_connection((to, ECHO), timeout=limit_s)
        except OSError as error:
            return error.strerror or type(error).__name__
        self._kept.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._kept.settimeout(LIMIT_S)
        return "connected"

    def say(self, words: str) -> None:
        """Send words over the connection that is kept."""
        assert self._kept is not None
        self._kept.sendall(words.encode())

    def hear(self, count: int) -> str:
        """Return so many characters from it."""
        assert self._kept is not None
        words = b""
        while len(words) < count:
            got = self._kept.recv(count - len(words))
            assert got, "closed"
            words += got
        return words.decode()

    def ping(self, count: int) -> list[float]:
        """Return how long each round trip over it took, in seconds."""
        times = []
        for _ in range(count):
            began = time.perf_counter()
            self.say("x")
            self.hear(1)
            times.append(time.perf_counter() - began)
        return times

    def upload(self, to: str, count: int) -> list[Any]:
        """Send so many bytes; return the seconds it took and whether they came whole."""
        data = bytes(range(256)) * (count // 256)
        began = time.perf_counter()
        with socket.create_connection((to, SINK), timeout=LIMIT_S) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            digest = connection.recv(64)
            _cut(connection)
        return [time.perf_counter() - began, digest == hashlib.sha256(data).digest()]

    def send(self, to: str, words: list[str]) -> None:
        """Send datagrams."""
        for each in words:
            self._datagrams.sendto(each.encode(), (to, DATAGRAMS))

    def receive(self, until: str) -> list[str]:
        """Return the datagrams that came before this one."""
        words = []
        while (word := self._datagrams.recv(65_536).decode()) != until:
            words.append(word)
        return words


def _cut(connection: socket.socket) -> None:
    """End a connection with one packet at once: nothing of it comes among what a test counts."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def _serve(listener: socket.socket, answer: Callable[[socket.socket], None]) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


def _echo(connection: socket.socket) -> None:
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while got := connection.recv(65_536):
                connection.sendall(got)
        except ConnectionResetError:
            pass  # it was cut short


def _sink(connection: socket.socket) -> None:
    digest = hashlib.sha256()
    with connection:
        while got := connection.recv(65_536):
            digest.update(got)
        connection.sendall(digest.digest())


def main() -> None:
    """Do as each line says, until there are none."""
    agent = Agent()
    _answer("ready")
    for line in sys.stdin:
        command = json.loads(line)
        name = command.pop("do")
        _answer(getattr(agent, name)(**command))


def _answer(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
