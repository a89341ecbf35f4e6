"""The pure core: what a request costs a replica and a leader, in time and in memory.

One thread, no loop, no disk, no network. `python -m benchmarks.bench_core
[--json FILE] [--quick]`.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
import tracemalloc
from pathlib import Path
from random import Random

from benchmarks.core import leader, replica
from benchmarks.machine import look
from coordinator.core.apply import apply
from coordinator.core.snapshot import Capture
from raftbatch import records as r
from raftbatch.codec import decode_entry, encode_entry

PAYLOAD_BYTES = 256


def bytes_per_waiting_request(requests: int) -> int:
    """Return what a waiting request takes beside its payload."""
    state = replica.begun()
    draw = Random(2)
    each = 32
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for at in range(requests // each):
        record = replica.admit(1 + at * each, each, PAYLOAD_BYTES, draw)
        data = encode_entry(r.Entry(1, 1000 + at, (record,)))
        del record
        apply(state, 3 + at, 1, decode_entry(data))
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return taken // requests - PAYLOAD_BYTES


def pauses(requests: int) -> dict[str, float]:
    """Return the longest times, in ms, of what may stop the loop with so much waiting."""
    state = replica.begun()
    draw = Random(3)
    each = 512
    index = 2
    for at in range(requests // each):
        index += 1
        record = replica.admit(1 + at * each, each, 200, draw)
        apply(state, index, 1, r.Entry(1, 1000 + at, (record,)))
    gc.freeze()
    found = {}
    before = time.process_time_ns()
    capture = Capture(state)
    found["capture_ms"] = _ms_since(before)
    slices = []
    applies = []
    chunks = capture.chunks()
    before = time.process_time_ns()
    for _ in chunks:
        slices.append(_ms_since(before))
        index += 1
        record = replica.admit(state.next_request, 32, 200, draw)
        before = time.process_time_ns()
        apply(state, index, 1, r.Entry(1, 9000, (record,)))
        applies.append(_ms_since(before))
        before = time.process_time_ns()
    capture.release()
    found["slice_ms_max"] = max(slices)
    found["apply_ms_max"] = max(applies)
    before = time.process_time_ns()
    gc.collect()
    found["gc_ms"] = _ms_since(before)
    gc.unfreeze()
    return found


def _ms_since(before_ns: int) -> float:
    return round((time.process_time_ns() - before_ns) / 1e6, 2)


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    arguments = parser.parse_args()
    scale = 10 if arguments.quick else 1
    gc.disable()
    costs = replica.measure(3000 // scale, PAYLOAD_BYTES)
    decide_us, batches = leader.measure(100_000 // scale, 1000 // scale, 256 // scale)
    few_us, _ = leader.measure(20_000 // scale, 200 // scale, 256 // scale)
    figures: dict[str, object] = {
        "replica_us_per_request": round(costs.decode + costs.apply, 2),
        "replica_us_per_request_p90": costs.p90,
        "replica_us_by_entry": costs.each,
        "encode_us_per_request": costs.encode,
        "decide_us_per_batch": decide_us,
        "decide_us_per_batch_with_a_fifth_waiting": few_us,
        "decided_batches": batches,
        "bytes_per_waiting_request": bytes_per_waiting_request(200_000 // scale),
        "pauses": pauses(1_000_000 // scale),
        "payload_bytes": PAYLOAD_BYTES,
        "batch_rows": replica.BATCH_ROWS,
        "machine": look(Path(), "none").facts(),
    }
    for name, value in figures.items():
        print(f"{name:42} {value}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
