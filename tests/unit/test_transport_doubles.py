"""Two processes of one name and one life, as where a data directory was copied."""

import asyncio
import logging

import pytest

from coordinator.raft import doubles, greeting
from coordinator.raft.greeting import Hello
from tests.unit.memory_network import MemoryNetwork
from tests.unit.transport_nodes import ADDRESSES, CLUSTER, N1, N2, TWO, Node, pair, run


async def two_of_n1(network: MemoryNetwork) -> tuple[Node, Node, Node]:
    """Return n2, and two that both take themselves for n1."""
    other = await Node(network, N2).begin(TWO)
    first = await Node(network, N1).begin(TWO)
    copy = Node(network, N1)
    copy.door._listen = "127.0.0.1:9"
    return other, first, await copy.begin(TWO)


@pytest.mark.parametrize("stopped", [0, 1])  # whoever is connected at that moment stays so
def test_two_processes_of_one_life_are_told_once_and_shown(
    caplog: pytest.LogCaptureFixture, stopped: int
) -> None:
    async def main() -> None:
        n2, *ones = await two_of_n1(MemoryNetwork())
        await asyncio.sleep(60)
        told = [each for each in caplog.records if each.message == "peer.doubled"]
        assert len(told) == 1
        [state] = n2.transport.states
        assert state.refusal is not None
        assert state.refusal.reason == "doubled"
        assert "two processes seem to be n1, incarnation 1" in state.refusal.text
        assert "copy of the other's data directory: stop it" in state.refusal.text
        await ones.pop(stopped).close()
        await asyncio.sleep(doubles.WITHIN_MS / 1000 + 5)
        [state] = n2.transport.states
        assert state.incarnation == 1
        assert state.refusal is None
        for node in (ones[0], n2):
            await node.close()

    with caplog.at_level(logging.WARNING):
        run(main())


def test_connection_that_is_replaced_now_and_then_is_no_second_process(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It was lost, and the other end has not heard of that yet."""

    async def main() -> None:
        network = MemoryNetwork()
        one, two = await pair(network)
        for _ in range(2 * doubles.TIMES):
            new = await network.connect(ADDRESSES[N2], None)
            new.write(greeting.encode(Hello(CLUSTER, N1, 1, N2)))
            await asyncio.sleep(doubles.WITHIN_MS / 1000 + 5)
        assert two.counters["link.replaced"] >= 2 * doubles.TIMES
        assert not [each for each in caplog.records if each.message == "peer.doubled"]
        await one.close()
        await two.close()

    with caplog.at_level(logging.WARNING):
        run(main())
