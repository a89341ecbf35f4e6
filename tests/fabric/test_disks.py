"""Disks do what it says that they do, and so do syncs and clocks that err: real ones."""

import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.worlds import mounts
from chaos.worlds.mounts import Disk, missing
from chaos.worlds.owners import Unable
from chaos.worlds.preloaded import Faults, Preload, compiler, make_library
from tests.tidy.tree import ROOT

_MISSING = missing()
needs_disks = [pytest.mark.root, pytest.mark.skipif(bool(_MISSING), reason=_MISSING)]
pytestmark = needs_disks

needs_library = [pytest.mark.skipif(compiler() is None, reason="no C compiler")]

SIZE_BYTES = 32 << 20
LIMIT_S = 60.0


@pytest.fixture
def ext4(tmp_path: Path) -> Iterator[Disk]:
    with Disk("loop", tmp_path / "disk", tmp_path / "images", "n1", SIZE_BYTES) as disk:
        yield disk


@pytest.fixture
def tmpfs(tmp_path: Path) -> Iterator[Disk]:
    with Disk("tmpfs", tmp_path / "disk", tmp_path / "images", "n1", SIZE_BYTES) as disk:
        yield disk


def _write(path: Path, is_synced: bool) -> None:
    with open(path, "wb") as file:
        file.write(b"written")
        file.flush()
        if is_synced:
            os.fsync(file.fileno())


def test_power_loss_keeps_what_was_synced_and_nothing_else(ext4: Disk) -> None:
    _write(ext4.path / "synced", is_synced=True)
    _write(ext4.path / "cached", is_synced=False)
    ext4.lose_power()
    with pytest.raises(OSError, match="Input/output error"):
        _write(ext4.path / "late", is_synced=True)
    ext4.renew()
    assert (ext4.path / "synced").read_bytes() == b"written"
    assert not (ext4.path / "cached").exists() or not (ext4.path / "cached").read_bytes()
    assert not (ext4.path / "late").exists()
    _write(ext4.path / "late", is_synced=True)


