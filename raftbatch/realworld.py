"""The real world: the operating system behind the ports of `raftbatch.world`.

What lives here: the one place where the product calls `os`, sockets, threads
and clocks. What must never live here: a decision. Called by: composition roots
and offline tools; everything below them is handed the ports.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import re
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from raftbatch.world import TLS, Buffer, Connection, OpenMode

T = TypeVar("T")

_IOV_MAX = 1024  # buffers one pwritev takes on Linux and macOS
_ZEROS = bytes(1 << 20)


class RealClock:
    """The machine's clocks."""

    def monotonic_ns(self) -> int:
        """Return the monotonic clock, in ns."""
        return time.monotonic_ns()

    def wall_ms(self) -> int:
        """Return the wall clock, in ms since 1970."""
        return time.time_ns() // 1_000_000


class RealEntropy:
    """The kernel's random numbers."""

    def random_bytes(self, length: int) -> bytes:
        """Return `length` unpredictable bytes."""
        return os.urandom(length)


class RealFile:
    """A file descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read_at(self, offset: int, length: int) -> bytes:
        """Read, going on after short reads until `length` or the end of the file."""
        parts: list[bytes] = []
        while length > 0:
            part = os.pread(self._descriptor, length, offset)
            if not part:
                break
            parts.append(part)
            offset += len(part)
            length -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def write_at(self, offset: int, buffers: Sequence[Buffer]) -> None:
        """Write all of it, going on after short writes."""
        for start in range(0, len(buffers), _IOV_MAX):
            some = buffers[start : start + _IOV_MAX]
            length = sum(map(len, some))
            written = os.pwritev(self._descriptor, some, offset)
            if written < length:  # rare: a signal, a full disk, or more than 2 GiB
                rest = memoryview(b"".join(some))
                while written < length:
                    written += os.pwrite(self._descriptor, rest[written:], offset + written)
            offset += length

    def allocate(self, length: int) -> None:
        """Reserve space, by writing zeros where the system cannot reserve."""
        size = self.size()
        if length <= size:
            return
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(self._descriptor, 0, length)
                return
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                    raise
        while size < length:
            part = min(len(_ZEROS), length - size)
            self.write_at(size, [_ZEROS[:part]])
            size += part

    def truncate(self, length: int) -> None:
        """Set the length."""
        os.ftruncate(self._descriptor, length)

    def datasync(self) -> None:
        """Make content and length durable."""
        if hasattr(os, "fdatasync"):
            os.fdatasync(self._descriptor)
        else:  # macOS: a development system, where even this only reaches the drive's cache
            os.fsync(self._descriptor)

    def size(self) -> int:
        """Return the length in bytes."""
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        """Close the descriptor, once."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


class RealLock:
    """A flock on an open file: the kernel drops it with the process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def take(self, path: str) -> None:
        """Claim the file and write our pid into it."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            content = os.pread(self._descriptor, 32, 0)
            holder = content.decode("ascii", "replace").strip() or "unknown"
            message = f"held by the process with pid {holder}"
            raise BlockingIOError(error.errno, message, path) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode("ascii"), 0)

    def release(self) -> None:
        """Close the file, and with it the lock."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


_FLAGS: dict[OpenMode, int] = {
    "read": os.O_RDONLY,
    "write": os.O_RDWR,
    "create": os.O_RDWR | os.O_CREAT | os.O_EXCL,
}


class RealFiles:
    """The operating system's files. Files are made readable by their owner and group only."""

    def open(self, path: str, mode: OpenMode) -> RealFile:
        """Open without following the last symbolic link."""
        flags = _FLAGS[mode] | os.O_CLOEXEC | os.O_NOFOLLOW
        return RealFile(os.open(path, flags, 0o640))

    def exists(self, path: str) -> bool:
        """Return whether the name is there."""
        return os.path.lexists(path)

    def list(self, path: str) -> list[str]:
        """Return the sorted names."""
        return sorted(os.listdir(path))

    def make_directory(self, path: str) -> None:
        """Create what is missing, from the top down, each synced into its parent.

        The last one that is there already is synced too: the process that made
        it may have died before it could. Where we may not write we did not make it.
        """
        missing = []
        path = os.path.abspath(path)
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        if os.access(os.path.dirname(path), os.R_OK | os.W_OK):
            self.sync_directory(os.path.dirname(path))
        for part in reversed(missing):
            os.mkdir(part, 0o750)
            self.sync_directory(os.path.dirname(part))

    def rename(self, source: str, target: str) -> None:
        """Rename in one step."""
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """Unlink."""
        os.unlink(path)

    def sync_directory(self, path: str) -> None:
        """Fsync the directory itself."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def space_left(self, path: str) -> int:
        """Return what an unprivileged process may use."""
        facts = os.statvfs(path)
        return facts.f_bavail * facts.f_frsize

    def lock(self, path: str) -> RealLock:
        """Take an exclusive flock, or say who has it."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        lock = RealLock(os.open(path, flags, 0o640))
        try:
            lock.take(path)
        except OSError:
            lock.release()  # else the descriptor would hold the claim until the process ends
            raise
        return lock


