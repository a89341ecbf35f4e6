"""What a node writes down before it speaks of its first start: the file `founding`.

    directory/founding        a note, replaced whole in one step; gone once the node is born

What lives here: the note, its bytes, and its three steps on disk. What must never
live here: what it means (`founding`). Called by: `founding`, `starting`. It
blocks, and is used before the node serves alone.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import msgpack

from coordinator.raft import membership
from coordinator.raft.greeting import TOKEN_BYTES
from coordinator.raft.membership import Membership
from raftbatch.errors import CannotStart, Corrupt, DiskFailed
from raftbatch.ids import ClusterId, NodeId, is_cluster_id, is_node_id
from raftbatch.world import Files, join

NAME = "founding"
TEMPORARY = NAME + ".tmp"

_FORMAT = 1
_CHECKSUM_BYTES = 32
_FILE_BYTES_MAX = 64 << 10


@dataclass(frozen=True, slots=True)
class Plan:
    """A cluster that this node has decided to found.

    Attributes:
        cluster_id: drawn at random for it.
        tokens: the token with which each other founder said that it was empty, by id.
    """

    cluster_id: ClusterId
    tokens: tuple[tuple[NodeId, bytes], ...]


@dataclass(frozen=True, slots=True)
class Note:
    """An empty node's own word.

    Attributes:
        node_id: whose note it is.
        founders: the members in its configuration when it was written.
        token: drawn at random; whoever names it was told so by this disk.
        asker: the founder's token to which `token` was told; empty before that.
        past: tokens of this disk that were told to others, the oldest forgotten.
        plan: what the founder has decided; None with all others, and before that.
    """

    node_id: NodeId
    founders: Membership
    token: bytes
    asker: bytes = b""
    past: tuple[bytes, ...] = ()
    plan: Plan | None = None


def encode(note: Note) -> bytes:
    """Return the bytes of a note, a checksum before them. Total. Deterministic."""
    plan = note.plan
    body: bytes = msgpack.packb(
        [
            _FORMAT,
            note.node_id,
            membership.encode(note.founders),
            note.token,
            note.asker,
            list(note.past),
            plan and [plan.cluster_id, [list(each) for each in plan.tokens]],
        ]
    )
    return hashlib.sha256(body).digest() + body


def decode(data: bytes) -> Note:
    """Read a note back.

    Raises:
        ValueError: these are the bytes of none.
    """
    checksum, body = data[:_CHECKSUM_BYTES], data[_CHECKSUM_BYTES:]
    if hashlib.sha256(body).digest() != checksum:
        raise ValueError("its checksum does not match")
    try:
        version, node, founders, token, asker, past, plan = msgpack.unpackb(
            body, raw=False, max_map_len=0, max_ext_len=0
        )
        members = membership.decode(founders)
        found = Note(NodeId(node), members, token, asker, tuple(past), plan and _plan(*plan))
    except Exception as error:  # noqa: BLE001 - msgpack raises many kinds, all of which mean damage
        raise ValueError(f"it is no note: {error}") from None
    if version != _FORMAT or not is_node_id(node) or len(token) != TOKEN_BYTES:
        raise ValueError("it is a note of another form")
    if encode(found) != bytes(data):
        raise ValueError("it is not in the one form that is written")
    return found


def _plan(cluster: str, tokens: list[list[object]]) -> Plan:
    if not is_cluster_id(cluster):
        raise ValueError(f"{cluster!r} is no cluster id")
    pairs = []
    for node, token in tokens:
        if not isinstance(node, str) or not isinstance(token, bytes):
            raise ValueError(f"{node!r} has no token")
        pairs.append((NodeId(node), token))
    return Plan(ClusterId(cluster), tuple(pairs))


class Notes:
    """The note of one data directory.

    Args:
        files: the file system.
        directory: the data directory; it must be there, and be this process's.
    """

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._path = join(directory, NAME)

    def read(self) -> Note | None:
        """Return the note; None where there is none.

        Raises:
            Corrupt: there is one, but damaged.
            CannotStart: it cannot be read.
        """
        try:
            if not self._files.exists(self._path):
                return None
            file = self._files.open(self._path, "read")
            try:
                data = file.read_at(0, _FILE_BYTES_MAX)
            finally:
                file.close()
            # A note that a process renamed just before it died may not be durable yet.
            self._files.sync_directory(self._directory)
        except OSError as error:
            raise CannotStart(f"{self._path} cannot be read: {error}") from error
        try:
            return decode(data)
        except ValueError as error:
            advice = (
                "this node was never part of a running cluster: empty its data directory, then "
                "start it with --bootstrap, or with --join if the cluster runs by now"
            )
            raise Corrupt(self._path, 0, f"{error}; {advice}") from None

    def write(self, note: Note) -> None:
        """Put a note in the place of the one before, durably.

        Raises:
            DiskFailed: which of the two is there is unknown.
        """
        temporary = join(self._directory, TEMPORARY)
        try:
            if self._files.exists(temporary):
                self._files.remove(temporary)
            file = self._files.open(temporary, "create")
            try:
                file.write_at(0, [encode(note)])
                file.datasync()
            finally:
                file.close()
            self._files.rename(temporary, self._path)
            self._files.sync_directory(self._directory)
        except OSError as error:
            raise DiskFailed(f"{self._path} cannot be written: {error}") from error

    def remove(self) -> None:
        """Take the note away, durably; there may be none.

        Raises:
            DiskFailed: whether it is there is unknown.
        """
        try:
            for name in (TEMPORARY, NAME):
                if self._files.exists(join(self._directory, name)):
                    self._files.remove(join(self._directory, name))
            self._files.sync_directory(self._directory)
        except OSError as error:
            raise DiskFailed(f"{self._path} cannot be removed: {error}") from error
