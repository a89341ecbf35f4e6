"""A minute of kills and pauses under load: nothing acknowledged is lost, nothing refused is there.

Three real processes with real disks. Their world is the machine's: a run is not
repeated exactly by its seed, but its faults come in the same order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.e2e.clients import Clients
from tests.e2e.cluster import AS_SHIPPED, ServedCluster
from tests.e2e.history import History, Write, judge, log_of

_DURATION_S = 60.0
_CLIENTS = 3
_NO_SNAPSHOTS = "[log]\nsnapshot_bytes_min = 1_099_511_627_776\n"
"""The whole log is kept: it is what the answers are held against."""


class Nemesis:
    """Kills and pauses processes, and brings them back.

    Args:
        cluster: the victim.
        seed: draws what, whom and when.
    """

    def __init__(self, cluster: ServedCluster, seed: int) -> None:
        self.counts = {"kill": 0, "pause": 0, "leader": 0, "all": 0}
        self._cluster = cluster
        self._rng = Random(seed)
        self._never = threading.Event()

    def strike(self) -> float:
        """Strike once, mend it, and return how long all that took, in seconds."""
        rng = self._rng
        before_s, between_s = rng.uniform(0.1, 1.5), rng.choice((0.05, 0.3, 1.0, 2.5))
        self._never.wait(before_s)
        victims = self._draw()
        if rng.random() < 0.6:
            self.counts["kill"] += 1
            for node in victims:
                self._cluster.processes[node].kill()
            self._never.wait(between_s)
            for node in victims:
                self._cluster.start(node)
        else:
            self.counts["pause"] += 1
            for node in victims:
                self._cluster.processes[node].pause()
            self._never.wait(between_s)
            for node in victims:
                self._cluster.processes[node].resume()
        return before_s + between_s

    def _draw(self) -> list[str]:
        nodes = sorted(self._cluster.processes)
        kind = self._rng.choice(("leader", "leader", "follower", "two", "all"))
        statuses = self._cluster.statuses()
        leading = [node for node, each in sorted(statuses.items()) if each.role == "leader"]
        if kind == "leader" and leading:
            self.counts["leader"] += 1
            return leading[:1]
        if kind == "all":
            self.counts["all"] += 1
            return nodes
        return self._rng.sample(nodes, 2 if kind == "two" else 1)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nothing_acknowledged_is_lost_under_kills_and_pauses(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    seed = 7
    record_property("seed", seed)
    history = History()
    with ServedCluster(tmp_path, settings=_NO_SNAPSHOTS + AS_SHIPPED) as cluster:
        cluster.start_all("--bootstrap")
        cluster.leader()
        nemesis = Nemesis(cluster, seed)
        with Clients(cluster.clients, history, _CLIENTS, seed):
            took_s = 0.0
            while took_s < _DURATION_S:
                took_s += nemesis.strike()
            for node in cluster.processes:
                cluster.ready(node)
            before = history.count("ok")
            cluster.until(lambda: history.count("ok") > before, "new acknowledgements at the end")
        cluster.agree()
        committed = min(each.applied for each in cluster.statuses().values())
        assert [process.terminate() for process in cluster.processes.values()] == [0, 0, 0]
        logs = {node: log_of(cluster.data(node)) for node in cluster.processes}
    record_property("counts", {**nemesis.counts, **_outcomes(history)})
    assert list(judge(history, logs, committed)) == []
    assert min(nemesis.counts["kill"], nemesis.counts["pause"], nemesis.counts["leader"]) > 3
    assert history.count("ok") > 500
    assert history.count("fail") > 0
    assert history.count("info") > 0


def _outcomes(history: History) -> dict[str, int]:
    return {"ok": history.count("ok"), "fail": history.count("fail"), "info": history.count("info")}


def test_judge_finds_what_it_is_there_for() -> None:
    log = {1: (1, b""), 2: (1, b"a"), 3: (1, b"b")}

    def complaints(*writes: Write, **logs: dict[int, tuple[int, bytes]]) -> list[str]:
        history = History()
        history.writes = list(writes)
        return list(judge(history, {"n1": log, **logs}, 3))

    a, b = Write(b"a", "ok", 2), Write(b"b", "info")
    assert complaints(a, b) == []
    assert complaints(a) == ["b'b' at 3 was never asked for"]
    assert complaints(a, b, Write(b"c", "ok", 4)) == ["b'c' was acknowledged at 4, but stands at 0"]
    assert complaints(Write(b"a", "fail"), b) == ["b'a' was refused for good, but stands at 2"]
    assert complaints(Write(b"a", "ok", 3), b) == ["b'a' was acknowledged at 3, but stands at 2"]
    [lacks] = complaints(a, b, n2={1: (1, b""), 2: (1, b"a")})
    assert lacks == "n2 lacks entry 3"
    [differs] = complaints(a, b, n2={**log, 2: (1, b"x")})
    assert "differ at 2" in differs
    log[3] = (1, b"a")
    assert "b'a' stands at 2 and at 3" in complaints(a)
