"""The process of `test_hostile`: many connections to a node's port, or no descriptors left.

    python -m tests.network.flood {crowd|starve} {asyncio|uvloop} CONNECTIONS

It holds both nodes and the strangers, prints what it saw, and fails where the nodes do not go on
exchanging messages. A process of its own, so that its limit of descriptors is its own too.
"""

import asyncio
import errno
import os
import resource
import socket
import sys

import uvloop

from raftbatch.realworld import RealListener
from tests.network.nodes import N2, Two, allow_descriptors, descriptors, until


def stranger(address: str) -> socket.socket:
    """Return a connection to a port, which may be under way still, and says nothing."""
    host, _, port = address.rpartition(":")
    made = socket.socket()
    made.setblocking(False)
    made.connect_ex((host, int(port)))
    return made


async def crowd(count: int) -> None:
    """Hold many silent connections open while the nodes go on, and lose their own."""
    two = await Two(lambda _name: None, strangers_max=100).begin()
    held: list[socket.socket] = []
    while len(held) < count:
        for node in (two.one, two.two):
            held += [stranger(node.door.address) for _ in range(50)]
        await two.exchange()
        if len(held) % 1_000 == 0:
            await two.reconnect()
    say(f"{len(held)} strangers, {two.number} exchanges, {two.two.connections} connections")
    await two.reconnect()
    await two.exchange()
    assert two.two.counters["door.crowded_out"] > 0
    for each in held:
        each.close()
    await two.reconnect()
    await two.exchange()
    await two.close()


async def starve(_count: int) -> None:
    """Take all descriptors while strangers wait at the door; give some back; look who gets in."""
    two = await Two(lambda _name: None, dial_ms_max=50, greeting_ms=60_000).begin()
    await two.exchange()
    strangers = [stranger(two.two.door.address) for _ in range(5)]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors() + 40, hard))
    held = []
    while _is_room():
        held.append(os.dup(0))
    os.close(held.pop())
    late = stranger(two.two.door.address)  # takes the last one, and can only wait
    listener = two.two.door._listener
    assert isinstance(listener, RealListener)
    while not listener.starved:
        await two.exchange()  # who is connected notices nothing
    await two.exchange()
    before, calls = two.two.connections, two.one.counters["dial.calls"]
    two.one.transport._peers[N2].link.end("test")  # type: ignore[union-attr]
    await asyncio.sleep(0)
    while _is_room():  # what that connection had
        held.append(os.dup(0))
    await until(lambda: two.one.counters["dial.calls"] > calls)
    assert two.two.connections == before
    for descriptor in held:
        os.close(descriptor)
    began = asyncio.get_running_loop().time()
    await until(lambda: two.two.connections > before and two.are_connected)
    say(f"connected again after {asyncio.get_running_loop().time() - began:.3f} s")
    await two.exchange()
    for each in (*strangers, late):
        each.close()
    await two.close()


def _is_room() -> bool:
    """Return whether there is a descriptor left."""
    try:
        os.close(os.dup(0))
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        return False
    return True


def say(text: str) -> None:
    """Print for the test."""
    sys.stdout.write(f"{text}\n")


def main() -> None:
    """Run what the arguments say, in a minute at most."""
    what, loop, count = sys.argv[1:]
    wanted = int(count)
    # Both ends of each connection are here, but those that are crowded out.
    wanted = min(wanted, allow_descriptors(wanted + 1_000) - 800)
    body = asyncio.wait_for({"crowd": crowd, "starve": starve}[what](wanted), 100)
    (uvloop.run if loop == "uvloop" else asyncio.run)(body)


if __name__ == "__main__":
    main()
