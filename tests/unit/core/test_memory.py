"""No cycles for a collector to find, and bounded memory for what waits."""

from __future__ import annotations

import gc
import tracemalloc

from coordinator.core.snapshot import Capture
from tests.unit.core.drawing import Drawing
from tests.unit.core.tables import Core
from tests.unit.core.test_drawn_leading import Drawn

REQUEST_BYTES_MAX = 1024


def test_core_makes_no_garbage_cycles() -> None:
    drawing, drawn = Drawing(3), Drawn(3)
    drawing.step()
    drawn.step()
    gc.collect()
    gc.disable()
    try:
        for _ in range(100):
            drawing.step()
            drawn.step()
        capture = Capture(drawing.state)
        for _ in capture.chunks():
            pass
        capture.release()
        # Tracebacks of refused decodes apart, which there are none of here.
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found = [each for each in gc.garbage if "coordinator" in type(each).__module__]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not found


def test_waiting_request_takes_its_payload_and_little_more() -> None:
    core = Core()
    core.admit("warm")
    count, size = 20_000, 100
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for at in range(0, count, 500):
        ids = [f"request-{at + n:012d}" for n in range(500)]
        record = core.admission(*ids, size=size, timeout_ms=60_000)
        core.state.settle()
        _apply(core, record)
        del record, ids
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert taken // count <= size + REQUEST_BYTES_MAX


def _apply(core: Core, record: object) -> None:
    from coordinator.core.apply import apply
    from raftbatch.codec import decode_entry, encode_entry
    from raftbatch.records import Admit, Entry

    assert isinstance(record, Admit)
    data = encode_entry(Entry(1, 1000, (record,)))
    apply(core.state, core.state.index + 1, 1, decode_entry(data))
