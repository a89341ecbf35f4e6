"""Listing a data directory, offline: what is in it, what is damaged, and whether it opens.

`dump` yields one `Journal`, each `Segment`, each `Snapshot`, then `Record` and
`Damage` as they stand in the files, and last one `Verdict`. It opens nothing for
writing, takes no lock and removes nothing, so it can be run while a node lives
on the directory; the listing is then of a moment that has passed. It holds one
segment in memory, or one chunk of a snapshot.

The verdict is not formed here. The code that opens a journal and its snapshots
is run over a world in which nothing can be changed (`dump_view`), and what it
says is told. What lives here: the order of the items, and the snapshots.
What must never live here: an opinion on what is damaged. Called by: the command
line. Blocking.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from coordinator.raft.datadir import (
    check_membership,
    check_no_gap,
    journal_directory,
    lock_path,
    snapshots_directory,
)
from coordinator.raft.dump_items import (
    Damage,
    Effect,
    Item,
    Journal,
    Outcome,
    Selection,
    Snapshot,
    SnapshotState,
    Verdict,
)
from coordinator.raft.dump_survey import Survey, damage_of, survey
from coordinator.raft.dump_view import StillFiles, StillWorld
from coordinator.raft.segments.layout import TEMPORARY, segment_name, segment_seq
from coordinator.raft.segments.mark import MARK_NAME
from coordinator.raft.segments.replay import read_mark
from coordinator.raft.snapshot_format import HEADER_BYTES_MAX, decode_header, parse_name
from coordinator.raft.snapshot_reader import SnapshotReader
from coordinator.raft.snapshots import SnapshotLimits, SnapshotMeta, Snapshots
from raftbatch.errors import CannotStart, Corrupt, DiskFailed, Fatal, InvalidRequest, Overloaded
from raftbatch.ids import Identity
from raftbatch.world import Files, World, join

_EXPECTED = (
    "expected the data directory of a node, which holds `journal`, `snapshots` and `lock`; or its "
    f"journal, which holds `{MARK_NAME}` and files such as `{segment_name(1)}`"
)
_OUTCOMES: dict[Effect, Outcome] = {
    "cut": "opens_after_cutting",
    "refused": "refused",
    "unreadable": "unreadable",
}
_ATTEMPTS = 5  # a node that lives may remove a file between our looking and our reading


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the parts of a data directory are.

    Attributes:
        directory: the data directory; None where only a journal was named.
        journal: its journal.
        lock: its lock file.
    """

    directory: str | None
    journal: str
    lock: str


def dump(world: World, directory: str, selection: Selection) -> Iterator[Item]:
    """Yield what a data directory holds, in the order that the module's docstring tells.

    Args:
        world: the ports; only files are used, and only read.
        directory: a node's data directory, or the journal in it.
        selection: which records to yield.

    Raises:
        InvalidRequest: there is no journal, or no way to list it; definite. Raised before any item.
    """
    places = _locate(world.files, directory)
    still, journal = _survey(world, places, selection)
    snapshots, flaws, refusal = _snapshots(world, places, journal)
    yield _journal(still, places, journal)
    yield from journal.segments()
    yield from snapshots
    yield from flaws
    yield from journal.listing()
    refused = journal.damage if journal.refusal else refusal  # opening meets the journal first
    why = refused or journal.damage
    yield Verdict(
        outcome=_OUTCOMES[why.effect] if why else "opens",
        path=why.path if why else None,
        offset=why.offset if why else None,
        reason=why.reason if why else None,
        records=journal.records,
        found=journal.found,
        changed=still.changed,
    )


def _locate(files: Files, directory: str) -> _Places:
    """Find the journal, and say what was expected where there is none."""
    try:
        names = files.list(directory)
    except FileNotFoundError:
        raise InvalidRequest(f"{directory} does not exist: {_EXPECTED}") from None
    except NotADirectoryError:
        raise InvalidRequest(f"{directory} is no directory: {_EXPECTED}") from None
    except OSError as error:
        raise InvalidRequest(f"{directory} cannot be listed: {error}") from None
    journal = journal_directory(directory)
    if journal.rpartition("/")[2] in names:
        return _Places(directory, journal, lock_path(directory))
    if MARK_NAME in names or any(segment_seq(name) is not None for name in names):
        return _Places(None, directory, lock_path(join(directory, "..")))
    raise InvalidRequest(f"{directory} holds no journal: {_EXPECTED}")


def _survey(world: World, places: _Places, selection: Selection) -> tuple[StillFiles, Survey]:
    """Read the journal; again where a segment was dropped while it was read."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            still = StillFiles(world.files, places.journal)
            found = survey(still, places.journal, selection)
        except OSError as error:
            raise InvalidRequest(f"{places.journal} cannot be listed: {error}") from None
        except CannotStart:
            raise InvalidRequest(_no_journal(world.files, places)) from None
        if not _vanished(found.refusal) or attempt == _ATTEMPTS:
            return still, found
    raise AssertionError("the last attempt returns")


def _no_journal(files: Files, places: _Places) -> str:
    """Return what is missing where there is a journal's directory without a journal."""
    marked = MARK_NAME in _names(files, places.journal)
    missing = "has no segment, and its mark says that there never was any"
    if not marked:
        missing = f"has neither a segment nor a {MARK_NAME}"
    snapshots = snapshots_directory(places.directory) if places.directory is not None else ""
    if not any(map(parse_name, _names(files, snapshots))):
        return f"{places.journal} holds no journal: it {missing}"
    return (
        f"{places.journal} is lost: it {missing}, but {snapshots} holds snapshots. Keep a copy of "
        "the directory and put the journal back, or add the node again as a new member; it will "
        "receive everything from the others"
    )


