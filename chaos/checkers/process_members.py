"""The memberships that the nodes' logs tell of: one change at a time, and no life votes at once.

What lives here: the promises about them. What must never live here: a request's story. Called by:
`chaos.running`. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from chaos.checkers.process_logs import merged
from chaos.checkers.process_values import Evidence, Finding
from coordinator.raft.membership import Membership, decode


def memberships(evidence: Evidence, nodes: Sequence[str] = ()) -> Iterator[Finding]:
    """Yield what is wrong with the memberships that were committed, in log order.

    Args:
        evidence: of the run.
        nodes: who is to be a member in the end; none: that is not known.
    """
    found: list[tuple[int, Membership]] = []
    for index, entry in sorted(merged(evidence.logs, evidence.committed).items()):
        if entry.is_config:
            found.append((index, decode(entry.data)))
    for (_, before), (index, after) in pairwise(found):
        yield from _changed(index, before, after)
    if found and nodes:
        index, last = found[-1]
        members = {str(each.node_id) for each in last.members}
        if members != set(nodes):
            yield Finding(
                "wrong-members",
                f"since index {index} the members are {last}, and those that were added and not "
                f"removed are {' '.join(nodes)}",
            )


def _changed(index: int, before: Membership, after: Membership) -> Iterator[Finding]:
    """Yield what one change may not do."""
    lives = {each.node_id: each.incarnation for each in before.members} | dict(before.retired)
    voted = {(each.node_id, each.incarnation) for each in before.members if each.votes}
    votes = {(each.node_id, each.incarnation) for each in after.members if each.votes}
    if len(set(before.voters) ^ set(after.voters)) > 1:
        yield Finding(
            "two-changes", f"index {index} makes {after} of {before}: more than one voter differs"
        )
    for node, incarnation in sorted(votes - voted):
        was = before.get(node)
        if was is None or was.incarnation != incarnation:
            yield Finding(
                "voted-at-once",
                f"index {index} lets {node} vote, as incarnation {incarnation}, which was no "
                "learner before",
            )
    for each in after.members:
        was_life = lives.get(each.node_id, 0)
        member = before.get(each.node_id)
        if each.incarnation < was_life or (member is None and each.incarnation == was_life):
            yield Finding(
                "life-again",
                f"index {index} adds {each.node_id} as incarnation {each.incarnation}, and it had "
                f"incarnation {was_life} before",
            )
