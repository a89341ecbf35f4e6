"""A real child process: it answers, dies when it is killed, and does not outlive its parent."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import pytest

from executor.children import Child, RealChildren
from executor.core.values import Answer, DeviceMemory, Outcome
from executor.frames import (
    Batch,
    Broken,
    Failed,
    Load,
    Ran,
    Up,
    Warm,
    Warmed,
    decode,
    encode,
    heard,
)
from raftbatch import tensors
from tests.tidy.tree import ROOT

LOAD = Load(
    "echo", "1", "", "executor.examples.echo", "Echo", (), (), True, 0, 1, "", {"a": [1, "b"]}
)
LIMIT_S = 30.0


def run(main: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(LIMIT_S):
            await main

    asyncio.run(bounded())


def payload(text: bytes) -> bytes:
    """Return an envelope of one text."""
    data = tensors.join_elements([text])
    return tensors.encode([tensors.Tensor("text", "BYTES", (1, 1), data)])


async def started(load: Load = LOAD) -> Child:
    """Return a child that is up."""
    child = await RealChildren().start(load)
    assert isinstance(await child.receive(), Up)
    return child


def test_child_runs_batches_and_is_killed() -> None:
    async def main() -> None:
        child = await started()
        large = payload(b"x" * 3_000_000)
        child.send(Batch(1, (large, b"bad"), (1, 1), (b"", b"")))
        found = await child.receive()
        assert isinstance(found, Ran)
        assert found.run == 1
        assert found.outcome.answers[0].result == large
        assert found.outcome.answers[1].code == "invalid_input"
        assert found.outcome.infer_ns > 0
        child.send(Warm(2))
        assert await child.receive() == Warmed(2)
        child.kill()
        assert await child.receive() is None
        assert (await child.dead()).startswith("it was ended by SIGKILL")
        child.kill()
        child.send(Warm(3))

    run(main())


def until_gone(pid: int) -> None:
    """Wait until a process is dead, reaped or not."""
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text("ascii")
        except (FileNotFoundError, ProcessLookupError):
            return
        if stat.rpartition(")")[2].split()[0] in ("Z", "X"):
            return
    raise AssertionError(f"{pid} lives")


FORKS = """
import os, time
from executor.model import Tensor

class Forks:
    inputs = outputs = [Tensor("text", "BYTES", (1,))]

    def load(self, context):
        pass

    def predict(self, batch):
        for name in ("own", "away"):
            other = os.fork()
            if other == 0:
                if name == "away":
                    os.setsid()
                open(f"{__file__}.{name}", "w").write(str(os.getpid()))
                time.sleep(60)
                os._exit(0)
        while not all(os.path.exists(f"{__file__}.{name}") for name in ("own", "away")):
            time.sleep(0.01)
        os._exit(7)
"""


def test_death_of_a_child_is_seen_and_what_it_forked_is_killed_unless_it_went_away(
    tmp_path: Path,
) -> None:
    file = tmp_path / "forks.py"
    file.write_text(FORKS, encoding="utf-8")

    async def main() -> None:
        child = await started(replace(LOAD, file=str(file), module="", class_name="Forks"))
        child.send(Batch(1, (payload(b"x"),), (1,), (b"",)))
        assert await child.receive() is None
        assert await child.dead() == "it exited with status 7"

    run(main())
    own, away = (int(Path(f"{file}.{name}").read_text("utf-8")) for name in ("own", "away"))
    os.kill(away, signal.SIGKILL)  # it was still there
    until_gone(own)


ODD = """
import os, signal, stat, time
from contextlib import suppress
import msgpack
from executor.model import Tensor

def frame(values):
    body = msgpack.packb(values)
    return len(body).to_bytes(4, "little") + body

def write(data=bytes([2, 0, 0, 0]) + b"no"):
    for number in range(3, 64):
        with suppress(OSError):
            if stat.S_ISFIFO(os.fstat(number).st_mode):
                os.write(number, data)

class Odd:
    inputs = outputs = [Tensor("text", "BYTES", (1,))]

    def load(self, context):
        pass

    def predict(self, batch):
        {body}
