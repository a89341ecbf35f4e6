"""How a cluster begins: who says what, and when a node may believe it.

A node with an empty directory could be new, or one that has lost its disk: then
it has forgotten votes and entries that count, and must not take part as itself.
Nothing on the node tells the two apart, so the others must:

1. Before a node says *Empty* it durably notes a random token. A node that lost its
   disk has another.
2. The founder is the configured node of lowest id. It asks all others until every
   one of them has said Empty with the same founders within one round: silence is
   not consent, since those who are silent may be the cluster that runs already.
3. It draws a cluster id and durably notes its plan: the id, and every token.
4. It tells each of them to Adopt the id, naming the token. A node whose token is
   another has lost its disk since, and is not adopted: it must join.
5. It creates its own directory last, when all others have adopted the id or have
   been found to have lost their disks. So a founder that says *Born* has adopted
   everybody it ever will: whoever is still empty then learns from it for certain
   that it must join. A founder that went first could be lost together with the
   plan while some had not been told; they would be neither in nor out.

A restart goes on from the note, so a crash at any point is harmless. A founder
that lost its disk has another token. Whoever learns of it draws its own anew, so
that the lost plan can adopt nobody any more; and learns of it by asking, since a
question may arrive after a later one, but an answer is never older than what it
answers. So nobody says Empty to a founder that it has not asked.

What lives here: the rules, as a state machine over one note. What must never live
here: a connection, a clock, a decision to try again (`starting`). Called by:
`starting`. Source: docs/OPERATIONS.md, "First start".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from coordinator.note import Note, Plan
from coordinator.raft.about import NOTHING, About
from coordinator.raft.greeting import (
    TOKEN_BYTES,
    Adopt,
    Adopted,
    Ask,
    Born,
    Empty,
    Join,
    Refused,
    Reply,
    Request,
    refused,
)
from coordinator.raft.membership import Membership
from raftbatch.errors import CannotStart, InvalidRequest, NoLeader, StaleIncarnation
from raftbatch.ids import ClusterId, Identity, NodeId

Draw = Callable[[int], bytes]
"""Returns so many random bytes."""

CLUSTER_ID_BYTES = 16

_PAST_MAX = 16

DOUBTS_MAX = 40
"""Rounds in which others were born and the founder silent, before a node gives up."""


class Founding:
    """A node that was started with `--bootstrap` on an empty directory.

    Args:
        node_id: this node.
        founders: the members in its configuration; it is one of them.
        note: what an earlier life noted; None where there is none.
        keep: writes a note durably, or raises `Fatal`.
        create: makes the data directory durably, or raises `Fatal`.
        draw: the source of tokens and ids.
        about: what its configuration says that theirs must say too.

    Attributes:
        born: whose directory was made; None before.
        outcast: why this node must join instead; empty while that is not so.
        waiting: for whom it waits, and why, by id.
        is_curious: whether to ask at once, since there is a founder that was not heard.

    Raises:
        CannotStart: the note is another node's, or a plan of other founders.
    """

    def __init__(
        self,
        node_id: NodeId,
        founders: Membership,
        note: Note | None,
        keep: Callable[[Note], None],
        create: Callable[[Identity], None],
        draw: Draw,
        about: About = NOTHING,
    ) -> None:
        self.node_id = node_id
        self.founders = founders
        self._about = about
        self.born: Identity | None = None
        self.outcast = ""
        self.waiting: dict[NodeId, str] = {}
        self.is_curious = False
        self.others = tuple(node for node in founders.voters if node != node_id)
        self.founder = min(founders.voters)
        self._keep = keep
        self._create = create
        self._draw = draw
        self._settled: set[NodeId] = set()  # adopted, or found to have lost their disks
        self._lost: set[NodeId] = set()  # the latter
        self._doubts = 0
        self._note = self._begin(note)

    def _begin(self, note: Note | None) -> Note:
        """Go on from a note, or write the first."""
        if note is not None and note.node_id != self.node_id:
            raise CannotStart(
                f"this data directory was begun by {note.node_id}, but this node is "
                f"{self.node_id}: give each node a directory of its own"
            )
        if note is not None and note.founders == self.founders:
            return note
        if note is not None and note.plan is not None:
            raise CannotStart(
                f"{self.node_id} has begun to found cluster {note.plan.cluster_id} with other "
                f"members than the configuration file names now: "
                f"{difference(note.founders, self.founders)}. Put the file back until the cluster "
                "runs, then change its members with `raftbatch members`"
            )
        note = Note(self.node_id, self.founders, self._draw(TOKEN_BYTES))
        self._keep(note)
        return note

    @property
    def is_founder(self) -> bool:
        """Whether this node founds the cluster."""
        return self.node_id == self.founder

    @property
    def plan(self) -> Plan | None:
        """What the founder has decided."""
        return self._note.plan

    # What others ask.

    def answer(self, request: Request) -> Reply:
        """Answer a question; what the answer promises is durable before it is returned."""
        match request:
            case Ask():
                return self._answer_ask(request)
            case Adopt():
                return self._answer_adopt(request)
            case Join(node_id=node):
                text = f"{node} cannot join yet: {self.node_id} waits for the cluster's first start"
                return refused(NoLeader.slug, text)

    def _answer_ask(self, ask: Ask) -> Reply:
        if self.born is not None:
            return born(self.born)
        if stranger := self._refuse_stranger(ask):
            return stranger
        if ask.node_id == self.founder and not self.is_founder and ask.token != self._note.asker:
            self.is_curious = True
            text = f"{self.node_id} has not heard from {self.founder} yet"
            return refused(NoLeader.slug, text)
        return Empty(self.node_id, self._note.token, self.founders, self._about)

    def _learn_founder(self, token: bytes) -> None:
        """Take in the founder's token; under another one before it, this node's is told anew."""
        if token != self._note.asker:
            note = replace(self._note, asker=token)
            if self._note.asker:
                past = (*self._note.past, self._note.token)[-_PAST_MAX:]
                note = replace(note, token=self._draw(TOKEN_BYTES), past=past)
            self._keep(note)
            self._note = note

    def _answer_adopt(self, adopt: Adopt) -> Reply:
        if self.born is not None:
            return adopted(self.born, adopt)
        if stranger := self._refuse_stranger(adopt):
            return stranger
        if adopt.node_id != self.founder or self.is_founder:
            text = f"{self.node_id} is adopted by {self.founder} alone, not by {adopt.node_id}"
            return refused(InvalidRequest.slug, text)
        if adopt.token in self._note.past:
            text = f"{self.founder} has lost the plan of cluster {adopt.cluster_id} since"
            return refused(InvalidRequest.slug, text)
        if adopt.token != self._note.token:
            self.outcast = _outcast(self.node_id, adopt.cluster_id)
            return refused(StaleIncarnation.slug, self.outcast)
        identity = Identity(adopt.cluster_id, self.node_id, 1)
        self._create(identity)
        self.born = identity
        return Adopted(self.node_id)

    def _refuse_stranger(self, asked: Ask | Adopt) -> Refused | None:
        """Refuse whoever means to found another cluster than this node."""
        node = asked.node_id
        if other := self._other_file(node, asked.founders, asked.about):
            text = f"{self.node_id} has another configuration file than {node}: {other}"
            return refused(InvalidRequest.slug, f"{text}. All founders need the same")
        if node not in self.founders.voters:
            text = f"{node} is not in the configuration file of {self.node_id}"
            return refused(InvalidRequest.slug, text)
        return None

    def _other_file(self, node: NodeId, founders: Membership, about: About) -> str:
        """Say how the file of a node differs from this one's; empty where it does not."""
        if founders != self.founders:
            return difference(self.founders, founders)
        found = self._about.differences(about)
        return "; ".join(each.text(self.node_id, node) for each in found)

    # What this node asks.

    def question(self) -> Ask:
        """Return what to ask the others while there is no plan."""
        return Ask(self.node_id, self._note.token, self.founders, self._about)

    def orders(self) -> dict[NodeId, Adopt]:
        """Return whom the founder has still to tell of its plan."""
        plan = self._note.plan
        assert plan is not None
        return {
            node: Adopt(self.node_id, plan.cluster_id, token, self.founders, self._about)
            for node, token in plan.tokens
            if node not in self._settled
        }

    def asked(self, replies: Mapping[NodeId, Reply | str]) -> None:
        """Take in one round of answers to `question`: with all consenting there is a plan.

        Args:
            replies: by whom; a text where there was none, which says why.

        Raises:
            CannotStart: the cluster runs already, or seems to, and the founder is silent.
        """
        if self.born is not None:
            return
        runs = [each for each in replies.values() if isinstance(each, Born)]
        if self.is_founder and runs:
            raise _runs_already(self.node_id, runs[0])
        found = replies.get(self.founder)
        if isinstance(found, Born):
            raise _runs_already(self.node_id, found)
        if not self.is_founder:
            self.is_curious = False
            if isinstance(found, Empty) and found.founders == self.founders:
                self._learn_founder(found.token)
            self.waiting = {self.founder: self._why_founder(found, runs)}
            self._doubts = self._doubts + 1 if runs and not isinstance(found, Empty) else 0
            if self._doubts > DOUBTS_MAX:
                raise CannotStart(f"{self.founder}: {self.waiting[self.founder]}")
            return
        self.waiting = {
            node: why
            for node in self.others
            if (why := self._why_not(node, replies.get(node, "it was not asked")))
        }
        if not self.waiting:
            tokens = tuple((node, _token(replies[node])) for node in self.others)
            cluster_id = ClusterId(self._draw(CLUSTER_ID_BYTES).hex())
            note = replace(self._note, plan=Plan(cluster_id, tokens))
            self._keep(note)
            self._note = note

    def told(self, replies: Mapping[NodeId, Reply | str]) -> None:
        """Take in answers to `orders`: with all settled the founder is born.

        Raises:
            CannotStart: too few have kept their disks, or one is of another cluster.
        """
        plan = self._note.plan
        assert plan is not None
        self.waiting = {}
        for node, reply in replies.items():
            match reply:
                case Adopted(node_id=who) if who == node:
                    self._settled.add(node)
                case Refused(slug=StaleIncarnation.slug):
                    self._settled.add(node)
                    self._lost.add(node)
                case Born(cluster_id=other) if other != plan.cluster_id:
                    raise _runs_already(self.node_id, reply)
                case Born(node_id=who) if who == node:
                    self._settled.add(node)  # it lost its disk, and has joined since
                case Refused(text=text):
                    self.waiting[node] = text
                case str():
                    self.waiting[node] = _silent(reply)
                case _:
                    self.waiting[node] = f"it answered {type(reply).__name__}"
        kept = len(self.founders.voters) - len(self._lost)
        if kept < len(self.founders.voters) // 2 + 1:
            raise CannotStart(
                f"{', '.join(sorted(self._lost))} lost their disks while {self.node_id} was "
                f"founding cluster {plan.cluster_id}: the rest are no majority. If it has never "
                "served, empty the data directories of all nodes, and start them again with "
                "--bootstrap"
            )
        if len(self._settled) == len(self.others):
            identity = Identity(plan.cluster_id, self.node_id, 1)
            self._create(identity)
            self.born = identity

    def _why_not(self, node: NodeId, reply: Reply | str) -> str:
        """Say why an answer is no consent; empty where it is."""
        match reply:
            case Empty(node_id=who) if who != node:
                return f"{who} answers at its address"
            case Empty():
                other = self._other_file(node, reply.founders, reply.about)
                return f"it has another configuration file: {other}" if other else ""
            case Refused(text=text):
                return text
            case str():
                return _silent(reply)
            case _:
                return f"it answered {type(reply).__name__}"

    def _why_founder(self, reply: Reply | str | None, runs: list[Born]) -> str:
        """Say why a node that is no founder waits for the one who is."""
        match reply:
            case Empty():
                if other := self._other_file(self.founder, reply.founders, reply.about):
                    return f"it has another configuration file: {other}"
                return "it waits for others, or is about to tell this node"
            case Refused(text=text):
                return text
            case str() if runs:
                return (
                    f"{_silent(reply)}, but {runs[0].node_id} says that cluster "
                    f"{runs[0].cluster_id} runs already. If this is a first start that was "
                    f"interrupted, start {self.founder} again; if {self.node_id} or "
                    f"{self.founder} has lost its disk, stop this node and start it with --join"
                )
            case str():
                return _silent(reply)
            case _:
                return "it gave another answer"