class RealWorker:
    """A thread pool of one."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._closed = False

    def submit(self, job: Callable[[], T], done: Callable[[Future[T]], None]) -> None:
        """Queue the job; `done` comes by `call_soon_threadsafe`. Drops it after `close`."""

        def deliver(future: Future[T]) -> None:
            if not self._closed:
                done(future)

        def finished(future: Future[T]) -> None:
            if not self._closed:
                try:
                    self._loop.call_soon_threadsafe(deliver, future)
                except RuntimeError:  # the loop was closed first: nobody is left to tell
                    self._closed = True

        if not self._closed:
            self._pool.submit(job).add_done_callback(finished)

    def close(self) -> None:
        """Cancel what waits and join the thread."""
        self._closed = True
        self._pool.shutdown(wait=True, cancel_futures=True)


class RealWorkers:
    """Starts threads that report to the running loop."""

    def start(self, name: str) -> RealWorker:
        """Start a worker for the loop that runs now."""
        return RealWorker(name, asyncio.get_running_loop())


@dataclass(frozen=True, slots=True)
class RealTLS:
    """TLS settings for both roles of a port."""

    server: ssl.SSLContext
    client: ssl.SSLContext


class RealConnection:
    """An asyncio stream pair."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @property
    def peer(self) -> str:
        """The other end's `host:port`."""
        return _address_text(self._writer.get_extra_info("peername"))

    @property
    def certificate_name(self) -> str | None:
        """The verified certificate's common name."""
        certificate = self._writer.get_extra_info("peercert") or {}
        for part in certificate.get("subject", ()):
            for key, value in part:
                if key == "commonName":
                    return str(value)
        return None

    async def read(self, length_max: int) -> bytes:
        """Read what has arrived."""
        try:
            return await self._reader.read(length_max)
        except ConnectionError:
            raise
        except OSError as error:  # ETIMEDOUT, EHOSTUNREACH, TLS
            raise ConnectionError(*error.args) from error

    def write(self, data: Buffer) -> None:
        """Hand over to the transport's queue."""
        self._writer.write(data)

    @property
    def queued_bytes(self) -> int:
        """What the transport still holds."""
        return self._writer.transport.get_write_buffer_size()

    async def drain(self) -> None:
        """Wait for the transport's low-water mark."""
        try:
            await self._writer.drain()
        except ConnectionError:
            raise
        except OSError as error:  # ETIMEDOUT, EHOSTUNREACH, TLS
            raise ConnectionError(*error.args) from error

    def abort(self) -> None:
        """Drop the connection now."""
        self._writer.transport.abort()


class RealListener:
    """An asyncio server."""

    def __init__(self, server: asyncio.Server) -> None:
        self._server = server
        self._address = _address_text(server.sockets[0].getsockname())

    @property
    def address(self) -> str:
        """The first bound address, also once it is closed."""
        return self._address

    async def close(self) -> None:
        """Stop accepting."""
        self._server.close()


class RealNetwork:
    """TCP through asyncio, Nagle off (asyncio's default)."""

    async def listen(
        self,
        address: str,
        accept: Callable[[Connection], Awaitable[None]],
        tls: TLS | None,
    ) -> RealListener:
        """Bind and serve."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await accept(RealConnection(reader, writer))

        host, port = _split_address(address)
        context = _real(tls).server if tls else None
        server = await asyncio.start_server(serve, host, port, ssl=context)
        return RealListener(server)

    async def connect(self, address: str, tls: TLS | None) -> RealConnection:
        """Resolve and connect."""
        host, port = _split_address(address)
        context = _real(tls).client if tls else None
        reader, writer = await asyncio.open_connection(host, port, ssl=context)
        return RealConnection(reader, writer)


class RealWorld:
    """All real ports."""

    def __init__(self) -> None:
        self.clock = RealClock()
        self.entropy = RealEntropy()
        self.files = RealFiles()
        self.workers = RealWorkers()
        self.network = RealNetwork()


def _real(tls: TLS) -> RealTLS:
    """Return certificates made for this network: there are no others in the real world."""
    assert isinstance(tls, RealTLS)
    return tls


def _split_address(address: str) -> tuple[str, int]:
    """Split `host:port` or `[v6]:port`; an unusable one is an OSError like other bad addresses."""
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        host.encode("idna")  # as getaddrinfo will, whose error would be no OSError
    except UnicodeError:
        colon = ""
    if not colon or not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65_535:
        raise OSError(errno.EINVAL, f"{address!r} is not host:port")
    return host, int(port)


def _address_text(address: object) -> str:
    """Return `host:port` of what a socket gave, `unknown` when it is gone already."""
    match address:
        case (str(host), int(port), *_):
            return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        case _:
            return "unknown"
