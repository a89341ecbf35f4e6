"""Network namespaces of our own, each with an interface whose cable we hold.

What lives here: making and removing them, the names they bear, and finding those that a
harness left behind. What must never live here: what happens on the cable
(`chaos.worlds.switch`), or to nodes (`chaos.worlds.fabric`, which calls this, as does
`python -m chaos clean`). Needs root, `ip` and /dev/net/tun.

A name says who made it, see `chaos.worlds.owners`: `rbchaos-<pid>-<start>-<network>-<node>`.

An interface is gone as soon as nobody holds its descriptor, so only a namespace, and what runs
in it, can be left behind.
"""

from __future__ import annotations

import errno
import fcntl
import ipaddress
import json
import os
import re
import shutil
import socket
import struct
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos.worlds.owners import PREFIX, Unable, end_processes, lives, own_name, owner_of

_NAME = re.compile(rf"{PREFIX}-\d+-\d+-\d+-[\w.]+")
_NODE = re.compile(r"[\w.]{1,64}")
_NETNS = Path("/run/netns")
_TUN = Path("/dev/net/tun")

_TUNSETIFF = 0x400454CA
_IFF_TAP = 0x0002
_IFF_NO_PI = 0x1000  # frames alone, without four bytes of information before each
_IFREQ = struct.Struct("16sH22x")

_NETWORKS = 256  # 10.77.0.0/24 to 10.77.255.0/24
_QUEUE_FRAMES = 10_000  # sent and not yet read by the switch: more than any TCP window holds


def missing() -> str:
    """Return why no namespaces can be made here; nothing if they can."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "needs root"
    if tools := [tool for tool in ("ip", "nsenter") if shutil.which(tool) is None]:
        return f"{', '.join(tools)} missing"
    return "" if _TUN.exists() else f"{_TUN} missing"


@dataclass(frozen=True, slots=True)
class Network:
    """Addresses of a private network, claimed by this process for as long as it lives.

    Attributes:
        number: the third byte of its addresses.
        claim: held open; the kernel lets go of it with the process.
    """

    number: int
    claim: socket.socket

    @classmethod
    def claimed(cls) -> Network:
        """Claim a network that no other harness has, and to which this machine has no route."""
        done = run_ip("-json", "-4", "route", "show", "table", "all")
        taken = [
            ipaddress.ip_network(route["dst"], strict=False)
            for route in json.loads(done or "[]")
            if route["dst"] not in ("default", "0.0.0.0/0")
        ]
        for number in range(_NETWORKS):
            block = ipaddress.ip_network(f"10.77.{number}.0/24")
            if any(block.overlaps(each) for each in taken):
                continue
            claim = socket.socket(socket.AF_UNIX)
            try:
                claim.bind(f"\0{PREFIX}-{number}")
            except OSError as error:
                claim.close()
                if error.errno != errno.EADDRINUSE:
                    raise
                continue
            return cls(number, claim)
        raise Unable("every network of 10.77.0.0/16 is in use")

    def namespace(self, node: str) -> str:
        """Return the name of the namespace of a node."""
        if not _NODE.fullmatch(node):
            raise ValueError(f"no name for a node: {node!r}")
        return f"{own_name()}-{self.number}-{node}"

    def address(self, port: int) -> str:
        """Return the address of a port, which is 0 to 253."""
        return f"10.77.{self.number}.{port + 1}"

    def hardware_address(self, port: int) -> str:
        """Return the Ethernet address of a port, a locally administered one."""
        return f"02:72:62:00:{self.number:02x}:{port:02x}"


def add_namespace(namespace: str) -> None:
    """Make a namespace, its loopback up."""
    run_ip("netns", "add", namespace)
    run_ip("-netns", namespace, "link", "set", "lo", "up")


def add_port(network: Network, port: int, ports: int, mtu: int, namespace: str | None) -> int:
    """Make an interface, and return the descriptor of the other end of its cable.

    Neighbours are written down, so that nobody asks for them: a link that is cut one way would
    lose questions or answers, and cut the other way too, or stay cut when it is healed.

    Args:
        network: where it has its addresses.
        port: its number, from 0.
        ports: how many there will be.
        mtu: of its frames, in bytes.
        namespace: where it is to be; None: where we are.
    """
    descriptor = os.open(_TUN, os.O_RDWR)
    try:
        request = _IFREQ.pack(f"{PREFIX}%d".encode(), _IFF_TAP | _IFF_NO_PI)
        name = _IFREQ.unpack(fcntl.ioctl(descriptor, _TUNSETIFF, request))[0].rstrip(b"\0").decode()
        here: Sequence[str] = ()
        if namespace is not None:
            run_ip("link", "set", name, "netns", namespace, "name", "eth0")
            name, here = "eth0", ("-netns", namespace)
        lines = [
            f"link set {name} addrgenmode none",  # no IPv6: every frame is of a test's making
            f"link set {name} address {network.hardware_address(port)} mtu {mtu}",
            f"link set {name} txqueuelen {_QUEUE_FRAMES} up",
            f"addr add {network.address(port)}/24 dev {name}",
        ]
        for other in range(ports):
            if other != port:
                station = f"{network.address(other)} lladdr {network.hardware_address(other)}"
                lines.append(f"neigh add {station} nud permanent dev {name}")
        run_ip(*here, "-batch", "-", words="\n".join(lines))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def enter(namespace: str, command: Sequence[str]) -> list[str]:
    """Return a command that runs this one in a namespace, as the same process."""
    # Not `ip netns exec`: that gives it mounts of its own, which would keep a disk of ours busy.
    return ["nsenter", f"--net={_NETNS / namespace}", "--", *command]


def remove_namespace(namespace: str) -> None:
    """End all that runs in a namespace of ours, and remove it."""
    if not _NAME.fullmatch(namespace):
        raise ValueError(f"not ours: {namespace}")
    end_processes(_is_in(namespace), namespace)
    try:
        run_ip("netns", "delete", namespace)
    except Unable:
        if namespace in ours():  # nobody else has removed it meanwhile
            raise


def ours() -> list[str]:
    """Return every namespace there is with a name of ours, whoever made it."""
    found = os.listdir(_NETNS) if _NETNS.exists() else []
    return sorted(name for name in found if _NAME.fullmatch(name))


def leftovers() -> list[str]:
    """Return the namespaces whose makers are gone."""
    return [name for name in ours() if not lives(owner_of(name))]


def clean() -> list[str]:
    """Remove what harnesses left behind that are gone; return what was removed."""
    removed = []
    for namespace in leftovers():
        remove_namespace(namespace)
        removed.append(namespace)
    return removed


def run_ip(*arguments: str, words: str | None = None) -> str:
    """Run `ip`; return what it says.

    Raises:
        Unable: it fails; its words are in the message.
    """
    command = ["ip", *arguments]
    done = subprocess.run(command, input=words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unable(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def _is_in(namespace: str) -> Callable[[int], bool]:
    """Return whether a process is in a namespace, as a function of its number."""
    place = _NETNS / namespace
    if not place.exists():
        return lambda _: False
    there = place.stat()
    return lambda pid: os.path.samestat(os.stat(f"/proc/{pid}/ns/net"), there)
