"""The ports: the only ways in which the product touches the world.

Clock, entropy, files, network and worker threads are reached through the Protocols of this
module and through nothing else, so that one harness can run the same product over two worlds:
the real one (`raftbatch.realworld`) and a simulated one in which a seed decides every fault.
What lives here: Protocols and the plain values they exchange. What must never live here: an
implementation, or an import of one. Called by: everything that does I/O.

Timers are not a port: they belong to the asyncio loop, which the simulation
replaces by a loop on virtual time.

Source: docs/ARCHITECTURE.md, "One harness, two worlds".
"""

from __future__ import annotations

from asyncio import Protocol as AnyProtocol
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from typing import Literal, Protocol, TypeVar

T = TypeVar("T")
Behind = Callable[[], None] | None
Buffer = bytes | bytearray | memoryview
"""What may be written: any contiguous run of bytes, never copied on the way."""

OpenMode = Literal["read", "write", "create"]
"""`read` and `write` need the file to exist; `create` needs it not to."""


class Clock(Protocol):
    """Time as one machine sees it."""

    def monotonic_ns(self) -> int:
        """Return nanoseconds since an unspecified start; never goes back.

        The only time that may drive a timeout, and comparable only with
        readings of the same process.
        """
        ...

    def wall_ms(self) -> int:
        """Return milliseconds since 1970-01-01 UTC, for display and retention.

        May jump either way: nothing that must be correct depends on it.
        """
        ...


class Entropy(Protocol):
    """Randomness, seeded in simulation."""

    def random_bytes(self, length: int) -> bytes:
        """Return `length` random bytes, unpredictable to others in the real world."""
        ...