def _journal(still: StillFiles, places: _Places, found: Survey) -> Journal:
    """Return what is to be said of the whole."""
    identity = found.identity
    state = found.recovered if found.refusal is None else None
    try:
        marked = read_mark(still, places.journal)
    except (Corrupt, DiskFailed):
        marked = None
    pid = re.fullmatch(rb"([0-9]{1,10}) *\n?", _read(still, places.lock, 32))
    directories = [places.journal]
    if places.directory is not None:
        directories.append(snapshots_directory(places.directory))
    return Journal(
        directory=places.journal,
        cluster_id=identity.cluster_id if identity else None,
        node_id=identity.node_id if identity else None,
        incarnation=identity.incarnation if identity else None,
        term=state.cursor.hard_state.term if state else None,
        vote=state.cursor.hard_state.vote if state else None,
        first_index=state.terms.base + 1 if state else None,
        last_index=state.cursor.last_index if state else None,
        last_term=state.cursor.last_term if state else None,
        last_lsn=state.cursor.lsn if state else None,
        oldest_segment=state.cursor.oldest if state else None,
        mark_lsn=marked,
        lock_pid=int(pid[1]) if pid else None,
        temporaries=tuple(
            join(directory, name)
            for directory in directories
            for name in _names(still, directory)
            if name.endswith(TEMPORARY)
        ),
    )


def _names(files: Files, directory: str) -> list[str]:
    try:
        return files.list(directory)
    except OSError:
        return []  # opening it will fail, and that is told


def _read(files: Files, path: str, length: int) -> bytes:
    """Return a file's first bytes; none where they cannot be read."""
    try:
        with closing(files.open(path, "read")) as file:
            return file.read_at(0, length)
    except OSError:
        return b""


def _snapshots(
    world: World, places: _Places, journal: Survey
) -> tuple[list[Snapshot], list[Damage], Damage | None]:
    """Return every snapshot, what is wrong with any, and why opening them is refused."""
    if places.directory is None:
        return [], [], None
    directory = snapshots_directory(places.directory)
    identity = journal.identity or _any_identity(world.files, directory)
    refusal = _opening(world, places.directory, identity, journal) if identity else None
    snapshots, flaws = [], [refusal] if refusal else []
    for name in _names(world.files, directory):
        position = parse_name(name)
        path = join(directory, name)
        found = _snapshot(world.files, path, position, identity) if position else None
        if found is not None:
            snapshots.append(found[0])
            if found[1] is not None and (refusal is None or refusal.path != path):
                flaws.append(found[1])
    return snapshots, flaws, refusal


def _opening(world: World, directory: str, identity: Identity, journal: Survey) -> Damage | None:
    """Open the snapshots as a node does after its journal, and return why that is refused."""
    where = snapshots_directory(directory)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            still = StillWorld(world, journal_directory(directory))
            snapshots = Snapshots.open(still, where, identity, SnapshotLimits(0))
            if journal.refusal is None and journal.recovered is not None:
                check_no_gap(directory, journal.recovered.terms.base + 1, snapshots.newest)
                check_membership(directory, snapshots.newest)
        except OSError as error:
            raise InvalidRequest(f"{directory} cannot be listed: {error}") from None
        except (Corrupt, CannotStart, DiskFailed) as error:
            if not _vanished(error) or attempt == _ATTEMPTS:
                return damage_of(error, where, "refused")
        else:
            return None
    raise AssertionError("the last attempt returns")


def _snapshot(
    files: Files, path: str, position: tuple[int, int], identity: Identity | None
) -> tuple[Snapshot, Damage | None] | None:
    """Check one snapshot from its first to its last byte; None where it is gone meanwhile."""
    meta: SnapshotMeta | None = None
    state: SnapshotState = "intact"
    flaw: Damage | None = None
    try:
        owner = identity or _identity(files, path)
        with SnapshotReader(files, path, owner) as reader:
            meta = reader.meta
            reader.verify()
    except Corrupt as error:
        state, flaw = "damaged", damage_of(error, path, "unread")
    except CannotStart as error:
        state, flaw = "foreign", damage_of(error, path, "unread")
    except (DiskFailed, Overloaded) as error:
        if _vanished(error):
            return None
        state, flaw = "unreadable", damage_of(error, path, "unread")
    item = Snapshot(
        index=position[0],
        term=position[1],
        path=path,
        state=state,
        file_bytes=meta.file_bytes if meta else None,
        content_bytes=meta.content_bytes if meta else None,
        chunks=meta.chunks if meta else None,
        checksum=meta.checksum.hex() if meta else None,
        config=meta.config if meta else None,
        created_ms=meta.created_ms if meta else None,
    )
    return item, flaw


def _identity(files: Files, path: str) -> Identity:
    """Return whose a snapshot says it is.

    Raises:
        Corrupt: its header is damaged.
    """
    return decode_header(path, _read(files, path, HEADER_BYTES_MAX))[0].identity


def _any_identity(files: Files, directory: str) -> Identity | None:
    """Return whose the newest snapshot with a readable header is."""
    for name in reversed(_names(files, directory)):
        if parse_name(name) is not None:
            try:
                return _identity(files, join(directory, name))
            except Corrupt:
                pass  # it is told with the file
    return None


def _vanished(error: Fatal | Overloaded | None) -> bool:
    """Return whether the error says that a file is not there any more."""
    return isinstance(error, DiskFailed) and isinstance(error.__cause__, FileNotFoundError)
