"""A node's first start: founding a cluster, joining one, or neither.

What lives here: what an empty directory does with its flags, rounds of questions
until all is settled, and answering the door meanwhile. What must never live here:
the rules of founding (`founding`), bytes (`note`, `greeting`), a socket. Called
by: the composition root. The tasks: one that asks, and one for each question
that others ask, which the door runs.

An error here is for the operator: it says what was found, and what to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum

from coordinator.founding import Founding, adopted, born
from coordinator.note import NAME, TEMPORARY, Note, Notes
from coordinator.raft.about import NOTHING, About
from coordinator.raft.datadir import DataDirectory, claim, journal_directory
from coordinator.raft.failures import disk_errors
from coordinator.raft.greeting import (
    Adopt,
    Ask,
    Join,
    Joined,
    Refused,
    Reply,
    Request,
    refused,
)
from coordinator.raft.membership import Member, Membership, Rank
from raftbatch.errors import (
    CannotStart,
    Draining,
    Fatal,
    NoLeader,
    NoSpace,
    NotLeader,
    OutcomeUnknown,
    Overloaded,
    StaleIncarnation,
)
from raftbatch.ids import Identity, NodeId
from raftbatch.world import World, join

PAUSE_S = 0.25
"""Between two rounds of questions."""

LINGER_S = 1.0
"""How long a node that gives up goes on answering, so that those who asked hear why."""

_LATER = {kind.slug for kind in (NoLeader, NotLeader, Draining, Overloaded, NoSpace)}
_LATER.add(OutcomeUnknown.slug)  # asked again it is added again, under the next incarnation

_OURS = ("lock", NAME, TEMPORARY, "journal", "snapshots", "lost+found")

Requester = Callable[[str, Request, NodeId | None], Awaitable[Reply]]
"""Asks whoever listens at an address, a certain node or any; OSError where there is no answer."""

Create = Callable[[Identity, Membership | None], None]
"""Makes the data directory of a founder, or with None of a node that joins."""

Tell = Callable[[str, Mapping[str, object]], None]
"""Told an event, noun.verb-past, and its fields."""


class Mode(Enum):
    """What the operator says about an empty directory."""

    NEITHER = "neither"
    BOOTSTRAP = "bootstrap"
    JOIN = "join"


class Starting:
    """See the module's docstring.

    Args:
        world: its files and entropy are used.
        directory: the node's data directory.
        node_id: which node this is.
        founders: the members in its configuration.
        create: makes the data directory, durably.
        mode: the operator's flag.
        request: asks another node.
        tell: told what happens.
        about: what its configuration says that the other founders' must say too.

    Attributes:
        waiting: for whom it waits, and why, by id; for whoever shows the node's status.
    """

    def __init__(
        self,
        world: World,
        directory: str,
        node_id: NodeId,
        founders: Membership,
        create: Create,
        mode: Mode,
        request: Requester,
        tell: Tell,
        about: About = NOTHING,
    ) -> None:
        self.waiting: dict[NodeId, str] = {}
        self._world = world
        self._directory = directory
        self._node_id = node_id
        self._founders = founders
        self._make = create
        self._mode = mode
        self._request = request
        self._tell = tell
        self._about = about
        self._notes = Notes(world.files, directory)
        self._founding: Founding | None = None
        self._joined: Identity | None = None
        self._failure: Fatal | None = None
        self._changed = asyncio.Event()  # the start is over, for good or ill
        self._hurried = asyncio.Event()  # there is no reason to wait before the next round
        self._lock = claim(world, directory)

    async def run(self) -> None:
        """Return once the directory is a node's, as it may have been before.

        Raises:
            CannotStart: it cannot become one; the message says what to do.
            Corrupt, DiskFailed: the disk is not what it should be.
        """
        try:
            await self._run()
        finally:
            self._lock.release()

    async def answer(self, request: Request, _certificate: str | None) -> Reply:
        """Answer what another node asks; see `door.OnRequest`."""
        if self._joined is not None:
            return answer_born(self._joined, request)
        if self._founding is not None:
            return self._answer_founding(self._founding, request)
        match request:
            case Adopt() if self._mode is Mode.JOIN:
                text = f"{self._node_id} was started with --join, and is no founder"
                return refused(StaleIncarnation.slug, text)
            case Ask() if self._mode is Mode.JOIN:
                text = (
                    f"{self._node_id} was started with --join, which waits for a cluster that "
                    "runs: to found one start every node with --bootstrap"
                )
                return refused(NoLeader.slug, text)
            case _:
                return refused(NoLeader.slug, f"{self._node_id} is starting")

    async def _run(self) -> None:
        if DataDirectory.is_initialised(self._world, self._directory):
            self._forget_note()
            return
        self._check_empty()
        if self._mode is Mode.JOIN:
            self._notes.remove()  # what it was told before counts no more
            await self._join()
        else:
            note = self._notes.read()
            if note is None and self._mode is Mode.NEITHER:
                raise self._needs_flag()
            await self._found(note)
        self._notes.remove()
        self._waits({})

    # Founding.

    async def _found(self, note: Note | None) -> None:
        draw = self._world.entropy.random_bytes
        self._founding = founding = Founding(
            self._node_id,
            self._founders,
            note,
            self._notes.write,
            lambda identity: self._create(identity, self._founders),
            draw,
            self._about,
        )
        self._tell("founding.begun", {"founder": founding.founder})
        while True:
            had_plan = founding.plan is not None
            if had_plan:
                founding.told(await self._round(founding.orders()))
            else:
                question = founding.question()
                founding.asked(await self._round(dict.fromkeys(founding.others, question)))
            if self._failure is not None:
                raise self._failure
            if founding.outcast:
                await asyncio.sleep(LINGER_S)
                raise CannotStart(founding.outcast)
            if founding.born is not None:
                return
            self._waits(founding.waiting)
            if had_plan == (founding.plan is not None):
                await self._pause()
            self._hurried.clear()

    def _answer_founding(self, founding: Founding, request: Request) -> Reply:
        try:
            reply = founding.answer(request)
        except Fatal as error:
            self._failure = error
            reply = refused(NoLeader.slug, f"{self._node_id} stops: {error}")
        if founding.born is not None or founding.outcast or self._failure is not None:
            self._changed.set()
        if founding.is_curious:
            self._hurried.set()
        return reply

    async def _round(self, questions: Mapping[NodeId, Request]) -> dict[NodeId, Reply | str]:
        """Ask several at once; return early, with no answers, where something changes here."""
        addresses = {member.node_id: member.address for member in self._founders.members}
        asking = {
            node: asyncio.ensure_future(self._ask(addresses[node], question, node))
            for node, question in questions.items()
        }
        changed = asyncio.ensure_future(self._watch())
        try:
            pending = set(asking.values())
            while pending and not changed.done():
                done, _ = await asyncio.wait(
                    {*pending, changed}, return_when=asyncio.FIRST_COMPLETED
                )
                pending -= done
            return {node: each.result() for node, each in asking.items() if each.done()}
        finally:
            for each in (*asking.values(), changed):
                each.cancel()

    async def _watch(self) -> Reply | str:
        await self._changed.wait()
        return "it was interrupted"

    async def _ask(self, address: str, question: Request, node: NodeId | None) -> Reply | str:
        try:
            return await self._request(address, question, node)
        except OSError as error:
            return f"{address}: {str(error) or type(error).__name__}"

    # Joining.

    async def _join(self) -> None:
        others = [each for each in self._founders.members if each.node_id != self._node_id]
        if not others:
            raise CannotStart(
                f"the configuration file names {self._node_id} alone: there is nobody to ask. "
                "Name a node of the cluster that it is to join"
            )
        address = next(
            each.address for each in self._founders.members if each.node_id == self._node_id
        )
        self._tell("joining.begun", {"node": self._node_id})
        question = Join(self._node_id, address, Rank.JOINING)
        while True:
            for member in others:
                reply = await self._ask_to_join(member, question)
                if isinstance(reply, Joined):
                    identity = Identity(reply.cluster_id, self._node_id, reply.incarnation)
                    self._create(identity, None)
                    self._joined = identity
                    return
                self._waits({**self.waiting, member.node_id: reply})
            await self._pause()

    async def _ask_to_join(self, member: Member, question: Join) -> Joined | str:
        """Ask one, then the leader that it names; return why not where it is not done."""
        reply = await self._ask(member.address, question, member.node_id)
        if isinstance(reply, Refused) and reply.leader not in ("", member.address):
            reply = await self._ask(reply.leader, question, None)
        match reply:
            case Joined():
                return reply
            case Refused(slug=slug, text=text):
                if slug not in _LATER:
                    raise CannotStart(f"{self._node_id} cannot join: {text}")
                return text
            case str():
                return f"it does not answer: {reply}"
            case _:
                return f"it answered {type(reply).__name__}"

    # Both.

    def _create(self, identity: Identity, founders: Membership | None) -> None:
        self._lock.release()  # what is called claims the directory itself
        self._make(identity, founders)
        self._tell("node.born", {"cluster": identity.cluster_id, "inc": identity.incarnation})

    def _forget_note(self) -> None:
        """Remove a note that an earlier life had no time to remove.

        That life may have died before the journal's name was durable: without this
        sync a power cut could take the journal, and the note would be gone already.
        """
        journal = journal_directory(self._directory)
        with disk_errors(f"syncing {journal}"):
            if self._world.files.exists(journal):
                self._world.files.sync_directory(journal)
        self._notes.remove()

    def _check_empty(self) -> None:
        """Refuse a directory that holds what is not ours: a slip of the pen in the file."""
        try:
            names = self._world.files.list(self._directory)
        except OSError as error:
            raise CannotStart(f"{self._directory} cannot be used: {error}") from None
        foreign = [name for name in names if name not in _OURS and not name.startswith(".")]
        if foreign:
            raise CannotStart(
                f"{self._directory} holds {join(self._directory, foreign[0])} and no journal: "
                "name an empty directory as data_dir"
            )

    def _needs_flag(self) -> CannotStart:
        return CannotStart(
            f"{self._directory} is empty. If the cluster is new, start every node with "
            f"--bootstrap; if it runs already, and {self._node_id} is new or has lost its disk, "
            "start it with --join. Nothing else is safe: a node that has forgotten its votes "
            "must not vote again"
        )

    def _waits(self, waiting: dict[NodeId, str]) -> None:
        """Tell for whom this node waits, once for each reason."""
        for node, why in waiting.items():
            if self.waiting.get(node) != why:
                self._tell("node.waited", {"for": node, "why": why})
        self.waiting = dict(waiting)

    async def _pause(self) -> None:
        waits = [asyncio.ensure_future(each.wait()) for each in (self._changed, self._hurried)]
        try:
            await asyncio.wait(waits, timeout=PAUSE_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()


def answer_born(identity: Identity, request: Request) -> Reply:
    """Answer for a node that belongs to a cluster, but cannot let others join. Total."""
    match request:
        case Ask():
            return born(identity)
        case Adopt():
            return adopted(identity, request)
        case Join():
            return refused(NoLeader.slug, f"{identity.node_id} is starting")
