"""The operator of the raft suite: machines come and go, disks are lost, members are changed.

A machine whose disk was lost does not start again by itself: its node is added
under a new incarnation first, as the product's front door would do for one that
asks to join. The operator loses disks, and removes members, only as far as no
majority of any membership that might come to be in force is lost: what Raft
cannot survive shows nothing.

What lives here: that operator. What must never live here: what must hold
(`chaos.checkers`), other faults (`chaos.nemesis`). Called by: `chaos.suites.raft`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from random import Random
from typing import Any

from chaos.checkers.raft import Life, RaftChecker
from chaos.worlds.cluster import SimCluster
from coordinator.raft.membership import Member, Membership, Rank
from raftbatch.errors import Fatal, RaftbatchError
from raftbatch.ids import NodeId

_NEW_MACHINES_MAX = 3
_RETRY_S = 0.4  # one that joins asks again
_STRIKES = ("grow", "wipe", "wipe", "remove", "remove_leader", "promote", "move")


class Operator:
    """See the module's docstring.

    Args:
        cluster: the machines.
        checker: knows all logs.
        leader: who leads, as far as anybody can tell.
        per_s: changes a second; 0: there are none.
        rng: all is drawn from it.

    Attributes:
        lives: which incarnation a machine's disk holds; None where it is empty, and the node
            must not start.
        counts: what was done.
    """

    def __init__(
        self,
        cluster: SimCluster,
        checker: RaftChecker,
        leader: Callable[[], NodeId | None],
        per_s: float,
        rng: Random,
    ) -> None:
        self._cluster = cluster
        self._checker = checker
        self._leader = leader
        self._per_s = per_s
        self._rng = rng
        self._is_over = False
        self._machines_max = len(cluster.nodes) + _NEW_MACHINES_MAX
        self._joining: dict[NodeId, Rank] = {}  # machines whose nodes ask to be added
        self._open: list[Life] = []  # whom a change was asked of that may still come to be
        self.lives: dict[NodeId, int | None] = dict.fromkeys(cluster.nodes, 1)
        self.counts: Counter[str] = Counter()

    def begin(self) -> None:
        """Change things from now on."""
        if self._per_s:
            self._cluster.loop.after(_RETRY_S, self._ask_to_join)
            self._strike_later()

    def end(self) -> None:
        """Change nothing more, but for what must be done to have a whole cluster again."""
        self._is_over = True

    def gone(self, node: NodeId) -> None:
        """Take in that a node has ended as a member no more: its disk is emptied."""
        self.counts["removed"] += 1
        self._cluster.loop.after(0, self._empty, node, Rank.JOINING if self._draws(0.5) else None)

    def is_whole(self) -> str | None:
        """Return what keeps the cluster from being whole; None if it is."""
        checker = self._checker
        members = checker.members.committed
        if self._joining:
            return f"{' '.join(self._joining)} ask to join"
        if checker.members.everywhere() != [members]:
            return f"not all are in {members}"
        if any(member.rank is Rank.JOINING for member in members.members):
            return f"one has not caught up: {members}"
        lives = {node: life.log.identity.incarnation for node, life in checker.lives.items()}
        wanted = {member.node_id: member.incarnation for member in members.members}
        return None if lives == wanted else f"{lives} live, of {wanted}"

    # What is done.

    def _strike_later(self) -> None:
        self._cluster.loop.after(self._rng.expovariate(self._per_s), self._strike)

    def _strike(self) -> None:
        if self._is_over:
            return
        name = self._rng.choice(_STRIKES)
        getattr(self, f"_{name}")()
        self._strike_later()

    def _grow(self) -> None:
        """Let a machine join that is new, or was emptied."""
        cluster = self._cluster
        spare = [node for node, life in self.lives.items() if life is None]
        spare = [node for node in spare if node not in self._joining]
        if not spare and len(cluster.nodes) < self._machines_max:
            node = NodeId(f"n{len(cluster.nodes) + 1}")
            cluster.add(node)
            self.lives[node] = None
            spare = [node]
        if spare:
            rank = Rank.LEARNER if self._draws(0.3) else Rank.JOINING
            self._joining[self._rng.choice(spare)] = rank

    def _wipe(self) -> None:
        """Lose a disk; the node joins anew."""
        nodes = [node for node, life in self.lives.items() if life is not None]
        node = self._rng.choice(nodes) if nodes else None
        if node is not None and not self._is_open() and self._may_lose(node):
            self.counts["wipes"] += 1
            self._empty(node, Rank.JOINING)

    def _remove(self) -> None:
        """Remove any member."""
        membership = self._membership()
        if membership is not None:
            self._remove_one(self._rng.choice(membership.members).node_id)

    def _remove_leader(self) -> None:
        leader = self._leader()
        if leader is not None:
            self._remove_one(leader)

    def _remove_one(self, node: NodeId) -> None:
        membership = self._membership()
        if membership is None or self._is_open() or membership.get(node) is None:
            return
        without = tuple(each for each in membership.members if each.node_id != node)
        if self._has_majority(without, None):
            self._ask(partial(self._removal, node), lambda _: None)

    def _promote(self) -> None:
        membership = self._membership()
        learners = [each for each in membership.members if not each.votes] if membership else []
        if learners:
            node = self._rng.choice(learners).node_id
            self._ask(lambda life: life.log.promote(node), lambda _: None)

    def _move(self) -> None:
        membership = self._membership()
        if membership is not None:
            node = self._rng.choice(membership.members).node_id
            address = f"{node}:{self._rng.randint(1, 9)}"
            self._ask(lambda life: life.log.move(node, address), lambda _: None)

    # Machines.

    def _empty(self, node: NodeId, rank: Rank | None) -> None:
        """Put an empty disk into a machine; with a rank, its node asks to be added."""
        self._cluster.kill(node, power=True)
        self._cluster.machines[node].wipe()
        self._checker.loses(node)
        self.lives[node] = None
        self._joining.pop(node, None)
        if rank is not None and not self._is_over:
            self._joining[node] = rank

    def _ask_to_join(self) -> None:
        """Let those that want to be added ask; and when all is over, tidy up."""
        for node, rank in list(self._joining.items()):
            self._ask(partial(self._add, node, rank), partial(self._added, node))
        if self._is_over and not self._joining:
            self._tidy_up()
        self._cluster.loop.after(_RETRY_S, self._ask_to_join)

    def _add(self, node: NodeId, rank: Rank, life: Life) -> Coroutine[Any, Any, Member]:
        return life.log.add(node, f"{node}:1", rank)

    def _added(self, node: NodeId, member: Member) -> None:
        """Start a node whose membership is committed, if it still waits for that."""
        if self._joining.pop(node, None) is not None:
            self.counts["joins"] += 1
            self.lives[node] = member.incarnation
            self._checker.joins(node, member.incarnation)
            self._cluster.start(node)

    def _tidy_up(self) -> None:
        """Remove members whose machine is none: their answer was lost."""
        membership = self._membership()
        for member in membership.members if membership else ():
            if self._is_lost(member):
                node = member.node_id
                self._ask(partial(self._removal, node), lambda _: None)
                return

    def _removal(self, node: NodeId, life: Life) -> Coroutine[Any, Any, None]:
        return life.log.remove(node)

    # What may be lost.

    def _is_lost(self, member: Member) -> bool:
        return self.lives.get(member.node_id) != member.incarnation

    def _may_lose(self, node: NodeId) -> bool:
        """Whether every membership that may come to be in force would keep its majority."""
        everywhere = self._checker.members.everywhere()
        return all(self._has_majority(each.members, node) for each in everywhere)

    def _has_majority(self, members: tuple[Member, ...], node: NodeId | None) -> bool:
        for voters in _electorates(members):
            there = [each for each in voters if each.node_id != node and not self._is_lost(each)]
            if len(there) <= len(voters) // 2:
                return False
        return True

    # Asking the leader.

    def _membership(self) -> Membership | None:
        leader = self._leader()
        life = self._checker.lives.get(leader) if leader is not None else None
        return life.log.membership if life is not None else None

    def _is_open(self) -> bool:
        """Whether a change that was asked for may still come to be, though nobody knows."""
        lives = self._checker.lives
        self._open = [life for life in self._open if lives.get(life.node) is life]
        return bool(self._open)

    def _ask(
        self,
        change: Callable[[Life], Coroutine[Any, Any, Any]],
        done: Callable[[Any], None],
    ) -> None:
        """Ask the leader for a change, as its process; what comes of it is told to us."""
        leader = self._leader()
        life = self._checker.lives.get(leader) if leader is not None else None
        world = self._cluster.machines[leader].node if leader is not None else None
        if life is None or world is None or not world.alive:
            return
        loop = self._cluster.loop
        self._open.append(life)

        async def asked() -> None:
            try:
                result = await change(life)
            except (RaftbatchError, Fatal):
                pass
            else:
                self.counts["changed"] += 1
                loop.after(0, done, result)
            finally:
                if life in self._open:
                    self._open.remove(life)

        loop.deliver_at(loop.now_ns, world.process, lambda: loop.create_task(asked()))

    def _draws(self, chance: float) -> bool:
        return self._rng.random() < chance


def _electorates(members: tuple[Member, ...]) -> Iterator[list[Member]]:
    """Yield the voters, and the voters with each learner that may be promoted."""
    voters = [each for each in members if each.votes]
    yield voters
    for learner in members:
        if not learner.votes:
            yield [*voters, learner]
