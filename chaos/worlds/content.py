"""What a simulated disk holds of one file: the cache, the platter, and what lies between.

What lives here: the bytes of a file in sectors, and which of them a power loss
may take. What must never live here: names, descriptors, hooks, space (those
are `chaos.worlds.disk`'s). Called by: `chaos.worlds.disk`.

Assumptions: writing one sector is atomic, and sectors reach the platter in any
order until a sync. Files are sparse: a sector never written is not stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Literal, Protocol, TypeVar

SECTOR_BYTES = 512  # the smallest unit any drive of the last decades writes atomically
_ZERO_SECTOR = bytes(SECTOR_BYTES)

PowerLoss = Literal["none", "all", "prefix", "scatter"]
"""What survives of the pending changes: nothing; everything; those up to some
moment, the one at that moment torn; or each by itself, by chance."""


@dataclass(frozen=True, slots=True)
class SectorWrite:
    """A sector's whole new content, by the disk's n-th operation."""

    operation: int
    index: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Resize:
    """A new length; a cut destroys what lay beyond it, growth does not."""

    operation: int
    length: int
    cut: bool


class Pending(Protocol):
    """A change that a power loss may take."""

    @property
    def operation(self) -> int:
        """Which operation of the disk made it."""
        ...


P = TypeVar("P", bound=Pending)


@dataclass(frozen=True, slots=True)
class Fate:
    """One power loss, as drawn: decides which pending changes survive it.

    Args:
        mode: see `PowerLoss`.
        moment: for `prefix`: the operation in whose midst the power went.
        chance: for `scatter`: the probability of each change to survive.
    """

    mode: PowerLoss
    moment: int
    chance: float

    @classmethod
    def draw(cls, rng: Random, mode: PowerLoss | None, operations: Iterable[int]) -> Fate:
        """Draw the mode, where none is given, and its parameters."""
        moments = sorted({*operations}) or [0]
        modes: tuple[PowerLoss, ...] = ("none", "all", "prefix", "prefix", "scatter", "scatter")
        drawn = rng.choice(modes)
        chance = rng.choice((0.1, 0.5, 0.9))  # few, half or nearly all: each finds other faults
        return cls(mode or drawn, rng.choice(moments), chance)

    def survivors(self, rng: Random, pending: list[P]) -> list[P]:
        """Return what survives of one file's or directory's changes, in order."""
        match self.mode:
            case "none":
                return []
            case "all":
                return pending
            case "prefix":
                whole = [change for change in pending if change.operation < self.moment]
                torn = [change for change in pending if change.operation == self.moment]
                return whole + torn[: rng.randint(0, len(torn))]
            case "scatter":
                return [change for change in pending if rng.random() < self.chance]


@dataclass(slots=True)
class Content:
    """Bytes, sparse. Bytes of the last sector beyond `length` are zero."""

    length: int = 0
    sectors: dict[int, bytes] = field(default_factory=dict)

    def __deepcopy__(self, memo: dict[int, object]) -> Content:
        """Copy the table, not the sectors: they are immutable."""
        return Content(self.length, dict(self.sectors))

    def apply(self, change: SectorWrite | Resize) -> None:
        """Make one change. What it leaves beyond `length` is to be `trim`med at the end."""
        match change:
            case SectorWrite(_, index, content):
                self.sectors[index] = content
            case Resize(_, length, cut):
                self.length = length
                if cut:
                    self.trim()

    def trim(self) -> None:
        """Destroy what lies beyond `length`."""
        last, used = divmod(self.length, SECTOR_BYTES)
        for index in [index for index in self.sectors if index > last]:
            del self.sectors[index]
        if last in self.sectors:
            self.sectors[last] = self.sectors[last][:used].ljust(SECTOR_BYTES, b"\0")
            if not used:
                del self.sectors[last]

    def read(self, offset: int, length: int) -> bytes:
        """Return the bytes of a range, up to the end of the file."""
        end = min(offset + length, self.length)
        if offset >= end:
            return b""
        first, skipped = divmod(offset, SECTOR_BYTES)
        sectors = range(first, -(-end // SECTOR_BYTES))
        buffer = bytearray(len(sectors) * SECTOR_BYTES)
        stored = sectors if len(sectors) < len(self.sectors) else list(self.sectors)
        for index in stored:
            if index in self.sectors and index in sectors:
                start = (index - first) * SECTOR_BYTES
                buffer[start : start + SECTOR_BYTES] = self.sectors[index]
        return bytes(memoryview(buffer)[skipped : skipped + end - offset])

    def changes(self, operation: int, offset: int, data: memoryview) -> Iterator[SectorWrite]:
        """Return what writing `data` at `offset` does to each sector, in order."""
        end = offset + len(data)
        for index in range(offset // SECTOR_BYTES, -(-end // SECTOR_BYTES)):
            start = index * SECTOR_BYTES
            low, high = max(offset, start), min(end, start + SECTOR_BYTES)
            part = bytes(data[low - offset : high - offset])
            if len(part) < SECTOR_BYTES:
                old = self.sectors.get(index, _ZERO_SECTOR)
                part = old[: low - start] + part + old[high - start :]
            yield SectorWrite(operation, index, part)


@dataclass(eq=False, slots=True)
class Inode:
    """A file without its name.

    Attributes:
        number: its identity on the disk.
        cache: what every process sees.
        durable: what a power loss surely leaves.
        pending: what leads from `durable` to `cache`, in order.
        lost: a failed sync took writes out of `pending` that `cache` still shows.
        reserved: sectors from the start whose space is set aside.
        charged: sectors that take space: the reserved ones and those written beyond.
    """

    number: int
    cache: Content = field(default_factory=Content)
    durable: Content = field(default_factory=Content)
    pending: list[SectorWrite | Resize] = field(default_factory=list)
    lost: bool = False
    reserved: int = 0
    charged: int = 0

    def fresh_sectors(self, offset: int, length: int) -> int:
        """Return how many sectors a write would take that take no space yet."""
        first = max(offset // SECTOR_BYTES, self.reserved)
        wanted = range(first, max(first, -(-(offset + length) // SECTOR_BYTES)))
        if len(wanted) < len(self.cache.sectors):
            return sum(index not in self.cache.sectors for index in wanted)
        return len(wanted) - sum(index in wanted for index in self.cache.sectors)

    def write(self, operation: int, offset: int, data: memoryview) -> None:
        """Write into the cache; the length follows each sector, so a torn append is shorter."""
        self.charged += self.fresh_sectors(offset, len(data))
        end = offset + len(data)
        for change in self.cache.changes(operation, offset, data):
            self._do(change)
            reached = min(end, (change.index + 1) * SECTOR_BYTES)
            if reached > self.cache.length:
                self._do(Resize(operation, reached, cut=False))

    def resize(self, operation: int, length: int) -> None:
        """Cut, or extend with zeros that take no space."""
        if length != self.cache.length:
            self._do(Resize(operation, length, cut=length < self.cache.length))
            self.reserved = min(self.reserved, -(-length // SECTOR_BYTES))
            self._charge()

    def reserve(self, operation: int, length: int) -> None:
        """Extend, and set the space aside."""
        self.resize(operation, length)
        self.reserved = -(-length // SECTOR_BYTES)
        self._charge()

    def sync(self) -> None:
        """Make all pending changes durable."""
        for change in self.pending:
            self.durable.apply(change)
        self.durable.trim()
        self.pending.clear()

    def fail_sync(self, rng: Random) -> None:
        """Forget a random part of the pending writes as the kernel does: clean, yet not written.

        The rest stays pending, and so do lengths: a file system that cannot
        write its metadata stops altogether.
        """
        kept = [c for c in self.pending if isinstance(c, Resize) or rng.random() < 0.5]
        self.lost |= len(kept) < len(self.pending)
        self.pending = kept

    def evict(self) -> None:
        """Drop clean sectors from the cache, so that it shows what a failed sync lost."""
        self.cache = Content(self.durable.length, dict(self.durable.sectors))
        for change in self.pending:
            self.cache.apply(change)
        self.cache.trim()
        self.lost = False
        self._charge()

    def lose_power(self, fate: Fate, rng: Random) -> None:
        """Leave what is durable and what survives."""
        self.pending = fate.survivors(rng, self.pending)
        self.sync()
        self.evict()
        self.reserved = min(self.reserved, -(-self.cache.length // SECTOR_BYTES))
        self._charge()

    def _do(self, change: SectorWrite | Resize) -> None:
        self.cache.apply(change)
        self.pending.append(change)

    def _charge(self) -> None:
        beyond = sum(index >= self.reserved for index in self.cache.sectors)
        self.charged = self.reserved + beyond
