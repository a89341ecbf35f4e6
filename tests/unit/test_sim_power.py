"""What the simulated disk keeps and loses when the power goes, mode by mode."""

import errno
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.worlds.content import SECTOR_BYTES
from chaos.worlds.disk import Fault, Faults, PowerLoss, SimDisk
from tests.unit.test_sim_disk import make

MODES: list[PowerLoss | None] = ["none", "all", "prefix", "scatter", None]
SEEDS = range(200)  # enough that each outcome of a few bits is met


def outcomes(work: Callable[[SimDisk], object], mode: PowerLoss | None) -> set[bytes | None]:
    """Return what `/a` may hold after `work` on an empty synced `/a` and a loss of power."""
    found: set[bytes | None] = set()
    for seed in SEEDS:
        disk = make("/a", seed=seed)
        work(disk)
        disk.crash(power=True, mode=mode)
        found.add(disk.read("/a") if disk.exists("/a") else None)
    return found


def write(disk: SimDisk, offset: int, data: bytes, *, sync: bool = False) -> None:
    """Write into `/a`."""
    file = disk.open("/a", "write")
    file.write_at(offset, [data])
    if sync:
        file.datasync()


@pytest.mark.parametrize("mode", MODES)
def test_power_loss_keeps_what_was_synced(mode: PowerLoss | None) -> None:
    def work(disk: SimDisk) -> None:
        write(disk, 0, b"x" * 2000)
        disk.open("/a", "read").datasync()  # any descriptor will do
        disk.open("/a", "write").allocate(5000)

    kept = outcomes(work, mode)
    assert all(data and data.rstrip(b"\0") == b"x" * 2000 for data in kept)


def test_power_loss_none_keeps_no_more_than_that() -> None:
    def work(disk: SimDisk) -> None:
        write(disk, 0, b"x" * 600, sync=True)
        write(disk, 0, b"y")
        write(disk, 600, b"z")
        disk.open("/a", "write").truncate(7)
        disk.remove("/a")
        disk.open("/b", "create")

    assert outcomes(work, "none") == {b"x" * 600}


def test_power_loss_all_and_a_kill_keep_everything() -> None:
    for power in (False, True):
        disk = make("/a", "/gone")
        write(disk, 0, b"x" * 600)
        disk.remove("/gone")
        disk.rename("/a", "/b")
        disk.crash(power, "all")
        assert (disk.list("/"), disk.read("/b")) == (["b"], b"x" * 600)


def test_power_loss_prefix_tears_an_append_at_a_sector() -> None:
    data = bytes(range(256)) * 8
    expected = {data[:length] for length in (0, 412, 924, 1436, 1948, 2048)}

    def work(disk: SimDisk) -> None:
        write(disk, 0, b"x" * 100, sync=True)
        write(disk, 100, data)

    assert outcomes(work, "prefix") == {b"x" * 100 + part for part in expected}


def test_power_loss_prefix_keeps_the_order_across_files() -> None:
    seen = set()
    for seed in SEEDS:
        disk = make("/a", "/b", seed=seed)
        for number in range(4):
            for name in ("/a", "/b"):
                disk.open(name, "write").write_at(number, [b"x"])
        disk.crash(power=True, mode="prefix")
        lengths = (len(disk.read("/a")), len(disk.read("/b")))
        assert lengths[0] - lengths[1] in (0, 1)
        seen.add(lengths)
    assert len(seen) == 9


def test_power_loss_scatter_leaves_holes_and_old_versions() -> None:
    def work(disk: SimDisk) -> None:
        write(disk, 0, b"0" * 1024, sync=True)
        write(disk, 0, b"1" * 1024)
        write(disk, 0, b"2" * 1024)

    kinds = {(data[:1] + data[512:513]) for data in outcomes(work, "scatter") if data}
    assert kinds == {bytes([a, b]) for a in b"012" for b in b"012"}


def test_power_loss_scatter_may_keep_content_without_length_and_length_without_content() -> None:
    kept = outcomes(lambda disk: write(disk, 0, b"x" * 700), "scatter")
    assert {b"", b"x" * 700, b"x" * 512, bytes(700), bytes(512) + b"x" * 188} <= kept


