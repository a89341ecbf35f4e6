"""Shapes of partitions: which directions each of them cuts. Total. Deterministic.

What lives here: sets of directions, as lists in a fixed order. What must never
live here: the links themselves. Called by: `chaos.nemesis`, tests.
"""

from __future__ import annotations

from collections.abc import Sequence

from chaos.worlds.links import Pair
from raftbatch.ids import NodeId


def both(one: NodeId, other: NodeId) -> list[Pair]:
    """Cut two nodes off from each other."""
    return [(one, other), (other, one)]


def between(some: Sequence[NodeId], others: Sequence[NodeId]) -> list[Pair]:
    """Cut two groups off from each other."""
    return [pair for one in some for other in others for pair in both(one, other)]


def around(node: NodeId, nodes: Sequence[NodeId]) -> list[Pair]:
    """Cut a node off from all others."""
    return between([node], [other for other in nodes if other != node])


def deaf(node: NodeId, nodes: Sequence[NodeId]) -> list[Pair]:
    """Let a node hear nobody, while all hear it."""
    return [(other, node) for other in nodes if other != node]


def mute(node: NodeId, nodes: Sequence[NodeId]) -> list[Pair]:
    """Let nobody hear a node, while it hears all."""
    return [(node, other) for other in nodes if other != node]


def ring(nodes: Sequence[NodeId]) -> list[Pair]:
    """Leave each node its two neighbours in the order given; every majority differs."""
    count = len(nodes)
    return [
        (nodes[one], nodes[other])
        for one in range(count)
        for other in range(count)
        if one != other and (one - other) % count not in (1, count - 1)
    ]


def bridge(middle: NodeId, some: Sequence[NodeId], others: Sequence[NodeId]) -> list[Pair]:
    """Cut two groups off from each other that both see the node in the middle."""
    return between(
        [node for node in some if node != middle], [node for node in others if node != middle]
    )
