"""What dies is started again, after a pause that grows while it keeps dying."""

from __future__ import annotations

from raftbatch.errors import CannotStart
from raftbatch.local.supervisor import PAUSE_S_MAX, STEADY_S, Died, Restarted, Supervisor


class Processes:
    """Processes that die when they are told to."""

    nodes = ("n1",)
    executors = ("x1",)

    def __init__(self) -> None:
        self.dead: dict[str, str] = {}
        self.refuses = False

    def ending(self, name: str) -> str:
        return self.dead.get(name, "")

    def restart(self, name: str) -> None:
        if self.refuses:
            raise CannotStart("no more processes")
        del self.dead[name]


class Clock:
    """Time that a test moves."""

    now_s = 1000.0

    def monotonic_ns(self) -> int:
        return int(self.now_s * 1e9)

    def wall_ms(self) -> int:
        raise NotImplementedError


def test_supervisor_starts_again_what_has_died() -> None:
    processes, clock = Processes(), Clock()
    supervisor = Supervisor(processes, clock)
    assert supervisor.look() == []
    processes.dead["n1"] = "killed"
    assert supervisor.look() == [Died("n1", "killed", 1.0)]
    clock.now_s += 0.9
    assert supervisor.look() == []
    clock.now_s += 0.1
    assert supervisor.look() == [Restarted("n1")]
    assert processes.dead == {}
    assert supervisor.look() == []


def test_supervisor_pauses_longer_while_one_keeps_dying_and_forgets_it() -> None:
    processes, clock = Processes(), Clock()
    supervisor = Supervisor(processes, clock)
    pauses = []
    for _ in range(8):
        processes.dead["x1"] = "it is broken"
        [died] = supervisor.look()
        assert isinstance(died, Died)
        pauses.append(died.pause_s)
        clock.now_s += died.pause_s
        assert supervisor.look() == [Restarted("x1")]
    assert pauses == [1, 2, 4, 8, 16, PAUSE_S_MAX, PAUSE_S_MAX, PAUSE_S_MAX]
    clock.now_s += STEADY_S
    processes.dead["x1"] = "again"
    assert supervisor.look() == [Died("x1", "again", 1.0)]


def test_supervisor_tries_again_what_cannot_be_started() -> None:
    processes, clock = Processes(), Clock()
    supervisor = Supervisor(processes, clock)
    processes.dead["n1"], processes.refuses = "killed", True
    supervisor.look()
    clock.now_s += 1.0
    assert supervisor.look() == [Died("n1", "no more processes", 2.0)]
    processes.refuses = False
    clock.now_s += 2.0
    assert supervisor.look() == [Restarted("n1")]
