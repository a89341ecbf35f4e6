"""A snapshot that goes in many pieces over real sockets, to a node that has lost its disk."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.e2e.cluster import ServedCluster
from tests.e2e.processes import Process, run

pytestmark = pytest.mark.slow

# Keys of [storage], which stands before: what a snapshot stands for is let go at once.
_SETTINGS = """
log_retention_bytes = 0
log_retention_ms = 0
trailing_entries = 0
[log]
snapshot_bytes_min = 65_536
stagger_bytes = 1_024
"""
# `raftbatch serve`, which sends a few bytes of a snapshot at a time, and says so.
_IN_PIECES = """
import os
from coordinator.raft import snapshotting
from coordinator.raft.snapshot_reader import SnapshotReader
from raftbatch.cli.main import main
snapshotting.PIECE_BYTES_MAX = 8
read = SnapshotReader.read
def told(self, offset, length_max):
    os.write(2, b'{"event": "piece.read", "offset": %d}\\n' % offset)
    return read(self, offset, length_max)
SnapshotReader.read = told
main()
"""
_ENTRIES = 300
_PIECES_MIN = 4


def test_snapshot_of_many_pieces_goes_over_real_sockets(tmp_path: Path) -> None:
    with ServedCluster(tmp_path, settings=_SETTINGS) as cluster:
        for node in cluster.clients:
            command = [sys.executable, "-c", _IN_PIECES, "serve", "--node", node]
            process = Process([*command, "--config", cluster.file, "--bootstrap"])
            cluster.processes[node] = cluster._stack.enter_context(process)
        leader = cluster.leader()
        for _ in range(10):  # several segments of them, the older of which go
            cluster.acknowledged(leader, [bytes(16 << 10)] * (_ENTRIES // 10))
        digest = cluster.agree()
        assert cluster.leader() == leader
        wiped = next(node for node in cluster.processes if node != leader)
        assert cluster.processes[wiped].terminate() == 0
        shutil.rmtree(cluster.data(wiped))
        cluster.start(wiped, "--join")
        cluster.ready(wiped)
        cluster.until(lambda: _applied(cluster, wiped) >= _ENTRIES, "the snapshot")
        assert cluster.agree() == digest
        offsets = {each["offset"] for each in cluster.processes[leader].logged("piece.read")}
        assert len(offsets) >= _PIECES_MIN, offsets
        cluster.acknowledged(leader, [b"after"])
        assert cluster.agree() != digest
        assert cluster.processes[wiped].terminate() == 0
        shown = run("log", "dump", str(cluster.data(wiped)))
    assert " intact " in shown.stdout
    assert "verdict: opens" in shown.stdout


def _applied(cluster: ServedCluster, node: str) -> int:
    status = cluster.status(node)
    return status.applied if status is not None else 0