class File(Protocol):
    """An open file, read and written at explicit offsets.

    Every method may block and may raise OSError; none is called on the loop
    once the process serves. A write is only in the operating system's cache
    until `datasync` has returned.
    """

    def read_at(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset`; fewer only at the end of the file."""
        ...

    def write_at(self, offset: int, buffers: Sequence[Buffer]) -> None:
        """Write all buffers, one behind the other, from `offset` on.

        Raises:
            OSError: part of the bytes may have been written.
        """
        ...

    def allocate(self, length: int) -> None:
        """Make the file at least `length` bytes long, reserving the space; new bytes are zero.

        Raises:
            OSError: ENOSPC or EDQUOT where the space is not there.
        """
        ...

    def truncate(self, length: int) -> None:
        """Cut or extend (with zeros) the file to `length` bytes."""
        ...

    def datasync(self) -> None:
        """Return once all bytes written before, and the file's length, are on stable storage.

        Raises:
            OSError: what was written since the last successful call may be
                lost even if a later call succeeds. Never call it again: stop.
        """
        ...

    def uncache(self, offset: int, length: int) -> None:
        """Say that these bytes, which are on stable storage, will hardly be read: advice only.

        The system may then use the memory that they take for what is written next.
        Changes nothing, and never fails.
        """
        ...

    def size(self) -> int:
        """Return the file's length in bytes."""
        ...

    def close(self) -> None:
        """Release the file. Harmless when called twice. Syncs nothing."""
        ...


class Lock(Protocol):
    """An exclusive claim on a path, given up by `release` or by the process's death."""

    def release(self) -> None:
        """Give the claim up. Harmless when called twice."""
        ...


class Files(Protocol):
    """A file system: absolute or relative paths with `/` between their parts.

    Every method may block and may raise OSError. Creating, renaming and
    removing change a directory, and are on stable storage only once
    `sync_directory` of that directory has returned.
    """

    def open(self, path: str, mode: OpenMode) -> File:
        """Open a file.

        Raises:
            FileNotFoundError: mode is `read` or `write` and there is none.
            FileExistsError: mode is `create` and there is one.
        """
        ...

    def exists(self, path: str) -> bool:
        """Return whether a file or directory is there."""
        ...

    def list(self, path: str) -> list[str]:
        """Return the names in a directory, sorted, without `.` and `..`."""
        ...

    def make_directory(self, path: str) -> None:
        """Create a directory and those above it, each synced into its parent; it may exist."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Give a file another name in one step, replacing what had that name."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file's name; those who have it open go on reading it."""
        ...

    def sync_directory(self, path: str) -> None:
        """Return once the directory's names are on stable storage."""
        ...

    def space_left(self, path: str) -> int:
        """Return the bytes this process may still write to the file system at `path`."""
        ...

    def lock(self, path: str) -> Lock:
        """Claim the directory of `path` for this process alone; the pid is written to `path`.

        The directory is claimed, not the file: that could be removed by hand.

        Raises:
            BlockingIOError: somebody holds it; the message names the holder's pid.
        """
        ...


class Worker(Protocol):
    """One thread that runs jobs off the loop, one at a time, in the order they came."""

    def submit(
        self, job: Callable[[], T], done: Callable[[Future[T]], None], behind: Behind = None
    ) -> None:
        """Run `job` on the thread, then `done` with its finished future on the loop.

        `done` calls come in job order and never inside `submit`. A job that raises finishes its
        future with that exception; else the thread runs `behind`, which must not raise, when
        `done` is on its way: nobody waits for that. After `close` none is called.
        """
        ...

    def close(self) -> bool:
        """Drop jobs that have not begun; return whether the running one has ended.

        Waits for that, but not for ever: a sync can hang for as long as the disk does. Where it
        returns False, after some seconds, the thread is left to itself, and does not keep the
        process from ending. Until then what it has open or locked must stay so.
        """
        ...


class Workers(Protocol):
    """Where worker threads come from."""

    def start(self, name: str) -> Worker:
        """Return a new worker, its thread named `name`; called on the loop's thread."""
        ...


class Receiver(Protocol):
    """Who takes in what comes on a connection, on the loop, as it comes.

    No method raises, and none is called inside a call on the connection but
    `buffer` and `received` inside `hand_over`.
    """

    def buffer(self) -> memoryview:
        """Return where the next bytes may be put: room for one at least."""
        ...

    def received(self, length: int) -> None:
        """Take in so many bytes at the start of the last `buffer`."""
        ...

    def writable(self) -> None:
        """Take in that the queue is short again, after the connection was full."""
        ...

    def lost(self, error: OSError | None) -> None:
        """Take in, once and last, that the connection has ended: closed (None), or broken."""
        ...


class Connection(Protocol):
    """One ordered stream of bytes each way, TLS already done where it is on."""

    @property
    def peer(self) -> str:
        """The other end, as `host:port`."""
        ...

    @property
    def certificate_name(self) -> str | None:
        """The common name of the verified certificate of the other end; None without TLS."""
        ...

    @property
    def certificate_uris(self) -> Sequence[str]:
        """The URIs among the alternative names of that certificate; none without TLS."""
        ...

    async def read(self, length_max: int) -> bytes:
        """Return 1 to `length_max` bytes as they arrive; `b""` once the other end has closed.

        Raises:
            ConnectionError: the connection broke.
        """
        ...

    def hand_over(self, receiver: Receiver) -> None:
        """Give all that comes from now on to a receiver, what came already at once.

        For a reader for whom a copy more is too much: it says where the bytes go.
        Nobody calls `read` after that.
        """
        ...

    def write(self, data: Buffer) -> None:
        """Queue bytes to be sent. Never blocks: see `queued_bytes` and `is_full`."""
        ...

    def write_many(self, buffers: Sequence[Buffer]) -> None:
        """Queue buffers, one behind the other; none may change before it is sent."""
        ...

    @property
    def queued_bytes(self) -> int:
        """Bytes accepted by `write` that the operating system has not taken yet."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether the queue is long, some 64 KiB: better write when it is short again."""
        ...

    def close(self) -> None:
        """Close once what is queued has been sent, or some seconds have passed."""
        ...

    def abort(self) -> None:
        """Close at once; what is queued is dropped, and readers see the end."""
        ...


class Listener(Protocol):
    """An open port."""

    @property
    def address(self) -> str:
        """Where it listens, as `host:port`, the port the real one even where 0 was asked for."""
        ...

    async def close(self) -> None:
        """Stop accepting; connections already accepted live on."""
        ...


class TLS(Protocol):
    """Certificates for one port; opaque to all but the network that made it."""


class Network(Protocol):
    """Stream connections."""

    async def listen(
        self,
        address: str,
        accept: Callable[[Connection], Awaitable[None]],
        tls: TLS | None,
        refused: Callable[[str, OSError], None] | None = None,
    ) -> Listener:
        """Listen at `host:port` and run `accept` for each connection, as a task of its own.

        A flood of connections takes neither memory nor descriptors; where there
        are none, who waits is accepted as soon as there are. `refused` is told
        of each connection that failed before `accept`: its `host:port`, and why.

        Raises:
            OSError: the address is in use, not ours, or does not resolve.
        """
        ...

    async def serve(
        self, address: str, protocol: Callable[[], AnyProtocol], tls: TLS | None
    ) -> Listener:
        """Listen as above, for a library that brings its own protocols, one a connection."""
        ...

    async def connect(self, address: str, tls: TLS | None) -> Connection:
        """Connect to `host:port`; names are resolved off the loop.

        Raises:
            OSError: nobody listens there, or the certificate is not accepted.
        """
        ...


class Process(Protocol):
    """This process: how it is told to stop, and how it ends. For composition roots alone."""

    def on_stop(self, told: Callable[[str], None], within_ms: int) -> None:
        """Call `told` on the loop with the name of the first signal that asks to stop.

        From then on it has so long to end by itself, as by `end_within`; a second signal ends it
        at once. Both hold whatever hangs, the loop included.
        """
        ...

    def end_within(self, duration_ms: int, why: str) -> None:
        """End the process after so long, with exit status 1, if it has not ended by itself.

        Nothing that hangs can prevent it: neither the loop nor another thread.
        """
        ...


class World(Protocol):
    """All ports together, as the composition root hands them down."""

    @property
    def clock(self) -> Clock:
        """Time."""
        ...

    @property
    def entropy(self) -> Entropy:
        """Randomness."""
        ...

    @property
    def files(self) -> Files:
        """The file system."""
        ...

    @property
    def workers(self) -> Workers:
        """Threads."""
        ...

    @property
    def network(self) -> Network:
        """Connections."""
        ...


def join(directory: str, name: str) -> str:
    """Return the path of `name` in `directory`. Total. Deterministic."""
    return f"{directory.rstrip('/')}/{name}"
