"""Faults over real files: the n-th operation of a kind fails, and only as one would there."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.worlds.faulty import FaultyFiles
from chaos.worlds.hooks import Crash, Fault, Faults, Torn
from raftbatch.realworld import RealFiles


def faulty(*rules: Fault) -> FaultyFiles:
    """Return real files under rules."""
    return FaultyFiles(RealFiles(), Faults(*rules))


def test_faulty_fails_the_nth_of_a_kind_once(tmp_path: Path) -> None:
    files = faulty(Fault("write", 2, errno.ENOSPC), Fault("datasync", 3, errno.EIO))
    file = files.open(f"{tmp_path}/a", "create")
    file.write_at(0, [b"abcd"])
    with pytest.raises(OSError, match="injected") as caught:
        file.write_at(4, [b"ef", b"gh"])
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, f"{tmp_path}/a")
    assert file.read_at(0, 10) == b"abcdef"  # a part was written
    file.write_at(4, [b"efgh"])
    file.datasync()
    file.datasync()
    with pytest.raises(OSError, match="injected"):
        file.datasync()
    file.datasync()
    assert file.size() == 8
    file.close()


def test_faulty_may_go_on_failing_and_choose_paths(tmp_path: Path) -> None:
    files = faulty(Fault("create", 2, errno.EACCES, onwards=True, path="/a"))
    files.open(f"{tmp_path}/a1", "create").close()
    for _ in range(2):
        with pytest.raises(PermissionError):
            files.open(f"{tmp_path}/a2", "create")
    files.open(f"{tmp_path}/b", "create").close()
    assert files.list(str(tmp_path)) == ["a1", "b"]


@pytest.mark.parametrize(("death", "left"), [(Crash, b""), (Torn, b"ab")])
def test_faulty_dead_process_touches_nothing(
    tmp_path: Path, death: type[Crash], left: bytes
) -> None:
    files = faulty(Fault("any", 2, death))
    file = files.open(f"{tmp_path}/a", "create")
    with pytest.raises(death):
        file.write_at(0, [b"abcd"])
    with pytest.raises(Crash, match="dead"):
        files.remove(f"{tmp_path}/a")
    file.close()
    files.revive()
    assert (tmp_path / "a").read_bytes() == left


def test_faulty_may_fail_what_was_done(tmp_path: Path) -> None:
    files = FaultyFiles(RealFiles(), fault_after=Faults(Fault("rename", 1, errno.EIO)))
    files.open(f"{tmp_path}/a", "create").close()
    with pytest.raises(OSError, match="injected"):
        files.rename(f"{tmp_path}/a", f"{tmp_path}/b")
    assert files.list(str(tmp_path)) == ["b"]


def test_faulty_passes_every_operation_through_its_hook(tmp_path: Path) -> None:
    seen: list[str] = []
    files = FaultyFiles(RealFiles(), lambda operation, _: seen.append(operation))
    root = str(tmp_path)
    file = files.open(f"{root}/a", "create")
    lock = files.lock(f"{root}/lock")
    calls: list[Callable[[], object]] = [
        lambda: file.write_at(0, [b"x"]),
        lambda: file.read_at(0, 1),
        lambda: file.allocate(10),
        lambda: file.truncate(2),
        file.datasync,
        file.size,
        lambda: files.exists(root),
        lambda: files.list(root),
        lambda: files.make_directory(f"{root}/d"),
        lambda: files.rename(f"{root}/a", f"{root}/b"),
        lambda: files.remove(f"{root}/b"),
        lambda: files.sync_directory(root),
        lambda: files.space_left(root),
    ]
    for call in calls:
        call()
    file.close()
    lock.release()
    assert seen == [
        "create", "lock", "write", "read", "allocate", "truncate", "datasync", "size", "exists",
        "list", "make_directory", "rename", "remove", "sync_directory", "space_left",
    ]  # fmt: skip
    assert files.operations == len(seen) == len(files.trace)
