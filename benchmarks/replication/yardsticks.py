"""What a disk and a loopback connection take without us: the yardsticks of `measures`.

What lives here: a sync, a round trip. What must never live here: the product.
Called by: `measures`.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

_NODES = 3

_ECHO = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as other:
    other.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while data := other.recv(65536):
        other.sendall(data)
"""


def sync_ms(directory: Path, size: int, times: int) -> float:
    """Return the median time of a write of `size` bytes and its fdatasync, in ms.

    Of three at once: so many nodes share the disk, and each entry is synced by all.
    """
    with ThreadPoolExecutor(_NODES) as pool:
        paths = [directory / f"yardstick-{number}" for number in range(_NODES)]
        took_ns = pool.map(lambda path: _syncs_ns(path, size, times), paths)
        return median(each for some in took_ns for each in some) / 1e6


def _syncs_ns(path: Path, size: int, times: int) -> list[int]:
    took_ns = []
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, (size + 4096) * times)
        os.fsync(file.fileno())
        for at in range(times):
            begun_ns = time.monotonic_ns()
            os.pwrite(file.fileno(), bytes(size), at * (size + 4096))
            os.fdatasync(file.fileno())
            took_ns.append(time.monotonic_ns() - begun_ns)
    path.unlink()
    return took_ns


def round_trip_ms(size: int, times: int) -> float:
    """Return the median time of `size` bytes to another process and back, in ms."""
    took_ns = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        with subprocess.Popen([sys.executable, "-c", _ECHO, port]) as echo:
            connection, _ = server.accept()
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for _ in range(times):
                    begun_ns = time.monotonic_ns()
                    connection.sendall(bytes(size))
                    left = size
                    while left:
                        left -= len(connection.recv(left))
                    took_ns.append(time.monotonic_ns() - begun_ns)
            echo.wait()
    return median(took_ns) / 1e6
