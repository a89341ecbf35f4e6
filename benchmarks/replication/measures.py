"""What is measured of a replicated log: rates, latency, elections, catching up, restarts.

What lives here: one function for each table. What must never live here: a
process (`cluster`), printing (`bench_log`). Called by: `bench_log`.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.replication.cluster import NODES, Cluster, running
from benchmarks.replication.yardsticks import round_trip_ms, sync_ms

Figures = dict[str, Any]

_LARGE_BYTES = 48 << 10


def loads(directory: Path, seconds: float, rounds: int) -> list[Figures]:
    """Return rates and latencies of several loads, with CPU per entry and node."""
    cases = [(200, 1), (200, 64), (200, 1000), (_LARGE_BYTES, 1), (_LARGE_BYTES, 64)]
    found: list[Figures] = []
    with running(directory) as cluster:
        leader = cluster.leader()
        for size, in_flight in cases * rounds:
            before = _cpu(cluster)
            leader.ask("load", bytes=size, in_flight=in_flight, seconds=seconds)
            told = leader.wait("loaded")
            if "error" in told:
                raise RuntimeError(f"the leader lost its lead under load: {told}")
            after = _cpu(cluster)
            cpu_us = sorted((after[node] - before[node]) / told["count"] for node in NODES)
            yardstick_ms = sync_ms(directory, size, 50) + round_trip_ms(size, 200)
            found.append(
                {
                    "bytes": size,
                    "in_flight": in_flight,
                    "entries_per_second": told["count"] / told["seconds"],
                    "p50_ms": told["p50_ms"],
                    "p99_ms": told["p99_ms"],
                    "sync_and_round_trip_ms": yardstick_ms,
                    "p50_ratio": told["p50_ms"] / yardstick_ms,
                    "cpu_us_least": cpu_us[0],
                    "cpu_us_most": cpu_us[-1],
                }
            )
        peaks = [node.state()["peak_bytes"] for node in cluster.nodes.values()]
        found[-1]["peak_bytes"] = max(peaks)
    return [_middle([each for each in found if _case(each) == case]) for case in cases]


def elections(directory: Path, kills: int) -> Figures:
    """Kill the leader again and again; return how long each time nobody led, in ms."""
    took_ms = []
    with running(directory) as cluster:
        for _ in range(kills):
            leader = cluster.leader()
            for node in cluster.nodes.values():
                while not node.leads.empty():
                    node.leads.get()
            killed_ns = time.monotonic_ns()
            cluster.kill(leader.id)
            took_ms.append((_next_lead_ns(cluster, killed_ns) - killed_ns) / 1e6)
            cluster.start(leader.id)
            _until_applied(cluster, leader.id)
    return {"kills": kills, "median_ms": median(took_ms), "most_ms": max(took_ms)}


def catching_up(directory: Path, gigabytes: float) -> tuple[Figures, Figures]:
    """Let a follower miss so much, return how it catches up, and how it starts with all that."""
    with running(directory) as cluster:
        leader = cluster.leader()
        lagging = next(node for node in NODES if node != leader.id)
        cluster.kill(lagging)
        wanted = int(gigabytes * 1e9)
        done = 0
        while done < wanted:
            leader.ask("load", bytes=_LARGE_BYTES, in_flight=64, seconds=2.0)
            done += leader.wait("loaded")["count"] * _LARGE_BYTES
        before = leader.state()
        opened = cluster.start(lagging)
        last = _until_applied(cluster, lagging)
        seconds = (last["at_ns"] - opened["at_ns"]) / 1e9
        after = leader.state()
        caught_up = {
            "bytes": done,
            "seconds": seconds,
            "megabytes_per_second": done / 1e6 / seconds,
            "leader_changes": after["term"] - before["term"],
            "leader_peak_bytes": after["peak_bytes"],
            "follower_peak_bytes": last["peak_bytes"],
        }
        cluster.kill(lagging)
        begun_ns = time.monotonic_ns()
        opened = cluster.start(lagging)
        restart = {
            "journal_bytes": done,
            "open_seconds": (opened["at_ns"] - begun_ns) / 1e9,
            "peak_bytes": opened["peak_bytes"],
        }
        last = _until_applied(cluster, lagging)
        restart["applied_seconds"] = (last["at_ns"] - begun_ns) / 1e9
    return caught_up, restart


def line(
    rates: list[Figures], failovers: Figures, caught_up: Figures, restart: Figures
) -> list[Figures]:
    """Return what the log is held to, what was found, and whether it holds."""
    one = next(each for each in rates if _case(each) == (200, 1))
    large = next(each for each in rates if _case(each) == (_LARGE_BYTES, 64))
    return [
        _bound("48 KiB x 64: entries a second", large["entries_per_second"], least=1000),
        _bound("48 KiB x 64: us of CPU an entry, the busiest node", large["cpu_us_most"], most=150),
        _bound("200 B x 1: p50 / (sync + round trip)", one["p50_ratio"], most=2.5),
        _bound("election: median ms", failovers["median_ms"], most=150),
        _bound("election: most ms", failovers["most_ms"], most=600),
        _bound("catching up: MB/s", caught_up["megabytes_per_second"], least=50),
        _bound("catching up: leader changes", caught_up["leader_changes"], most=0),
        _bound("restart: s", restart["applied_seconds"], most=20),
    ]


def _bound(name: str, found: float, least: float = 0, most: float = float("inf")) -> Figures:
    wanted = f"at least {least:g}" if least else f"at most {most:g}"
    holds = "yes" if least <= found <= most else "no"
    return {"what": name, "found": found, "wanted": wanted, "holds": holds}


def _cpu(cluster: Cluster) -> dict[str, int]:
    return {node: process.state()["cpu_us"] for node, process in cluster.nodes.items()}


def _case(found: Figures) -> tuple[int, int]:
    return found["bytes"], found["in_flight"]


def _middle(rounds: list[Figures]) -> Figures:
    """Return the medians of several rounds, field by field."""
    return {
        name: median([each[name] for each in rounds if name in each])
        for name in dict.fromkeys(name for each in rounds for name in each)
    }


def _next_lead_ns(cluster: Cluster, since_ns: int) -> int:
    """Return when the first of the nodes began to lead after a moment."""
    while True:
        for node in cluster.nodes.values():
            while not node.leads.empty():
                event = node.leads.get()
                if event["at_ns"] > since_ns:
                    return int(event["at_ns"])
        time.sleep(0.001)


def _until_applied(cluster: Cluster, node: str) -> Figures:
    """Wait until a node has applied what the leader had committed; return its state then."""
    commit = cluster.leader().state()["commit"]
    process = cluster.nodes[next(each for each in NODES if each == node)]
    while (found := process.state())["applied"] < commit:
        time.sleep(0.005)
    return found
