"""The real files, locks and clocks, over a real kernel."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from raftbatch.realworld import GivenFiles, RealFiles, RealWorld
from raftbatch.world import World

FILES = RealFiles()


def test_real_world_is_a_world() -> None:
    world: World = RealWorld()
    before = world.clock.monotonic_ns()
    assert before <= world.clock.monotonic_ns()
    assert world.clock.wall_ms() > 1_700_000_000_000
    draws = {world.entropy.random_bytes(16) for _ in range(10)}
    assert {len(draw) for draw in draws} == {16}
    assert len(draws) == 10


def test_open_modes_tell_what_is_there(tmp_path: Path) -> None:
    path = f"{tmp_path}/a"
    for mode in ("read", "write"):
        with pytest.raises(FileNotFoundError):
            FILES.open(path, mode)
    file = FILES.open(path, "create")
    with pytest.raises(FileExistsError):
        FILES.open(path, "create")
    file.write_at(0, [b"abc"])
    reader = FILES.open(path, "read")
    assert reader.read_at(1, 100) == b"bc"
    assert reader.read_at(3, 1) == b""
    with pytest.raises(OSError, match="Bad file descriptor"):
        reader.write_at(0, [b"x"])
    for opened in (file, reader):
        opened.close()
        opened.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        reader.read_at(0, 1)
    assert os.stat(path).st_mode & 0o777 & 0o137 == 0  # nothing for others


def test_uncache_changes_nothing_and_never_fails(tmp_path: Path) -> None:
    path = f"{tmp_path}/a"
    file, data = FILES.open(path, "create"), bytes(range(256)) * 64
    file.write_at(0, [data])
    file.uncache(0, 4096)  # not synced yet: it stays
    file.datasync()
    file.uncache(100, 10_000)
    file.uncache(1 << 40, 1)
    assert file.read_at(0, 1 << 20) == data
    file.close()
    file.uncache(0, 4096)


@pytest.mark.parametrize("to", ["file", "nothing"])
def test_open_and_lock_follow_no_symbolic_link(tmp_path: Path, to: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / to)
    path = f"{tmp_path}/link"
    for mode in ("read", "write"):
        with pytest.raises(OSError, match="symbolic link") as caught:
            FILES.open(path, mode)
        assert caught.value.errno == errno.ELOOP
    with pytest.raises(FileExistsError):
        FILES.open(path, "create")
    with pytest.raises(OSError, match="symbolic link"):
        FILES.lock(path)
    assert FILES.exists(path)
    FILES.remove(path)
    assert FILES.list(str(tmp_path)) == ["file"]


def test_files_that_an_operator_names_may_be_links(tmp_path: Path) -> None:
    """As where a folder of them is mounted: each is a link into the one that counts now."""
    (tmp_path / "now").mkdir()
    (tmp_path / "now" / "file").write_bytes(b"abc")
    (tmp_path / "file").symlink_to("now/file")
    (tmp_path / "null").symlink_to("/dev/null")
    file = GivenFiles().open(f"{tmp_path}/file", "read")
    assert file.read_at(0, 9) == b"abc"
    file.close()
    with pytest.raises(OSError, match="not a regular file"):
        GivenFiles().open(f"{tmp_path}/null", "read")


@pytest.mark.parametrize("kind", ["fifo", "directory", "device"])
def test_open_takes_regular_files_alone(tmp_path: Path, kind: str) -> None:
    path = "/dev/null"
    if kind != "device":
        path = f"{tmp_path}/{kind}"
        (os.mkfifo if kind == "fifo" else os.mkdir)(path)
    before = len(os.listdir("/dev/fd"))
    for mode in ("read", "write"):
        with pytest.raises(OSError, match=r"not a regular file|Is a directory") as caught:
            FILES.open(path, mode)
        assert caught.value.filename == path
    assert len(os.listdir("/dev/fd")) <= before


def test_write_takes_more_buffers_than_one_call_does(tmp_path: Path) -> None:
    parts = [bytes([number % 251]) * (number % 7) for number in range(2500)]
    file = FILES.open(f"{tmp_path}/a", "create")
    file.write_at(3, [bytearray(part) if len(part) % 2 else memoryview(part) for part in parts])
    file.close()
    assert (tmp_path / "a").read_bytes() == bytes(3) + b"".join(parts)


def test_write_and_read_go_on_after_short_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite, pread = os.pwrite, os.pread

    def short_pwritev(descriptor: int, buffers: list[bytes], offset: int) -> int:
        return pwrite(descriptor, b"".join(buffers)[:5], offset)

    monkeypatch.setattr(os, "pwritev", short_pwritev)
    monkeypatch.setattr(os, "pwrite", lambda file, data, offset: pwrite(file, data[:2], offset))
    monkeypatch.setattr(os, "pread", lambda file, length, at: pread(file, min(length, 3), at))
    file = FILES.open(f"{tmp_path}/a", "create")
    file.write_at(1, [b"abc", b"", b"defg", b"hij"])
    assert file.read_at(0, 100) == b"\0abcdefghij"
    assert file.read_at(1, 4) == b"abcd"
    file.close()


def test_write_that_fails_midway_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite

    def short_pwritev(descriptor: int, buffers: list[bytes], offset: int) -> int:
        return pwrite(descriptor, b"".join(buffers)[:2], offset)

    def full(descriptor: int, data: bytes, offset: int) -> NoReturn:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "pwritev", short_pwritev)
    monkeypatch.setattr(os, "pwrite", full)
    file = FILES.open(f"{tmp_path}/a", "create")
    with pytest.raises(OSError, match="full"):
        file.write_at(0, [b"abcd"])
    assert file.read_at(0, 10) == b"ab"
    file.close()


@pytest.mark.parametrize("reserving", ["works", "unsupported", "missing"])
def test_allocate_extends_with_zeros_and_never_cuts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reserving: str
) -> None:
    def unsupported(descriptor: int, offset: int, length: int) -> NoReturn:
        raise OSError(errno.EOPNOTSUPP, "unsupported")

    if reserving == "unsupported":
        monkeypatch.setattr(os, "posix_fallocate", unsupported)
    elif reserving == "missing":
        monkeypatch.delattr(os, "posix_fallocate")
    file = FILES.open(f"{tmp_path}/a", "create")
    file.write_at(0, [b"abc"])
    length = (2 << 20) + 5
    file.allocate(length)
    file.datasync()
    assert file.size() == length
    assert file.read_at(0, length) == b"abc" + bytes(length - 3)
    assert os.stat(tmp_path / "a").st_blocks * 512 >= length
    file.allocate(10)
    assert file.size() == length
    file.truncate(2)
    assert file.read_at(0, 10) == b"ab"
    file.close()


def test_allocate_hands_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, offset: int, length: int) -> NoReturn:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "posix_fallocate", full)
    file = FILES.open(f"{tmp_path}/a", "create")
    with pytest.raises(OSError, match="full"):
        file.allocate(1)
    file.close()


def test_names_change_and_are_listed_sorted(tmp_path: Path) -> None:
    root = str(tmp_path)
    for name in ("c", "a", "b"):
        FILES.open(f"{root}/{name}", "create").close()
    FILES.rename(f"{root}/a", f"{root}/c")
    FILES.sync_directory(root)
    assert FILES.list(root) == ["b", "c"]
    assert not FILES.exists(f"{root}/a")
    assert FILES.space_left(root) > 0
    with pytest.raises(NotADirectoryError):
        FILES.sync_directory(f"{root}/b")


def test_make_directory_syncs_each_into_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(RealFiles, "sync_directory", lambda self, path: synced.append(path))
    root = str(tmp_path)
    FILES.make_directory(f"{root}/a/b")
    assert synced == [str(tmp_path.parent), root, f"{root}/a"]
    # It is there, but the process that made it may have died before it was synced.
    FILES.make_directory(f"{root}/a/b")
    assert synced[3:] == [f"{root}/a"]
    (tmp_path / "file").touch()
    for path in ("file", "file/a"):
        with pytest.raises(FileExistsError):
            FILES.make_directory(f"{root}/{path}")


HOLDER = """
import sys
from raftbatch.realworld import RealFiles
lock = RealFiles().lock(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def test_lock_of_another_process_names_its_pid_and_dies_with_it(tmp_path: Path) -> None:
    path = f"{tmp_path}/lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, path],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(BlockingIOError, match=f"pid {holder.pid}") as caught:
            FILES.lock(path)
        assert caught.value.filename == path
        holder.kill()
    lock = FILES.lock(path)
    assert Path(path).read_text(encoding="ascii") == f"{os.getpid():<10}\n"
    with pytest.raises(BlockingIOError, match=f"pid {os.getpid()}"):
        FILES.lock(path)
    lock.release()
    lock.release()
    FILES.lock(path).release()


def test_lock_needs_no_room_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: bytes, offset: int) -> NoReturn:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        FILES.lock(f"{tmp_path}/lock").release()


def test_lock_that_cannot_write_its_pid_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, data: bytes, offset: int) -> NoReturn:
        raise OSError(errno.EIO, "full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(OSError, match="full"):
            FILES.lock(f"{tmp_path}/lock")
    FILES.lock(f"{tmp_path}/lock").release()
