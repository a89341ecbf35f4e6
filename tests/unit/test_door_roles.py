"""The peer port lets in whose certificate is a coordinator's, and nobody else."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from coordinator.raft import greeting
from coordinator.raft.door import request
from coordinator.raft.greeting import Join, Joined, Refused, Reply
from coordinator.raft.membership import Rank
from raftbatch.errors import PermissionDenied, RaftbatchError
from raftbatch.ids import NodeId
from tests.unit.memory_network import Certificate, run
from tests.unit.test_door import ASK, AT, CLUSTER, EMPTY, HELLO, N1, N2, House, heard


def test_door_lets_in_whose_certificate_is_a_coordinators_alone() -> None:
    """A client's certificate may bear the name of a node that nobody knows, and joins nothing."""
    asked: list[tuple[str | None, Sequence[str]]] = []

    def why_no_peer(name: str | None, uris: Sequence[str]) -> RaftbatchError | None:
        asked.append((name, uris))
        is_peer = "raftbatch://role/peer" in uris
        return None if is_peer else PermissionDenied("it lacks the role peer")

    async def main() -> None:
        house = House(Certificate("n2"))
        house.door.why_no_peer = why_no_peer
        await house.door.open()
        client = Certificate("n1", ("raftbatch://role/client",))
        peer = Certificate("n1", ("raftbatch://role/client", "raftbatch://role/peer"))
        for first in (HELLO, ASK, Join(N1, "n1:1", Rank.JOINING)):
            answer = await heard(await house.say(greeting.encode(first), client))
            assert answer == Refused("permission_denied", "it lacks the role peer")
        assert (house.hellos, house.asked) == ([], [])
        assert house.counters.values == {"door.no_peer": 3}
        assert house.door.refusals.by_peer["n1"].reason == "permission_denied"
        assert await heard(await house.say(greeting.encode(ASK), peer)) == EMPTY
        assert asked == [("n1", client.uris)] * 3 + [("n1", peer.uris)]
        await house.door.close()

    run(main())


def test_request_of_any_node_asks_nothing_of_who_is_none() -> None:
    async def main() -> None:
        house = House(Certificate("n2"))
        await house.door.open()
        join = Join(N1, "n1:1", Rank.JOINING)

        async def ask(node: NodeId | None, why: str) -> Reply:
            error = PermissionDenied(why) if why else None
            return await request(
                house.network, AT, Certificate("n1"), join, 1.0, node=node,
                why_no_peer=lambda _name, _uris: error,
            )  # fmt: skip

        house.reply = lambda: Joined(CLUSTER, 2)
        with pytest.raises(ConnectionError, match="n2 has no role"):
            await ask(None, "n2 has no role")
        assert house.asked == [], "nothing was asked of it"
        assert await ask(None, "") == Joined(CLUSTER, 2)
        assert await ask(N2, "of a node that is named its name is enough") == Joined(CLUSTER, 2)
        await house.door.close()

    run(main())
