"""Disks of a chosen size for real processes: full ones, read-only ones, ones that lose power.

    with Disk("loop", folder / "n1", folder, "n1", 1 << 30) as disk:
        disk.fill()
        disk.free()
        disk.lose_power()   # kill whoever uses it
        disk.renew()        # what was synced is there, the rest is gone

A disk is an ext4 on a loop device whose image is in memory (`loop`), or a tmpfs. It bears a name,
see `chaos.worlds.owners`: the tmpfs as its source, the ext4 in that of its image.

What lives here: mounting, what disks can suffer, and finding those that a harness left behind.
What must never live here: who uses them. Called by: `chaos.worlds.processes`, `chaos.power_loss`,
`python -m chaos clean`. Needs root, `mount`, and for ext4 loop devices and e2fsprogs.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from typing import Literal

from chaos.worlds.owners import Unable, lives, own_name, owner_in, owner_of
from raftbatch.closing import Closing

Kind = Literal["loop", "tmpfs"]

_SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN, _IOR('X', 125, __u32)
_NO_LOG_FLUSH = (2).to_bytes(4, sys.byteorder)  # not even the file system's journal is written
_STEP_BYTES = 64 << 20  # of filling a disk, and then half of that, and so on
_BLOCK_BYTES = 4096
_FILLER = "filler"
_BUSY_S = 20.0
_AGAIN_S = 0.02
_number = count()


def missing() -> str:
    """Return why no disks can be made here; nothing if they can."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "needs root"
    tools = [
        tool for tool in ("mount", "umount", "mkfs.ext4", "losetup") if shutil.which(tool) is None
    ]
    if tools:
        return f"{', '.join(tools)} missing"
    return "" if Path("/dev/loop-control").exists() else "/dev/loop-control missing"


def make_ext4(image: Path, size_bytes: int) -> None:
    """Make an image of an empty ext4, all of whose blocks are for everyone."""
    with open(image, "wb") as file:
        file.truncate(size_bytes)
    # Without the lazy part, whose thread would write behind our back.
    lazy = "lazy_itable_init=0,lazy_journal_init=0"
    run("mkfs.ext4", "-q", "-F", "-m", "0", "-b", str(_BLOCK_BYTES), "-E", lazy, str(image))