"""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("import ctypes; ctypes.string_at(0)", "it was ended by SIGSEGV"),
        ("os.abort()", "it was ended by SIGABRT"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "as the kernel does where memory runs out"),
        ("os.kill(os.getpid(), signal.SIGRTMIN + 3)", f"ended by signal {signal.SIGRTMIN + 3}"),
        ("os._exit(0)", "it exited with status 0"),
        ("os.closerange(3, 64)", "it closed file descriptors that are not its own"),
        ("os.kill(0, signal.SIGKILL)", "it was ended by SIGKILL"),
        (
            "write(); time.sleep(60)",
            "it wrote into the pipe to its executor: ",
        ),
        (
            "write(frame(['Ran', 1, [['text', '', '']], None, 1, 2, 3, [1], b''])); time.sleep(60)",
            "it wrote into the pipe to its executor: ValueError: 'text' is not up to",
        ),
    ],
)
def test_however_a_child_ends_it_is_said(tmp_path: Path, body: str, said: str) -> None:
    file = tmp_path / "odd.py"
    file.write_text(ODD.replace("{body}", body), encoding="utf-8")

    async def main() -> None:
        child = await started(replace(LOAD, file=str(file), module="", class_name="Odd"))
        child.send(Batch(1, (payload(b"x"),), (1,), (b"",)))
        assert await child.receive() is None
        assert said in await child.dead()

    run(main())


HUNGRY = """
from executor.model import Tensor

class Hungry:
    inputs = outputs = [Tensor("text", "BYTES", (1,))]

    def load(self, context):
        self.score = open("/proc/self/oom_score_adj").read().strip()

    def predict(self, batch):
        if batch.inputs["text"] == ["score"]:
            return {"text": [self.score]}
        held = []
        try:
            while True:
                held.append(bytearray(1 << 20))
        except MemoryError:
            if batch.inputs["text"] != ["hoard"]:
                raise
        self.held = held[:-4]
        return {"text": ["hoarded"]}
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
def test_endless_allocation_fails_its_batch_where_memory_is_bounded(tmp_path: Path) -> None:
    file = tmp_path / "hungry.py"
    file.write_text(HUNGRY, encoding="utf-8")

    async def main() -> None:
        child = await started(
            replace(
                LOAD, file=str(file), module="", class_name="Hungry", memory_bytes_max=512 << 20
            )
        )
        child.send(Batch(1, (payload(b"x"),), (1,), (b"",)))
        failed = await child.receive()
        assert isinstance(failed, Failed)
        assert (failed.code, failed.is_lasting) == ("out_of_memory", True)
        child.send(Batch(2, (payload(b"score"),), (1,), (b"",)))
        found = await child.receive()
        assert isinstance(found, Ran), "what it held is free again"
        assert found.outcome.answers[0].result == payload(b"500"), "it goes before its executor"
        child.send(Batch(3, (payload(b"hoard"),), (1,), (b"",)))
        assert isinstance(await child.receive(), Ran)
        child.send(Batch(4, (payload(b"x" * 20_000_000),), (1,), (b"",)))
        assert await child.receive() is None, "it has no room for what it is told"
        assert await child.dead() == "it exited with status 1"

    run(main())


def test_child_that_cannot_load_says_why_and_ends(tmp_path: Path) -> None:
    async def main() -> None:
        load = Load("m", "1", str(tmp_path / "m.py"), "", "M", (), (), True, 0, 1, "", {})
        child = await RealChildren().start(load)
        assert await child.receive() == Broken(f"m: there is no {tmp_path}/m.py")
        assert await child.receive() is None
        assert await child.dead() == "it exited with status 0"

    run(main())


_PARENT = """
import asyncio, os, sys
from executor.frames import Batch, Load
from tests.unit.test_executor_child import payload, started

async def main():
    file, how = sys.argv[1:]
    await started(load := Load("m", "1", file, "", "Hang", (), (), True, 0, 1, "", {}))
    child = await started(load)
    if how == "busy":
        child.send(Batch(1, (payload(b"x"),), (1,), (b"",)))
        while not os.path.exists(file + ".runs"):
            await asyncio.sleep(0.01)
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""

_HANG = """
import ctypes
from executor.model import Tensor

