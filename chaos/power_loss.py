"""Cuts the power of a disk under a running process, again and again, and looks what is left.

    python -m chaos.power_loss --seed 7 --rounds 50          (as root)

Each round a process works on a data directory on a small ext4; at a drawn moment
the file system is shut down without writing back anything (EXT4_IOC_SHUTDOWN),
and with it goes all that was not synced. The process is killed, the file system
mounted again, and what it holds is compared with what the process had said. The
next round goes on where this one ended.

Half the cuts come at a drawn line of a process that runs. In the other half it
stands still right after an acknowledgement, so that nothing later can have synced
what that one should have.

What lives here: the disk, the rounds. What must never live here: what a data
directory must hold (`chaos.suites.storage_model`). Called by: a person,
tests/storage/.

The disk is an image in a tmpfs, mounted in a mount namespace of this process
alone: however it ends, the kernel takes all of it away with the process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from chaos.storage_process import MUTANTS, acknowledges
from chaos.suites.storage import StorageNode
from chaos.suites.storage_model import StorageModel, Violation
from chaos.worlds.mounts import make_ext4, run, shut_down
from raftbatch.errors import Fatal
from raftbatch.realworld import RealFiles

EXIT_BROKEN = 1

_DISK_BYTES = 64 << 20
_LINES_MAX = 250  # of a process that runs, before it is cut off
_ACKNOWLEDGEMENTS_MAX = 60  # of one that stands still then
_UNSHARED = "--unshared"


class Ext4:
    """A file system on an image in memory, whose power can be cut. Needs a private namespace."""

    def __init__(self, work: Path) -> None:
        run("mount", "-t", "tmpfs", "-o", f"size={2 * _DISK_BYTES}", "tmpfs", str(work))
        self._image = work / "image"
        self.path = work / "disk"
        self.path.mkdir()
        make_ext4(self._image, _DISK_BYTES)
        self.mount()

    def mount(self) -> None:
        """Mount it; the file system repairs itself from its journal."""
        run("mount", "-o", "loop", str(self._image), str(self.path))

    def unmount(self) -> None:
        """Unmount it; the loop device goes with it."""
        run("umount", str(self.path))

    def lose_power(self) -> None:
        """Let everything be lost that was not synced, and every later operation fail."""
        shut_down(self.path)


@dataclass
class Rounds:
    """A disk, and what the processes on it have said so far.

    Attributes:
        model: all they said.
        repaired: in how many rounds opening had to cut or clear something away.
    """

    disk: Ext4
    seed: int
    mutant: str | None
    model: StorageModel = field(default_factory=StorageModel)
    repaired: int = 0

    def cut(self, number: int) -> str:
        """Run one round; return what happened, in words.

        Raises:
            Violation: something acknowledged is gone, or different.
            Fatal: it cannot be opened.
        """
        rng = Random(f"{self.seed} round {number}")
        stands = rng.random() < 0.5
        at = rng.randint(1, _ACKNOWLEDGEMENTS_MAX if stands else _LINES_MAX)
        self._run_until(number, at, stands)
        issued, acknowledged = len(self.model.records), self.model.acknowledged
        self.disk.unmount()
        self.disk.mount()
        node = StorageNode(RealFiles(), self._directory, rng, self.model.take)
        node.create()
        node.open()
        recovered = node.data.journal.durable
        node.hold_against(self.model)
        repairs = node.data.journal.repairs
        self.repaired += bool(repairs)
        node.close()
        del self.model.records[recovered:]  # a reset that opening asked for, but nobody wrote
        return (
            f"round {number}: cut at {'acknowledgement' if stands else 'line'} {at}; "
            f"{issued} asked for, {acknowledged} acknowledged, {recovered} recovered"
            + "".join(f"; {repair}" for repair in repairs)
        )

    @property
    def _directory(self) -> str:
        return str(self.disk.path / "data")

    def _run_until(self, number: int, at: int, stands: bool) -> None:
        """Let a process work, take its lines, and cut it off."""
        command = [sys.executable, "-m", "chaos.storage_process", self._directory]
        command += ["--seed", f"{self.seed} process {number}"]
        command += ["--acknowledgements", str(at)] if stands else []
        command += ["--mutant", self.mutant] if self.mutant else []
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            try:
                count = 0
                while count < at:
                    line = process.stdout.readline()
                    if not line:
                        raise Violation(f"it ended by itself: {process.stderr.read()}")
                    self.model.take(line)
                    count += not stands or acknowledges(line)
            finally:
                self.disk.lose_power()
                process.kill()
            for line in process.stdout.readlines():
                self.model.take(line)


def play(work: Path, seed: int, count: int, mutant: str | None) -> int:
    """Play the rounds, each on what the one before left; return the exit status."""
    repeat = f"python -m chaos.power_loss --seed {seed} --rounds {count}"
    print(f"seed {seed}; to repeat: {repeat}" + (f" --mutant {mutant}" if mutant else ""))
    disk = Ext4(work)
    rounds = Rounds(disk, seed, mutant)
    number = 0
    try:
        for number in range(1, count + 1):
            print(rounds.cut(number), flush=True)
    except (Fatal, Violation) as error:
        print(f"BROKEN in round {number}: {type(error).__name__}: {error}")
        return EXIT_BROKEN
    model = rounds.model
    print(
        f"{count} rounds: {model.acknowledgements} acknowledgements kept, {model.lost} changes "
        f"lost that nobody had acknowledged, {rounds.repaired} repairs"
    )
    disk.unmount()
    return 0


def main() -> int:
    """Play in a mount namespace of our own."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--mutant", choices=MUTANTS, help="have the process break a promise")
    parser.add_argument(_UNSHARED, action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.unshared:
        again = [sys.executable, "-m", "chaos.power_loss", *sys.argv[1:], _UNSHARED]
        unshare = ["unshare", "--mount", "--propagation", "private", *again]
        os.execvp("unshare", unshare)  # noqa: S606 - a shell would only be in the way
    # A signal that ends us leaves this one, empty, directory; all in it is in the namespace.
    work = Path(tempfile.mkdtemp(prefix="raftbatch-power-loss-"))
    try:
        return play(work, arguments.seed, arguments.rounds, arguments.mutant)
    finally:
        subprocess.run(["umount", "--lazy", str(work)], check=False)
        work.rmdir()


if __name__ == "__main__":
    sys.exit(main())