def born(identity: Identity) -> Born:
    """Return the answer of a node that belongs to a cluster. Total. Deterministic."""
    return Born(identity.cluster_id, identity.node_id, identity.incarnation)


def adopted(identity: Identity, adopt: Adopt) -> Reply:
    """Return the answer to Adopt of a node that belongs to a cluster. Total. Deterministic."""
    if identity.cluster_id == adopt.cluster_id and identity.incarnation == 1:
        return Adopted(identity.node_id)
    return born(identity)


def difference(here: Membership, there: Membership) -> str:
    """Say how two sets of founders differ, the first one's words first. Total. Deterministic."""
    ours = {member.node_id: member.address for member in here.members}
    theirs = {member.node_id: member.address for member in there.members}
    parts = []
    for node in sorted(ours.keys() | theirs.keys()):
        one, other = ours.get(node), theirs.get(node)
        if one != other:
            parts.append(f"{node} at {one or 'no address'} against {other or 'no address'}")
    return "; ".join(parts) or "members of other ranks"


def _token(reply: Reply | str) -> bytes:
    assert isinstance(reply, Empty)
    return reply.token


def _silent(reason: str) -> str:
    return f"it does not answer: {reason}"


def _runs_already(node: NodeId, reply: Born) -> CannotStart:
    return CannotStart(
        f"this cluster runs already: {reply.node_id} belongs to cluster {reply.cluster_id}, but "
        f"the data directory of {node} is empty. If its disk was lost, or it is new, add it: "
        f"raftbatch serve --node {node} --config FILE --join"
    )


def _outcast(node: NodeId, cluster: ClusterId) -> str:
    return (
        f"cluster {cluster} was founded with what {node} had on its disk before, which is lost: "
        f"add it again: raftbatch serve --node {node} --config FILE --join"
    )
