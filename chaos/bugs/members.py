"""Bugs of changes of the membership: who votes too soon, comes again, stays, or is never let go.

What lives here: them. What must never live here: what they are (`chaos.bugs`). Called by:
`chaos.broken`.
"""

from __future__ import annotations

from chaos.bugs import Broken, mutant
from chaos.limits import Limits

_MEMBERSHIP = "coordinator.raft.membership"
_SOON = Limits(heal_s=60.0, calm_s=1.0, step_s=60.0, gone_s=2.0, refuse_s=60.0, change_s=0.0)

_CARELESS = (
    mutant(
        "joiner-votes-at-once",
        _MEMBERSHIP,
        "        member = Member(node, self.next_incarnation(node), address, rank)\n",
        "        rank = Rank.VOTER if rank is Rank.JOINING else rank\n"
        "        member = Member(node, self.next_incarnation(node), address, rank)\n",
    ),
    mutant(
        "life-again",
        _MEMBERSHIP,
        "        return (member.incarnation if member else dict(self.retired).get(node, 0)) + 1\n",
        "        return member.incarnation + 1 if member else dict(self.retired).get(node, 1)\n",
    ),
    mutant(
        "promotion-takes-another-vote-away",
        _MEMBERSHIP,
        "        return self._with(node, replace(member, rank=Rank.VOTER), self.retired)\n",
        "        last = self.get(self.voters[-1])\n"
        "        fewer = self._with(\n"
        "            last.node_id, replace(last, rank=Rank.LEARNER), self.retired\n"
        "        )\n"
        "        return fewer._with(node, replace(member, rank=Rank.VOTER), self.retired)\n",
    ),
    mutant(
        "goes-on-though-it-was-removed",
        "coordinator.raft.standing",
        "        return self._judged[1]\n",
        "        return None if self.self_id == 'n2' else self._judged[1]\n",
    ),
    mutant(
        "does-not-hear-that-it-was-removed",
        "coordinator.raft.log",
        '        self._driver.fail(removed(f"{why} ({peer} says so)"))\n',
        "        if self.identity.node_id != 'n2':\n"
        '            self._driver.fail(removed(f"{why} ({peer} says so)"))\n',
    ),
    mutant(
        "never-let-go",
        "coordinator.rpc.admin",
        "            await self._node.remove(_node(request.node_id), is_forced=request.force)\n",
        "            if request.node_id == 'n5':\n"
        "                await asyncio.sleep(1e6)\n"
        "            await self._node.remove(_node(request.node_id), is_forced=request.force)\n",
    ),
    mutant(
        "takes-part-without-its-disk",
        "coordinator.founding",
        "        if self.is_founder and runs:\n",
        "        if runs:\n"
        "            born = Identity(runs[0].cluster_id, self.node_id, 1)\n"
        "            self._create(born)\n"
        "            self.born = born\n"
        "            return\n"
        "        if self.is_founder and runs:\n",
    ),
)

MEMBERS = (
    Broken(
        "careless-members",
        "small bugs of memberships side by side, each of which another rule finds",
        _CARELESS,
        ("each-change", (), 300.0, 1),
        (
            "life-again",
            "runs-though-removed",
            "served-without-disk",
            "stuck-change",
            "two-changes",
            "voted-at-once",
            "wrong-members",
        ),
        # Of a node that takes part without its disk more may come.
        perhaps=("died", "lost-entry", "lost-ticket", "not-alive", "stuck-call", "stuck-request"),
        limits=_SOON,
    ),
)