class Hang:
    inputs = outputs = [Tensor("text", "BYTES", (1,))]

    def load(self, context):
        pass

    def predict(self, batch):
        open(__file__ + ".runs", "w").close()
        ctypes.PyDLL(None).sleep(1000)  # no other thread runs meanwhile
"""


@pytest.mark.parametrize("how", ["idle", "busy"])
def test_child_dies_with_its_parent(tmp_path: Path, how: str) -> None:
    file = tmp_path / "hang.py"
    file.write_text(_HANG, encoding="utf-8")
    command = [sys.executable, "-c", _PARENT, str(file), how]
    # Its children have its standard error, too: our pipe ends once all of them are dead.
    done = subprocess.run(command, cwd=ROOT, timeout=LIMIT_S, stderr=subprocess.PIPE, check=False)
    assert done.returncode == -9, done.stderr


@pytest.mark.parametrize(
    "frame",
    [
        LOAD,
        Batch(3, (b"a", b""), (1, 2), (b"", b"p"), "x:FP32[2]"),
        Warm(1),
        Up("cpu", "numpy"),
        Broken("no"),
        Failed(4, "code", "message"),
        Warmed(5),
    ],
)
def test_frames_are_read_as_they_were_written(frame: Any) -> None:
    data = encode(frame)
    assert int.from_bytes(data[:4], "little") == len(data) - 4
    found = decode(data[4:])
    assert type(found) is type(frame)
    assert encode(found) == data


def test_memory_of_a_device_travels_with_the_run() -> None:
    outcome = Outcome((Answer(b"x"),), 1, 2, 3, (4,), b"f", DeviceMemory("cuda:1", 5, 6))
    for each in (outcome, replace(outcome, memory=None)):
        assert heard(encode(Ran(7, each))[4:]) == Ran(7, each)


def ran(place: int, value: object) -> tuple[object, ...]:
    """Return what is said of a run, one value of it replaced."""
    answer = ((b"", "", ""),)
    good = ("Ran", 7, answer, ("cpu", 1, 2), 1, 2, 3, (4,), b"f")
    return (*good[:place], value, *good[place + 1 :])


@pytest.mark.parametrize(
    "frame",
    [
        ran(1, "7"),
        ran(1, True),
        ran(1, -1),
        ran(1, 1 << 63),
        ran(2, (("text", "", ""),)),
        ran(2, ((b"", b"", ""),)),
        ran(2, ((b"", "c" * 257, ""),)),
        ran(2, ((b"", "a\0", ""),)),
        ran(2, ((b"", "", None),)),
        ran(2, ((b"", "", "x" * 65_537),)),
        ran(2, ((b"",),)),
        ran(2, (b"",)),
        ran(2, b""),
        ran(2, None),
        ran(3, ("cpu", -1, 2)),
        ran(3, ("cpu", 1, 1 << 63)),
        ran(3, (b"cpu", 1, 2)),
        ran(3, ()),
        ran(4, 1.0),
        ran(5, -1),
        ran(6, None),
        ran(7, (-1,)),
        ran(7, 4),
        ran(7, (1,) * 5000),
        ran(8, "f"),
        ran(8, bytes(65)),
        ran(8, b"f")[:-1],
        (*ran(8, b"f"), 1),
        ("Failed", 1, "code", "message", 1),
        ("Failed", 1, b"code", "message", True),
        ("Failed", 1, "code", 2, True),
        ("Failed", "1", "code", "message", True),
        ("Warmed",),
        ("Warmed", None),
        ("Up", "cpu", b""),
        ("Up", 1, 2),
        ("Broken", None),
        ("Warm", 1),
        ("Batch", 1, (), (), (), ""),
        (["Ran"],),
        (None,),
        (),
        5,
        {},
    ],
)
def test_false_frame_of_a_child_is_refused(frame: Any) -> None:
    assert isinstance(heard(msgpack.packb(ran(1, 7))), Ran)
    with pytest.raises(ValueError, match=r"\w"):
        heard(msgpack.packb(frame))


def test_what_is_no_frame_at_all_is_refused() -> None:
    for data in (b"", b"\xc1", b"\x91" * 5000, msgpack.packb(["Warmed", 1]) + b"x"):
        with pytest.raises(ValueError, match=r"\w"):
            heard(data)