def test_renewal_waits_for_whoever_looks_at_the_disk(
    ext4: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(ext4.path / "synced", is_synced=True)
    look = os.open(ext4.path, os.O_RDONLY)
    plain, looking = mounts.run, [look]

    def run(*command: str, accepted: tuple[int, ...] = (0,)) -> None:
        try:
            plain(*command, accepted=accepted)
        except Unable:
            os.close(looking.pop())
            raise

    monkeypatch.setattr(mounts, "run", run)
    ext4.lose_power()
    ext4.renew()
    assert not looking
    assert (ext4.path / "synced").read_bytes() == b"written"


def test_renewal_waits_for_whoever_has_mounts_of_its_own(
    ext4: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the disk is mounted again as it was, without power: each read of it fails."""
    _write(ext4.path / "synced", is_synced=True)
    command = ["unshare", "--mount", "sh", "-c", "echo; exec sleep 3600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"\n"
        plain, seen = mounts._is_attached, []

        def is_attached(image: Path) -> bool:
            seen.append(plain(image))
            holder.kill()
            return seen[-1]

        monkeypatch.setattr(mounts, "_is_attached", is_attached)
        ext4.lose_power()
        ext4.renew()
    assert seen[0]
    assert not seen[-1]
    assert (ext4.path / "synced").read_bytes()


@pytest.mark.parametrize("kind", ["ext4", "tmpfs"])
def test_full_disk_takes_nothing_until_it_is_freed(
    kind: str, request: pytest.FixtureRequest
) -> None:
    disk: Disk = request.getfixturevalue(kind)
    disk.fill(leaving_bytes=8 << 20)
    _write(disk.path / "fits", is_synced=True)
    left = os.statvfs(disk.path)
    assert 7 << 20 < left.f_bfree * left.f_frsize < 9 << 20
    disk.fill()
    with pytest.raises(OSError, match="No space") as raised:
        (disk.path / "more").write_bytes(bytes(64 << 10))
    assert raised.value.errno == errno.ENOSPC
    disk.free()
    disk.free()
    (disk.path / "more").write_bytes(bytes(64 << 10))


def test_read_only_disk_refuses_whoever_has_it_open_and_is_renewed(ext4: Disk) -> None:
    with open(ext4.path / "open", "wb", buffering=0) as file:
        file.write(b"before")
        os.fsync(file.fileno())
        ext4.set_read_only()
        with pytest.raises(OSError, match="Read-only"):
            file.write(b"after")
    assert (ext4.path / "open").read_bytes() == b"before"
    ext4.renew()
    _write(ext4.path / "open", is_synced=True)


def test_closed_disk_is_gone(tmp_path: Path) -> None:
    with Disk("loop", tmp_path / "disk", tmp_path / "images", "n1", SIZE_BYTES) as disk:
        assert os.path.ismount(disk.path)
    disk.close()
    assert not os.path.ismount(disk.path)
    assert list((tmp_path / "images").iterdir()) == []


@pytest.fixture
def preload(tmp_path: Path) -> Iterator[Preload]:
    if compiler() is None:
        pytest.skip("no C compiler")
    library = make_library(tmp_path)
    assert library is not None
    preload = Preload(library, tmp_path / "faults")
    yield preload
    preload.close()


_SYNCS = """
import errno, os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
for number in range(4):
    try:
        (os.fsync if number % 2 else os.fdatasync)(file)
        print("done", flush=True)
    except OSError as error:
        print(errno.errorcode[error.errno], flush=True)
"""


def _run(preload: Preload, *command: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", *command],
        cwd=ROOT,
        env={**os.environ, **preload.environment()},
        stdout=subprocess.PIPE,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return done.returncode, done.stdout.split()


def test_syncs_fail_or_kill_after_those_that_are_left_alone(
    preload: Preload, tmp_path: Path
) -> None:
    file = str(tmp_path / "file")
    assert _run(preload, _SYNCS, file) == (0, ["done"] * 4)
    preload.tell(Faults(sync_errno=errno.EIO, sync_skip=2))
    assert _run(preload, _SYNCS, file) == (0, ["done", "done", "EIO", "EIO"])
    assert preload.told().sync_skip == -2
    preload.tell(Faults(sync_kills=1, sync_skip=1))
    assert _run(preload, _SYNCS, file) == (-9, ["done"])


def test_syncs_take_as_long_as_they_are_told(preload: Preload, tmp_path: Path) -> None:
    preload.tell(Faults(sync_delay_ns=100_000_000))
    begin = time.monotonic()
    assert _run(preload, _SYNCS, str(tmp_path / "file")) == (0, ["done"] * 4)
    assert time.monotonic() - begin >= 0.4


_WRITES = """
import errno, os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
for number in range(4):
    try:
        at = 2 * number
        os.pwritev(file, [b"a", b"b"], at) if number % 2 else os.pwrite(file, b"ab", at)
        print("done", flush=True)
    except OSError as error:
        print(errno.errorcode[error.errno], flush=True)
"""


@pytest.mark.parametrize("kind", ["EIO", "ENOSPC"])
def test_writes_fail_after_those_that_are_left_alone(
    preload: Preload, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "file"
    preload.tell(Faults(write_errno=getattr(errno, kind), write_skip=2))
    assert _run(preload, _WRITES, str(path)) == (0, ["done", "done", kind, kind])
    assert preload.told().write_skip == -2
    assert path.read_bytes() == b"abab"
    preload.tell(Faults())
    assert _run(preload, _WRITES, str(path)) == (0, ["done"] * 4)
    assert path.read_bytes() == b"ab" * 4


_CLOCKS = "import time; print(time.time(), time.monotonic())"


def test_wall_clock_jumps_and_drifts_and_the_other_does_not(preload: Preload) -> None:
    def seen() -> tuple[float, float]:
        """Return how far both clocks are ahead; the process itself takes part of a minute."""
        _, [wall, monotonic] = _run(preload, _CLOCKS)
        return float(wall) - time.time(), float(monotonic) - time.monotonic()

    for hours in (-1, 24):
        preload.tell(Faults(clock_ahead_ns=hours * 3_600_000_000_000))
        wall_s, monotonic_s = seen()
        assert abs(wall_s - hours * 3_600) < LIMIT_S
        assert abs(monotonic_s) < LIMIT_S
    an_hour_ago_ns = time.time_ns() - 3_600_000_000_000
    preload.tell(Faults(clock_from_ns=an_hour_ago_ns, clock_ppm=1_000_000))
    assert abs(seen()[0] - 3_600) < LIMIT_S
    preload.tell(Faults(clock_from_ns=an_hour_ago_ns, clock_ppm=-500_000))
    assert abs(seen()[0] + 1_800) < LIMIT_S