@pytest.mark.parametrize("mode", MODES)
def test_power_loss_never_tears_a_sector(mode: PowerLoss | None) -> None:
    def work(disk: SimDisk) -> None:
        write(disk, 0, b"0" * 2048, sync=True)
        write(disk, 0, b"1" * 2048)

    for data in outcomes(work, mode):
        assert data is not None
        sectors = [data[at : at + SECTOR_BYTES] for at in range(0, 2048, SECTOR_BYTES)]
        assert all(len(set(sector)) == 1 for sector in sectors)


def test_power_loss_may_undo_a_cut_but_growth_never_shows_what_was_cut() -> None:
    def work(disk: SimDisk) -> None:
        write(disk, 0, b"x" * 700, sync=True)
        file = disk.open("/a", "write")
        file.truncate(10)
        file.truncate(700)

    assert outcomes(work, "prefix") == {b"x" * 700, b"x" * 10, b"x" * 10 + bytes(690)}
    assert outcomes(work, "all") == {b"x" * 10 + bytes(690)}


def test_power_loss_takes_a_synced_file_whose_name_was_not() -> None:
    def work(disk: SimDisk) -> None:
        disk.remove("/a")
        disk.sync_directory("/")
        file = disk.open("/a", "create")
        file.write_at(0, [b"x"])
        file.datasync()

    assert outcomes(work, "none") == {None}
    assert outcomes(work, "scatter") == {None, b"x"}


def test_power_loss_after_a_rename_without_sync_may_empty_the_file() -> None:
    def replace(disk: SimDisk, sync: bool, sync_directory: bool) -> None:
        write(disk, 0, b"old", sync=True)
        file = disk.open("/new", "create")
        file.write_at(0, [b"n" * 600])
        if sync:
            file.datasync()
        disk.rename("/new", "/a")
        if sync_directory:
            disk.sync_directory("/")

    new = b"n" * 600
    bad = {b"", b"n" * 512, bytes(600), bytes(512) + b"n" * 88}
    assert bad | {b"old", new} <= outcomes(lambda disk: replace(disk, False, False), "scatter")
    for mode in MODES:
        assert outcomes(lambda disk: replace(disk, True, False), mode) <= {b"old", new}
        assert outcomes(lambda disk: replace(disk, True, True), mode) == {new}
    assert outcomes(lambda disk: replace(disk, False, True), "none") == {b""}


def test_power_loss_treats_each_name_by_itself() -> None:
    seen = set()
    for seed in SEEDS:
        disk = make("/a", "/b", seed=seed)
        disk.remove("/a")
        disk.rename("/b", "/c")
        disk.open("/d", "create")
        disk.crash(power=True, mode="scatter")
        seen.add("".join(disk.list("/")))
    assert seen == {a + b + d for a in ("a", "") for b in ("b", "c") for d in ("d", "")}


def test_power_loss_may_bring_back_a_removed_name_but_not_lost_bytes() -> None:
    def work(disk: SimDisk) -> None:
        disk.rename("/a", "/old")
        disk.sync_directory("/")
        file = disk.open("/a", "create")
        file.write_at(0, [b"x"])
        disk.remove("/a")

    assert outcomes(work, "scatter") == {None, b"", b"x", b"\0"}


def test_power_loss_gives_back_space_that_was_only_pending() -> None:
    disk = make("/a", "/b", capacity=8192)
    disk.open("/a", "write").allocate(4096)
    disk.open("/b", "write").write_at(0, [b"x" * 1024])
    disk.remove("/b")
    assert disk.space_left("/") == 3072
    twin = disk.clone()
    twin.crash(power=True, mode="none")
    assert twin.space_left("/") == 8192
    disk.crash(power=False)  # nobody holds the removed file any more
    assert disk.space_left("/") == 4096