def shut_down(path: Path) -> None:
    """Let all that was not synced to this ext4 be lost, and every later operation there fail."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, _SHUTDOWN, _NO_LOG_FLUSH)
    finally:
        os.close(descriptor)


class Disk(Closing):
    """See the module's docstring. It is mounted; leaving it unmounts it, and what it held is gone.

    Args:
        kind: of it.
        path: where it is mounted; made where it is missing.
        images: a folder, where the image of an ext4 gets a tmpfs to lie in.
        word: ends its name.
        size_bytes: of it, with what the file system takes for itself.

    Attributes:
        kind: of it.
        path: where it is mounted.
    """

    def __init__(self, kind: Kind, path: Path, images: Path, word: str, size_bytes: int) -> None:
        self.kind = kind
        self.path = path
        name = f"{own_name()}-{next(_number)}-{word}"
        path.mkdir(parents=True, exist_ok=True)
        with ExitStack() as undo:
            if kind == "tmpfs":
                _mount_tmpfs(name, path, size_bytes, undo)
            else:
                memory = images / name
                memory.mkdir(parents=True)
                undo.callback(memory.rmdir)
                _mount_tmpfs(name, memory, 2 * size_bytes, undo)
                self._image = memory / name
                make_ext4(self._image, size_bytes)
                self._mount()
                undo.callback(self._unmount)
            self._undo = undo.pop_all()

    def close(self) -> None:
        """Unmount it, and forget what it held. Harmless when called twice."""
        self._undo.close()

    def fill(self, leaving_bytes: int = 0) -> None:
        """Use up all space but this much, and a block."""
        with open(self.path / _FILLER, "ab") as filler:
            size, step = os.fstat(filler.fileno()).st_size, _STEP_BYTES
            while step >= _BLOCK_BYTES:
                left = os.statvfs(self.path)
                if left.f_bfree * left.f_frsize - step < leaving_bytes:
                    step //= 2
                    continue
                try:
                    os.posix_fallocate(filler.fileno(), size, step)
                    size += step
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    step //= 2

    def free(self) -> None:
        """Give back what filling used up. Harmless where it was not filled."""
        (self.path / _FILLER).unlink(missing_ok=True)

    def lose_power(self) -> None:
        """Lose all that was not synced; every later operation fails, until it is renewed."""
        shut_down(self.path)

    def set_read_only(self) -> None:
        """Refuse all writing, as a kernel does that has seen an error; until it is renewed."""
        run("mount", "-o", "remount,abort", str(self.path))

    def renew(self) -> None:
        """Mount an ext4 anew, with what it holds. Nobody may use it then."""
        self._unmount()
        # 1: it has repaired something, which is what it is for.
        run("e2fsck", "-p", str(self._image), accepted=(0, 1))
        self._mount()

    def _mount(self) -> None:
        run("mount", "-o", "loop", str(self._image), str(self.path))

    def _unmount(self) -> None:
        """Unmount the ext4, as soon as nobody looks at it: who measures its files soon goes.

        It is there still where a process has mounts of its own, which it copied from ours: mounted
        again it would be the same one, without power. So its loop device has to go too.

        Raises:
            Unable: somebody holds it for too long.
        """
        end_s = time.monotonic() + _BUSY_S
        while True:
            try:
                run("umount", str(self.path))
                break
            except Unable as error:
                if "busy" not in str(error) or time.monotonic() > end_s:
                    raise
                time.sleep(_AGAIN_S)
        while _is_attached(self._image):
            if time.monotonic() > end_s:
                raise Unable(f"{self.path} is unmounted, and mounted for another process still")
            time.sleep(_AGAIN_S)


def leftovers() -> list[str]:
    """Return where disks are mounted whose makers are gone, the last one first."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text("utf-8").splitlines():
        before, _, after = line.partition(" - ")
        source, path = after.split(" ")[1], _plain(before.split(" ")[4])
        owner = owner_of(source) or owner_in(_backing(source))
        if owner and not lives(owner):
            found.append(path)
    return found[::-1]


def loops() -> list[str]:
    """Return the loop devices of images whose makers are gone."""
    devices = [f"/dev/{each.name}" for each in Path("/sys/block").glob("loop*")]
    owners = {device: owner_in(_backing(device)) for device in devices}
    return sorted(device for device, owner in owners.items() if owner and not lives(owner))


def clean() -> list[str]:
    """Unmount what harnesses left behind that are gone; return what was removed."""
    removed = []
    for path in leftovers():
        _let_go(path)
        removed.append(path)
    for device in loops():
        with suppress(Unable):  # it went with its mount, meanwhile
            run("losetup", "--detach", device)
            removed.append(device)
    return removed


def run(*command: str, accepted: tuple[int, ...] = (0,)) -> None:
    """Run a command.

    Raises:
        Unable: it fails; its words are in the message.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in accepted:
        raise Unable(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()}")


def _mount_tmpfs(name: str, path: Path, size_bytes: int, undo: ExitStack) -> None:
    run("mount", "-t", "tmpfs", "-o", f"size={size_bytes}", name, str(path))
    undo.callback(_let_go, str(path))


def _let_go(path: str) -> None:
    """Unmount, though somebody may look at it: at a loop device, who looks for a free one."""
    try:
        run("umount", path)
    except Unable:
        run("umount", "--lazy", path)


def _backing(source: str) -> str:
    """Return the file behind a loop device; empty: it is none, or has none."""
    if not source.startswith("/dev/loop"):
        return ""
    try:
        return Path("/sys/block", source.removeprefix("/dev/"), "loop/backing_file").read_text()
    except OSError:
        return ""


def _is_attached(image: Path) -> bool:
    """Return whether a loop device is of this image."""
    there = str(image.resolve())
    devices = [f"/dev/{each.name}" for each in Path("/sys/block").glob("loop*")]
    return any(_backing(device).strip() == there for device in devices)


def _plain(path: str) -> str:
    """Return a path of mountinfo without its escapes, `\\040` for a blank."""
    return re.sub(r"\\(\d{3})", lambda match: chr(int(match[1], 8)), path)
