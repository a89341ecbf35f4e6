"""Which nodes an executor knows, as they come, go and move, and who is asked after whom."""

from __future__ import annotations

import asyncio

from executor.nodes import Nodes
from raftbatch.v1 import gateway_pb2


def reply(leader: str = "", **nodes: str) -> gateway_pb2.NodesReply:
    """Return what a node says."""
    told = [gateway_pb2.NodeAddress(node_id=node, address=where) for node, where in nodes.items()]
    return gateway_pb2.NodesReply(nodes=told, leader_id=leader)


async def known(*replies: gateway_pb2.NodesReply) -> dict[str, str]:
    """Return which nodes are known after these were heard, by address."""
    nodes = Nodes({"n1": "a:1", "n2": "b:1"}, 0)
    for each in replies:
        nodes.learn(each)
    return {address: nodes.name(address) for address in nodes.addresses}


def test_nodes_that_are_not_named_any_more_are_forgotten() -> None:
    found = asyncio.run(known(reply("n2", n2="b:1", n3="c:1"), reply("n3", n3="c:1", n4="d:1")))
    assert found == {"c:1": "n3", "d:1": "n4"}


def test_node_that_knows_of_no_leader_takes_none_away() -> None:
    found = asyncio.run(known(reply("n2", n2="b:1", n3="c:1"), reply("", n1="a:1", n4="d:1")))
    assert found == {"b:1": "n2", "c:1": "n3", "a:1": "n1", "d:1": "n4"}


def test_address_of_a_node_that_has_moved_is_forgotten_unless_it_was_given() -> None:
    moved = reply("n2", n2="b:2", n3="c:1"), reply("n2", n2="b:3", n3="")
    assert asyncio.run(known(*moved)) == {"b:1": "n2", "b:3": "n2", "c:1": "n3"}


def test_nodes_are_never_none() -> None:
    found = asyncio.run(known(reply("n7", n7="")))
    assert found == {"a:1": "n1", "b:1": "n2"}


def test_each_is_asked_after_the_other_and_the_first_after_one_that_is_gone() -> None:
    async def test() -> None:
        nodes = Nodes({"n1": "a:1", "n2": "b:1"}, 3)
        assert nodes.leader == "b:1"
        assert [nodes.after(each) for each in ("a:1", "b:1", "z:1")] == ["b:1", "a:1", "a:1"]

    asyncio.run(test())


def test_guess_is_no_news_and_what_a_node_says_is() -> None:
    async def test() -> None:
        nodes = Nodes({"n1": "a:1", "n2": "b:1"}, 0)
        news = nodes.news
        nodes.guess("b:1")
        assert (nodes.leader, news.done()) == ("b:1", False)
        nodes.told("b:1")
        assert (nodes.leader, news.done(), nodes.news.done()) == ("b:1", True, False)
        news = nodes.news
        nodes.silent("a:1")
        assert (nodes.leader, news.done()) == ("b:1", True)
        nodes.silent("b:1")
        assert nodes.leader == "a:1"

    asyncio.run(test())
