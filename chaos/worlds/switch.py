"""An Ethernet switch of our own, whose links can be cut, slowed and made lossy while it runs.

The ports are TAP devices: what one kernel stack sends, we read; what we write, another
receives. So every socket is real, and yet each frame passes through this file, where each
direction of each pair of ports has a `Rule` of its own.

What lives here: the rules, what they do to frames, and the process that forwards them. What
must never live here: namespaces and interfaces (`chaos.worlds.namespaces`); the product. Called
by: `chaos.worlds.fabric`, which starts it as a process of its own, so that nothing that the
harness computes holds up the network:

    python -m chaos.worlds.switch --control FD --seed 7 TAP_FD TAP_FD ...

It is told rules, and asked for counts, in lines of JSON over the control socket, and ends when
that is closed: however the harness ends, the switch ends with it, and the TAPs with the switch.

- Port `i` is the `i`-th descriptor; the last byte of its address is `i`. Nothing is learned.
- A link keeps the order of its frames, whatever their jitter: a cable does not overtake itself.
- A rule that has been acknowledged holds for each frame that has not been passed on by then.
  Cutting a link drops what was on its way in it; any other change lets that arrive at once, in
  order, so that no frame of a slow past comes late into the fast present.
- Everything is bounded: what does not fit is dropped, and counted.

Figures, with rules and without, are in chaos/README.md, "Real networks".
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import select
import socket
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

FRAME_BYTES_MAX = 65_536  # no TAP has an MTU beyond this
LINE_BYTES_MAX = 64 << 20  # on the way in one link: 1 s at 64 MB/s, whatever rules say
_BURST_FRAMES = 64  # of one port before the others have their turn
_COMMAND_BYTES_MAX = 1 << 20
_PRIORITY = -15  # a wire is not slower because the nodes are busy


@dataclass(frozen=True, slots=True)
class Rule:
    """What one direction of one link does to frames; by default nothing.

    Attributes:
        cut: drops all.
        delay_s: each frame takes so long.
        jitter_s: and up to so much longer, drawn evenly.
        loss: share of frames dropped, 0 to 1.
        duplicate: share of frames that arrive twice, 0 to 1.
        bytes_per_s: no more than this passes; 0: no limit.
        queue_bytes: waiting for their turn where there is a limit; what does not fit is dropped.
    """

    cut: bool = False
    delay_s: float = 0.0
    jitter_s: float = 0.0
    loss: float = 0.0
    duplicate: float = 0.0
    bytes_per_s: int = 0
    queue_bytes: int = 256 << 10

    def __post_init__(self) -> None:
        """Refuse what no link can do."""
        if not (0 <= self.loss <= 1 and 0 <= self.duplicate <= 1):
            raise ValueError(f"a share is between 0 and 1: {self}")
        if min(self.delay_s, self.jitter_s, self.bytes_per_s, self.queue_bytes) < 0:
            raise ValueError(f"nothing of a rule is negative: {self}")


@dataclass(slots=True)
class Counts:
    """Frames of one direction of one link, since the beginning.

    Attributes:
        passed: handed to the receiver, duplicates too.
        lost: dropped by chance.
        cut: dropped because it was cut.
        overflowed: dropped because a queue was full.
        duplicated: sent twice by chance.
        refused: not taken by the receiver's kernel: its interface is down, or gone.
    """

    passed: int = 0
    lost: int = 0
    cut: int = 0
    overflowed: int = 0
    duplicated: int = 0
    refused: int = 0


_PLAIN = Rule()


class Link:
    """One direction between two ports: its rule, its chance, and what is on its way.

    Attributes:
        plain: whether a frame just passes: the rule does nothing and nothing is on its way.
        counts: what became of its frames.
    """

    def __init__(self, random: Random) -> None:
        self.plain = True
        self.counts = Counts()
        self._rule = _PLAIN
        self._random = random
        self._line: deque[tuple[float, bytes]] = deque()  # due, frame; first come, first out
        self._line_bytes = 0
        self._free_at_s = 0.0  # when what was taken in until now has left at `bytes_per_s`

    @property
    def due_s(self) -> float | None:
        """When the next frame arrives; None if none is on its way."""
        return self._line[0][0] if self._line else None

    def change(self, rule: Rule) -> list[bytes]:
        """Follow another rule; return the frames that now arrive at once."""
        arriving = [frame for _, frame in self._line]
        self._line.clear()
        self._line_bytes = 0
        self._free_at_s = 0.0
        self._rule = rule
        self.plain = rule == _PLAIN
        if rule.cut:
            self.counts.cut += len(arriving)
            return []
        return arriving

    def take(self, frame: bytes, now_s: float) -> None:
        """Take in a frame: drop it, or put it on its way."""
        rule, counts, random = self._rule, self.counts, self._random
        if rule.cut:
            counts.cut += 1
            return
        if rule.loss and random.random() < rule.loss:
            counts.lost += 1
            return
        copies = 1
        if rule.duplicate and random.random() < rule.duplicate:
            counts.duplicated += 1
            copies = 2
        for _ in range(copies):
            self._send(frame, now_s)

    def _send(self, frame: bytes, now_s: float) -> None:
        rule = self._rule
        due_s = now_s
        fits = self._line_bytes + len(frame) <= LINE_BYTES_MAX
        if rule.bytes_per_s:
            due_s = max(now_s, self._free_at_s)
            queued = (due_s - now_s) * rule.bytes_per_s
            fits = fits and queued + len(frame) <= max(rule.queue_bytes, len(frame))
            due_s += len(frame) / rule.bytes_per_s
        if not fits:
            self.counts.overflowed += 1
            return
        self._free_at_s = due_s
        due_s += rule.delay_s
        if rule.jitter_s:
            due_s += self._random.random() * rule.jitter_s
        self._line.append((due_s, frame))
        self._line_bytes += len(frame)

    def arriving(self, now_s: float) -> list[bytes]:
        """Return the frames that are there by now; they are on their way no more."""
        frames = []
        line = self._line
        while line and line[0][0] <= now_s:
            frame = line.popleft()[1]
            self._line_bytes -= len(frame)
            frames.append(frame)
        return frames


class Switch:
    """The ports and the links between them; `turn` does what there is to do.

    Args:
        ports: a descriptor of a TAP each, set not to block.
        control: a stream of commands; its end is the end.
        seed: draws what links leave to chance: each has a sequence of its own.
    """

    def __init__(self, ports: Sequence[int], control: socket.socket, seed: str) -> None:
        self._ports = tuple(ports)
        self._open = list(ports)
        self._number = {port: number for number, port in enumerate(ports)}
        self._control = control
        self._commands = b""
        self._links = {
            (source, target): Link(Random(f"{seed} {source}-{target}"))
            for source in range(len(ports))
            for target in range(len(ports))
            if source != target
        }
        self._ruled: list[tuple[int, Link]] = []  # those with a rule: target, link

    def turn(self) -> bool:
        """Wait for something to do, and do it; return False at the end."""
        dues = [due for _, link in self._ruled if (due := link.due_s) is not None]
        wait_s = max(0.0, min(dues) - time.monotonic()) if dues else None
        control = self._control.fileno()
        ready, _, _ = select.select([control, *self._open], [], [], wait_s)
        if control in ready:
            ready.remove(control)
            if not self._listen():
                return False
        for port in ready:
            self._forward(port)
        if dues:
            self._deliver()
        return True

    def _forward(self, port: int) -> None:
        """Take what a port has sent, up to a burst."""
        source = self._number[port]
        links, ports, read, write = self._links, self._ports, os.read, os.write
        for _ in range(_BURST_FRAMES):
            try:
                frame = read(port, FRAME_BYTES_MAX)
            except BlockingIOError:
                return
            except OSError:  # EBADFD: the interface went with its namespace
                self._open.remove(port)
                return
            if frame[0] & 1:  # to all
                targets = [target for target in range(len(ports)) if target != source]
            else:
                targets = [frame[5]]
            for target in targets:
                link = links.get((source, target))
                if link is None:
                    continue  # to nobody, or to itself
                if link.plain:
                    link.counts.passed += 1
                    try:
                        write(ports[target], frame)
                    except OSError:
                        self._refused(link)
                else:
                    link.take(frame, time.monotonic())
                    self._write(target, link, link.arriving(time.monotonic()))

    def _deliver(self) -> None:
        """Hand on what has arrived."""
        for target, link in self._ruled:
            self._write(target, link, link.arriving(time.monotonic()))

    def _write(self, target: int, link: Link, frames: Sequence[bytes]) -> None:
        for frame in frames:
            link.counts.passed += 1
            try:
                os.write(self._ports[target], frame)
            except OSError:
                self._refused(link)

    @staticmethod
    def _refused(link: Link) -> None:
        # EIO: the interface is down. EBADFD: it went with its namespace.
        link.counts.passed -= 1
        link.counts.refused += 1

    def _listen(self) -> bool:
        """Read commands and answer each; return False if there will be no more."""
        got = self._control.recv(65_536)
        *lines, self._commands = (self._commands + got).split(b"\n")
        for line in lines:
            self._control.sendall(json.dumps(self._obey(json.loads(line))).encode() + b"\n")
        return bool(got) and len(self._commands) <= _COMMAND_BYTES_MAX

    def _obey(self, command: dict[str, Any]) -> list[list[Any]]:
        """Follow `rules`, a list of [source, target, rule]; answer with the counts, if asked."""
        for source, target, rule in command.get("rules", []):
            link = self._links[source, target]
            self._write(target, link, link.change(Rule(**rule)))
        self._ruled = [
            (target, link) for (_, target), link in self._links.items() if not link.plain
        ]
        if not command.get("counts"):
            return []
        return [[*pair, asdict(link.counts)] for pair, link in self._links.items()]


def main() -> int:
    """Forward frames until the control socket is closed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--control", type=int, required=True)
    parser.add_argument("--seed", required=True)
    parser.add_argument("ports", type=int, nargs="+")
    arguments = parser.parse_args()
    os.nice(_PRIORITY)
    gc.disable()  # frames make no cycles, and a collection would be a hiccup of the network
    for port in arguments.ports:
        os.set_blocking(port, False)
    with socket.socket(fileno=arguments.control) as control:
        switch = Switch(arguments.ports, control, arguments.seed)
        while switch.turn():
            pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
