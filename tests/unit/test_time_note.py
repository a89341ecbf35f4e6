"""Log time over a restart of the process: what is noted, and what is made of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaos.worlds.loop import VirtualLoop
from chaos.worlds.sim import Machine, SimNode
from coordinator.log_clock import LogClock
from coordinator.raft.segments.layout import Entry
from coordinator.replica import Replica
from coordinator.time_note import NAME, NOTE_S, TimeNotes, decode, encode
from raftbatch import records as r
from raftbatch.codec import encode_entry

DIRECTORY = "/data"


class Bench:
    """A machine, and a process with a log clock on it."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.machine = Machine(loop, 1, "n1", lambda node, why, power: None)
        self.start()

    def start(self) -> None:
        """Begin a process."""
        self.world: SimNode = self.machine.boot()
        self.world.call(self._boot)

    def _boot(self) -> None:
        self.world.files.make_directory(DIRECTORY)
        self.replica = Replica()
        self.log_clock = LogClock(self.world.clock, self.replica)
        self.replica.listeners.append(self.log_clock)
        self.notes = TimeNotes(
            self.world.files,
            self.world.workers.start("time"),
            self.world.clock,
            DIRECTORY,
            self.log_clock,
        )
        self.notes.resume(1)
        self.notes.start()

    def apply(self, at_ms: int) -> None:
        """Apply the first entry, at a log time."""
        data = encode_entry(r.Entry(1, at_ms, (r.Lead("n", 0, 1),)))
        self.world.call(self.replica.apply, Entry(1, 1, data))

    def now_ms(self) -> int:
        """Return log time."""
        found = self.world.call(self.log_clock.now_ms)
        assert found is not None
        return found


@pytest.fixture
def bench() -> Iterator[Bench]:
    with VirtualLoop() as loop:
        yield Bench(loop)


def test_log_time_goes_on_while_the_process_was_not_there(bench: Bench) -> None:
    bench.apply(1_000_000)
    bench.loop.run_for(2.5 * NOTE_S)
    before_ms = bench.now_ms()
    bench.machine.kill(power=False)
    bench.loop.run_for(100.0)
    bench.start()
    bench.apply(1_000_000)
    # Wall clocks need not be exact: the simulated one drifts, as real ones do.
    assert bench.now_ms() - before_ms == pytest.approx(100_000, abs=2_000)


def test_note_that_is_torn_is_passed_over_for_the_one_before(bench: Bench) -> None:
    bench.apply(1_000_000)
    bench.loop.run_for(2.5 * NOTE_S)
    before_ms = bench.now_ms()

    def spoil() -> None:
        file = bench.world.files.open(f"{DIRECTORY}/{NAME}", "write")
        newest = max(range(2), key=lambda slot: file.read_at(slot * 512, 24))
        file.write_at(newest * 512 + 5, [b"\xff\xff"])
        file.close()

    bench.world.call(spoil)
    bench.machine.kill(power=False)
    bench.loop.run_for(50.0)
    bench.start()
    bench.apply(1_000_000)
    assert bench.now_ms() - before_ms == pytest.approx(50_000, abs=2_000)


def test_process_that_has_not_applied_its_log_again_notes_nothing(bench: Bench) -> None:
    bench.apply(1_000_000)
    bench.loop.run_for(1.5 * NOTE_S)
    bench.machine.kill(power=False)
    bench.machine.wall.jump(-3_000_000)  # so that there is no gap to count
    bench.start()
    bench.loop.run_for(3 * NOTE_S)

    def read() -> list[bytes]:
        file = bench.world.files.open(f"{DIRECTORY}/{NAME}", "read")
        return [file.read_at(slot * 512, 24) for slot in range(2)]

    slots = bench.world.call(read)
    assert slots is not None
    found = [note for each in slots if (note := decode(each)) is not None]
    assert all(log_ms >= 1_000_000 for _, log_ms in found)


def test_disk_that_fails_is_no_reason_to_stop(bench: Bench) -> None:
    def refuse(operation: str, path: str) -> None:
        if path.endswith(NAME):
            raise OSError(5, "no")

    bench.machine.arm(refuse)
    bench.apply(1_000_000)
    bench.loop.run_for(3 * NOTE_S)
    bench.machine.kill(power=False)
    bench.start()
    bench.apply(1_000_000)
    assert bench.now_ms() == 1_000_000
    bench.world.call(bench.notes.close)
    bench.loop.run_for(3 * NOTE_S)


def test_bytes_of_no_note_are_none() -> None:
    whole = encode(1_700_000_000_000, 5)
    assert decode(whole) == (1_700_000_000_000, 5)
    for place in range(len(whole)):
        spoilt = bytearray(whole)
        spoilt[place] ^= 1
        assert decode(bytes(spoilt)) is None
        assert decode(whole[:place]) is None