def test_power_loss_takes_a_directory_only_until_it_is_made() -> None:
    disk = make()
    disk.make_directory("/d/e")
    disk.crash(power=True, mode="none")
    assert disk.list("/d") == ["e"]
    disk.fault = Faults(Fault("sync_directory", 3, errno.EIO))  # of /d/e, for its new name
    with pytest.raises(OSError, match="injected"):
        disk.make_directory("/d/e/f/g")
    disk.make_directory("/d/e/f")  # it is there: this must sync what the failure left
    disk.crash(power=True, mode="none")
    assert disk.list("/d/e") == ["f"]


def test_failed_sync_loses_writes_that_reads_still_show() -> None:
    lost, shown_after_kill = 0, 0
    for seed in SEEDS:
        disk = make("/a", seed=seed)
        write(disk, 0, b"0" * 512, sync=True)
        disk.fault = Faults(Fault("datasync", 1, errno.EIO))
        with pytest.raises(OSError, match="injected"):
            write(disk, 0, b"1" * 512, sync=True)
        disk.open("/a", "write").datasync()  # the retry that must never be trusted
        assert disk.read("/a") == b"1" * 512
        twin = disk.clone()
        twin.crash(power=False)
        disk.crash(power=True, mode="all")
        if disk.read("/a") == b"0" * 512:
            lost += 1
            shown_after_kill += twin.read("/a") == b"1" * 512
        else:
            assert twin.read("/a") == disk.read("/a") == b"1" * 512
    assert 0 < shown_after_kill < lost < len(SEEDS)


def test_failed_directory_sync_leaves_names_pending() -> None:
    disk = make("/a")
    disk.remove("/a")
    disk.fault = Faults(Fault("sync_directory", 1, errno.EIO))
    with pytest.raises(OSError, match="injected"):
        disk.sync_directory("/")
    disk.crash(power=True, mode="none")
    assert disk.list("/") == ["a"]


@given(
    st.integers(0, 1 << 32),
    st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 900), st.booleans()), max_size=12),
)
def test_power_loss_leaves_each_sector_in_a_version_since_its_sync(
    seed: int, writes: list[tuple[int, int, bool]]
) -> None:
    disk = make("/a", seed=seed)
    disk.open("/a", "write").allocate(4096)
    disk.open("/a", "write").datasync()
    possible = [{bytes(SECTOR_BYTES)} for _ in range(8)]
    for number, (offset, length, sync) in enumerate(writes, 1):
        write(disk, offset, bytes([number]) * length, sync=sync)
        content = disk.read("/a")
        for index, versions in enumerate(possible):
            sector = content[index * SECTOR_BYTES : (index + 1) * SECTOR_BYTES]
            if sync:
                versions.clear()
            versions.add(sector)
    disk.crash(power=True)
    content = disk.read("/a")
    for index, versions in enumerate(possible):
        assert content[index * SECTOR_BYTES : (index + 1) * SECTOR_BYTES] in versions


def history(seed: int) -> str:
    """Return the digest of what a disk holds after a few hundred drawn operations."""
    rng = Random(seed)
    disk = SimDisk(rng)
    for _ in range(300):
        name = f"/{rng.randrange(5)}"
        match rng.randrange(6):
            case 0 if disk.exists(name):
                disk.rename(name, f"/{rng.randrange(5)}")
            case 1:
                disk.sync_directory("/")
            case 2 if disk.exists(name):
                disk.open(name, "read").datasync()
            case 3 if rng.random() < 0.2:
                disk.crash(power=rng.random() < 0.7)
            case _ if disk.exists(name):
                disk.open(name, "write").write_at(rng.randrange(2000), [rng.randbytes(900)])
            case _:
                disk.open(name, "create")
    digest = hashlib.sha256("\n".join(disk.trace).encode("ascii"))
    for name in disk.list("/"):
        digest.update(name.encode("ascii") + disk.read(f"/{name}"))
    return digest.hexdigest()


def test_same_seed_gives_the_same_bytes_whatever_the_hash_seed() -> None:
    root = Path(__file__).parents[2]
    code = "from tests.unit.test_sim_power import history; print(history(7))"
    for hash_seed in ("0", "1"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        printed = subprocess.run(
            [sys.executable, "-c", code],
            cwd=root, env=environment, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        assert printed.strip() == history(7)
    assert history(7) != history(8)
