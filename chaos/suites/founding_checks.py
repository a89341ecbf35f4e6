"""What must hold of first starts, whatever happens, seen from above all nodes.

- One cluster: as long as one directory of a cluster that had a majority of the
  founders' directories is left, no other cluster has a majority.
- Consent: whoever is told to adopt a cluster, all founders had said to its founder,
  on its present disk, that they are empty.
- No ghosts: whoever is adopted is named by a token that its present disk drew.
- One plan: nobody is adopted by a plan after it has said Empty to a later disk of the founder.
- Chance: no two plans have the same cluster id.
- Patience: nobody is told to join whose disk is the first, and the founder's too.

What lives here: these. What must never live here: how the product keeps them.
Called by: `chaos.suites.founding`, tests of founding.
"""

from __future__ import annotations

from collections import defaultdict

from chaos.suites.founding_world import FoundingWorld
from coordinator.raft.greeting import Adopt, Adopted, Ask, Empty, Reply, Request
from raftbatch.errors import CannotStart, Fatal
from raftbatch.ids import ClusterId, Identity, NodeId


class FoundingChecks:
    """See the module's docstring; a `Witness`.

    Attributes:
        world: what is watched; set before anything runs.
        violations: what was broken, in words.
        counts: of what happened, to see that a suite is not blind.
    """

    def __init__(self) -> None:
        self.world: FoundingWorld | None = None
        self.violations: list[str] = []
        self.counts: dict[str, int] = defaultdict(int)
        self._drawn: dict[tuple[NodeId, int], set[bytes]] = defaultdict(set)
        self._consents: dict[bytes, set[NodeId]] = defaultdict(set)  # by the asker's token
        self._heard: dict[NodeId, tuple[NodeId, int]] = {}  # whose disk was last told Empty
        self._plans: dict[ClusterId, tuple[NodeId, int]] = {}
        self._led: set[ClusterId] = set()  # clusters that had a majority, and are not all lost

    def drawn(self, node: NodeId, disk: int, token: bytes) -> None:
        """Take note of who drew it."""
        self._drawn[node, disk].add(token)

    def asked(self, node: NodeId, request: Request) -> None:
        """Hold a plan against what all had said."""
        if not isinstance(request, Adopt):
            return
        here = (node, self._disk(node))
        owner = self._plans.setdefault(request.cluster_id, here)
        if owner != here:
            self._break(f"{node} founds {request.cluster_id} again, which {owner} has founded")
        consents = set[NodeId]()
        for token in self._drawn[here]:
            consents |= self._consents.get(token, set())
        missing = set(request.founders.voters) - consents - {node}
        if missing:
            self._break(f"{node} founds a cluster, but {sorted(missing)} never said Empty to it")

    def answered(self, node: NodeId, request: Request, reply: Reply) -> None:
        """Take note of consent, and hold adoption against tokens."""
        self.counts[type(reply).__name__.lower()] += 1
        match request, reply:
            case Ask(), Empty():
                self._consents[request.token].add(node)
                if request.node_id == min(self._seats()):
                    self._heard[node] = next(
                        owner for owner, drawn in self._drawn.items() if request.token in drawn
                    )
            case Adopt(), Adopted():
                if request.token not in self._drawn[node, self._disk(node)]:
                    self._break(f"{node} was adopted under a token that its disk never drew")
                if self._plans[request.cluster_id] != self._heard.get(node):
                    self._break(f"{node} was adopted by a plan that is lost")

    def born(self, node: NodeId, identity: Identity) -> None:
        """Count directories."""
        self.counts["directories"] += 1
        self.counts["joined"] += identity.incarnation > 1
        self.count_directories()

    def wiped(self, node: NodeId) -> None:
        """Count directories."""
        self.counts["wiped"] += 1
        self.count_directories()

    def ended(self, node: NodeId, error: Fatal) -> None:
        """Hold a refusal against what happened to the disks."""
        self.counts["refusals"] += 1
        if not isinstance(error, CannotStart):
            self._break(f"{node} ended: {error!r}")
            return
        founder = min(self._seats())
        text = str(error)
        if "--join" not in text and "--bootstrap" not in text and f"start {founder}" not in text:
            self._break(f"{node} ended, and says not what to do: {text}")
        if "with what" in text and self._disk(node) == 1:
            self._break(f"{node} takes itself for one that lost its disk: {text}")
        is_excused = f"start {founder} again" in text or "are no majority" in text
        if self._disk(node) == self._disk(founder) == 1 and not is_excused:
            self._break(f"{node} gave up, but neither it nor {founder} lost its disk: {text}")

    def count_directories(self) -> None:
        """Find which cluster has a majority."""
        assert self.world is not None
        clusters = defaultdict(list)
        for node in self.world.seats:
            identity = self.world.identity(node)
            if identity is not None:
                clusters[identity.cluster_id].append(node)
        self._led = {each for each in self._led if each in clusters}
        for cluster, nodes in clusters.items():
            if len(nodes) > len(self.world.seats) // 2:
                self._led.add(cluster)
        if len(self._led) > 1:
            self._break(f"two clusters have had a majority, and both have directories: {clusters}")

    def unfinished(self) -> list[NodeId]:
        """Return founders that with those in their plan are a majority, and do not serve."""
        assert self.world is not None
        found = []
        for cluster, (node, disk) in self._plans.items():
            inside = [self.world.identity(each) for each in self.world.seats if each != node]
            count = 1 + sum(each is not None and each.cluster_id == cluster for each in inside)
            is_planned = disk == self._disk(node) and not self.world.seats[node].is_serving
            if is_planned and count > len(self.world.seats) // 2:
                found.append(node)
        return found

    def _seats(self) -> list[NodeId]:
        assert self.world is not None
        return list(self.world.seats)

    def _disk(self, node: NodeId) -> int:
        assert self.world is not None
        return self.world.seats[node].disk

    def _break(self, promise: str) -> None:
        assert self.world is not None
        self.violations.append(f"{self.world.loop.time():.4f} s: {promise}")
