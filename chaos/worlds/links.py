"""Messages between simulated nodes: connections that delay, stall, break, and come again.

Contract, which the product's transport keeps over TCP: between two nodes there is
at most one connection; each end learns when it is `connected` and `disconnected`;
what one end sends while it is connected reaches the other whole, once and in
order, or not at all once the connection has broken, of which a prefix may still
arrive before the receiver notices; nothing of a connection that was replaced
arrives after that. `LinkOptions` can break the contract too, to see what holds
without it.

Messages are objects, handed on as they are, or as `wire` returns them.

A process that dies closes its connections: its peers notice soon, unless the way
to them is cut. A machine that dies silently tells nobody: whoever sends to it
gives up after a time. A cut holds back what is sent, in order, until it heals or
the sender gives up. A paused process keeps its connections, and finds what
arrived when it goes on.

What lives here: connections. What must never live here: who cuts them when
(`chaos.nemesis`), bytes, nodes. Called by: `chaos.worlds.cluster`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

from chaos.worlds.ends import Endpoint, Heal, LinkOptions, Observer, Pair, Port, SendHook
from chaos.worlds.loop import VirtualLoop
from chaos.worlds.process import NS, Process
from raftbatch.ids import NodeId

__all__ = ["Endpoint", "Heal", "LinkOptions", "Links", "Observer", "Pair", "Port", "SendHook"]

_STALE_RETRY_S = 0.1  # how long a stale message waits for a new connection, at a time
_STALE_TRIES = 20
_REDIAL_S = 0.3  # at most, until a peer that cannot be reached is tried again


class _Close:
    """Sent behind the last message: the connection ends here."""


@dataclass(slots=True)
class _Way:
    """One direction between two nodes.

    Attributes:
        last_ns: when the last small message arrives: the next comes after it.
        last_bulk_ns: when the last large one does.
        cuts: how many faults hold it back now.
        extra_s: how much slower faults make it now.
        waiting: what arrived while it was cut: epochs and messages.
    """

    sender: NodeId
    receiver: NodeId
    last_ns: int = 0
    last_bulk_ns: int = 0
    cuts: int = 0
    extra_s: float = 0.0
    waiting: deque[tuple[int, object]] = field(default_factory=deque)


class Links:
    """All connections of a cluster.

    Args:
        loop: of the run.
        rng: draws delays and chances.
        options: may be replaced at any time.
        wire: what a message becomes on its way, e.g. its encoding and decoding.
        bulk: the kinds of messages that others may overtake.

    Attributes:
        options, wire: as above.
        observer: told of everything.
        send_hooks: by sender; around each send of a connected process.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        rng: Random,
        options: LinkOptions | None = None,
        wire: Callable[[object], object] | None = None,
        bulk: tuple[type, ...] = (),
    ) -> None:
        self._bulk = bulk
        self.options = options or LinkOptions()
        self.observer: Observer | None = None
        self.send_hooks: dict[NodeId, SendHook] = {}
        self._loop = loop
        self._rng = rng
        self.wire = wire
        self._ports: dict[NodeId, Port] = {}  # of living processes that have registered
        self._silent: dict[NodeId, None] = {}  # machines that answer nothing at all
        self._ways: dict[Pair, _Way] = {}
        self._views: dict[Pair, int] = {}  # epoch of the first's connection to the second; 0: none
        self._epochs: dict[Pair, int] = {}  # of the last connection, by sorted pair
        self._incarnations: dict[NodeId, int] = {}
        self._floors: dict[Pair, int] = {}  # epochs of earlier incarnations: never heard later
        self._dialing: dict[Pair, None] = {}
        self._settled_ns: dict[Pair, int] = {}  # when both ends know of the last connection
        self._healings = 0

    # What a node does.

    def open(self, node: NodeId, process: Process) -> Port:
        """Return the end of a new process; it connects once somebody is registered."""
        assert node not in self._ports, f"{node} has an end already"
        self._silent.pop(node, None)
        return Port(self, node, process)

    def begin(self, port: Port) -> None:
        """Connect a registered end to the others."""
        self._ports[port.node] = port
        if self._incarnations.setdefault(port.node, port.incarnation) != port.incarnation:
            self._incarnations[port.node] = port.incarnation
            self._floors |= {pair: last for pair, last in self._epochs.items() if port.node in pair}
        for peer in self._ports:
            if peer != port.node:
                self._dial(port.node, peer)

    def close(self, node: NodeId, *, silent: bool = False) -> None:
        """Take away a dead process's end: its peers notice, or with `silent` they do not."""
        if silent:
            self._silent[node] = None
        if self._ports.pop(node, None) is None:
            return
        for (one, peer), epoch in list(self._views.items()):
            if one != node or not (epoch or self._views.get((peer, node))):
                continue
            self._views[node, peer] = 0
            way, last = self._way(node, peer), self._epochs[_sorted(node, peer)]
            if silent:
                self._lose_waiting(way)
            elif self._rng.random() < self.options.reset_chance:
                delay_s = self._draw(self.options.notice_s)
                self._loop.after(delay_s, self._arrive, way, last, _Close())
            else:
                self._launch(way, last, _Close())

    def is_connected(self, node: NodeId, peer: NodeId) -> bool:
        """Whether `node` believes in its connection to `peer`."""
        return bool(self._views.get((node, peer)))

    def send(self, sender: NodeId, receiver: NodeId, message: object) -> None:
        """Send; a `Port`'s part."""
        epoch = self._views.get((sender, receiver), 0)
        if not epoch:
            self._tell("drop", sender, receiver, message)
            return
        hook = self.send_hooks.get(sender)
        if hook is not None:
            hook("before", receiver, message)
        self._tell("send", sender, receiver, message)
        sent = message if self.wire is None else self.wire(message)
        self._launch(self._way(sender, receiver), epoch, sent)
        if hook is not None:
            hook("after", receiver, message)

    # What a nemesis does.

    def break_link(self, one: NodeId, other: NodeId) -> None:
        """Break a connection; each end notices in its own time, then they connect again."""
        for end, peer in ((one, other), (other, one)):
            if epoch := self._views.get((end, peer), 0):
                self._loop.after(self._draw(self.options.notice_s), self._notice, end, peer, epoch)

    def cut(self, pairs: Iterable[Pair]) -> Heal:
        """Hold back everything in some directions; return what ends that."""
        ways = [self._way(*pair) for pair in pairs]
        for way in ways:
            way.cuts += 1

        def uncut() -> None:
            for way in ways:
                way.cuts -= 1
                self._loop.after(self._draw(self.options.delay_s), self._drain, way)

        return self._once(uncut)

    def slow(self, pairs: Iterable[Pair], extra_s: float) -> Heal:
        """Delay everything in some directions; return what ends that."""
        ways = [self._way(*pair) for pair in pairs]
        for way in ways:
            way.extra_s += extra_s

        def restore() -> None:
            for way in ways:
                way.extra_s = max(0.0, way.extra_s - extra_s)

        return self._once(restore)

    def heal(self) -> None:
        """End all cuts and delays, and keep to the contract from now on."""
        self._healings += 1
        for way in self._ways.values():
            way.cuts, way.extra_s = 0, 0.0
            self._loop.after(self._draw(self.options.delay_s), self._drain, way)

    # On the way.

    def _launch(self, way: _Way, epoch: int, message: object) -> None:
        """Put something on its way, behind what is on it."""
        options, rng = self.options, self._rng
        delay_s = self._draw(options.delay_s) + way.extra_s
        is_bulk = isinstance(message, self._bulk)
        if is_bulk:
            delay_s += self._draw(options.bulk_s)
        last_ns = way.last_bulk_ns if is_bulk else way.last_ns
        if isinstance(message, _Close):
            last_ns = max(way.last_ns, way.last_bulk_ns)  # behind everything
        arrival_ns = self._loop.now_ns + int(delay_s * NS)
        if options.loss and rng.random() < options.loss:
            self._tell("drop", way.sender, way.receiver, message)
            return
        if options.duplicate and rng.random() < options.duplicate:
            late_ns = arrival_ns + int(self._draw(options.reorder_s) * NS)
            self._loop.at(late_ns, self._arrive, way, epoch, message)
        if options.reorder and rng.random() < options.reorder:
            # After what was sent before, and overtaken by what is sent now.
            arrival_ns = max(arrival_ns, last_ns) + int(self._draw(options.reorder_s) * NS)
        else:
            arrival_ns = max(arrival_ns, last_ns + 1)
            if is_bulk:
                way.last_bulk_ns = arrival_ns
            else:
                way.last_ns = arrival_ns
        self._loop.at(arrival_ns, self._arrive, way, epoch, message)

    def _arrive(self, way: _Way, epoch: int, message: object) -> None:
        if way.cuts or way.waiting:
            way.waiting.append((epoch, message))
            if len(way.waiting) == 1:
                item = way.waiting[0]
                self._loop.after(self._timeout_s(), self._give_up, way, item)
        else:
            self._take(way, epoch, message)

    def _drain(self, way: _Way) -> None:
        if not way.cuts:
            waiting, way.waiting = way.waiting, deque()
            for epoch, message in waiting:
                self._take(way, epoch, message)

    def _give_up(self, way: _Way, item: tuple[int, object]) -> None:
        """The sender has heard nothing of what it sent first since a cut."""
        if way.waiting and way.waiting[0] is item:
            self._lose_waiting(way)
            self._notice(way.sender, way.receiver, item[0])

    def _lose_waiting(self, way: _Way) -> None:
        waiting, way.waiting = way.waiting, deque()
        for epoch, message in waiting:
            self._lose(way, epoch, message, 0)

    def _take(self, way: _Way, epoch: int, message: object) -> None:
        """Hand to the receiver what is of its present connection."""
        sender, receiver = way.sender, way.receiver
        view, port = self._views.get((receiver, sender), 0), self._ports.get(receiver)
        if isinstance(message, _Close):
            self._notice(receiver, sender, epoch)
        elif port is not None and view == epoch:
            self._hand_over(port, "deliver", sender, message)
        else:
            self._lose(way, epoch, message, 0)
            silent = receiver in self._silent
            delay_s = self._timeout_s() if silent else self._draw(self.options.delay_s)
            self._loop.after(delay_s, self._notice, sender, receiver, epoch)

    def _lose(self, way: _Way, epoch: int, message: object, tries: int) -> None:
        """Drop a message of a connection that is gone; outside the contract it may come yet."""
        sender, receiver = way.sender, way.receiver
        view, port = self._views.get((receiver, sender), 0), self._ports.get(receiver)
        is_earlier = epoch <= self._floors.get(_sorted(sender, receiver), 0)
        if isinstance(message, _Close) or tries == _STALE_TRIES or is_earlier:
            return
        if tries == 0 and not (self.options.stale and self._rng.random() < self.options.stale):
            self._tell("drop", sender, receiver, message)
        elif port is not None and view not in (0, epoch) and not way.cuts and self.options.stale:
            self._hand_over(port, "stale", sender, message)
        else:
            delay_s = _STALE_RETRY_S * self._rng.random()
            self._loop.after(delay_s, self._lose, way, epoch, message, tries + 1)

    def _hand_over(self, port: Port, what: str, sender: NodeId, message: object) -> None:
        self._tell(what, sender, port.node, message)
        assert port.endpoint is not None
        receive = port.endpoint.receive
        self._loop.deliver_at(self._loop.now_ns, port.process, receive, sender, message)

    # Connections.

    def _notice(self, end: NodeId, peer: NodeId, epoch: int) -> None:
        """Let one end know that its connection is gone."""
        if not epoch or self._views.get((end, peer)) != epoch:
            return
        self._views[end, peer] = 0
        port = self._ports.get(end)
        if port is not None and port.endpoint is not None:
            self._tell("disconnected", end, peer, None)
            gone = port.endpoint.disconnected
            self._loop.deliver_at(self._loop.now_ns, port.process, gone, peer)
            self._dial(end, peer)

    def _dial(self, one: NodeId, other: NodeId) -> None:
        pair = _sorted(one, other)
        if pair not in self._dialing:
            self._dialing[pair] = None
            self._loop.after(self._draw(self.options.connect_s), self._try_connect, pair)

    def _try_connect(self, pair: Pair) -> None:
        one, other = pair
        del self._dialing[pair]
        first, second = self._ports.get(one), self._ports.get(other)
        if first is None or second is None:
            return  # the next process dials
        views = self._views.get((one, other), 0), self._views.get((other, one), 0)
        if views[0] and views[0] == views[1]:
            return
        ways = self._way(one, other), self._way(other, one)
        is_paused = first.process.paused or second.process.paused
        if (
            is_paused
            or any(way.cuts for way in ways)
            or self._loop.now_ns < self._settled_ns.get(pair, 0)
        ):
            self._loop.after(_REDIAL_S * self._rng.random(), self._dial, one, other)
            return
        if self._is_refused(first, second) or self._is_refused(second, first):
            self._loop.after(_REDIAL_S * (1 + self._rng.random()), self._dial, one, other)
            return
        epoch = self._epochs[pair] = self._epochs.get(pair, 0) + 1
        for end, peer in (pair, (other, one)):
            self._notice(end, peer, self._views.get((end, peer), 0))  # replaced
            self._views[end, peer] = 0
            up_ns = self._loop.now_ns + int(self._draw(self.options.delay_s) * NS)
            way = self._way(peer, end)
            way.last_ns = max(way.last_ns, up_ns)  # nothing arrives before
            way.last_bulk_ns = max(way.last_bulk_ns, up_ns)
            self._settled_ns[pair] = max(up_ns, self._settled_ns.get(pair, 0))
            self._loop.at(up_ns, self._connect, end, peer, epoch)

    def _is_refused(self, asker: Port, asked: Port) -> bool:
        """Return whether one end does not admit the other, and tell that one."""
        assert asked.endpoint is not None
        why = asked.endpoint.admits(asker.node, asker.incarnation)
        if why is not None and asker.endpoint is not None:
            told = asker.endpoint.refused
            self._loop.deliver_at(self._loop.now_ns, asker.process, told, asked.node, why)
        return why is not None

    def _connect(self, end: NodeId, peer: NodeId, epoch: int) -> None:
        port, other = self._ports.get(end), self._ports.get(peer)
        if port is None or port.endpoint is None or other is None:
            return
        if self._epochs[_sorted(end, peer)] != epoch:
            return
        self._views[end, peer] = epoch
        self._tell("connected", end, peer, None)
        up = port.endpoint.connected
        self._loop.deliver_at(self._loop.now_ns, port.process, up, peer, other.incarnation)

    # Inside.

    def _way(self, sender: NodeId, receiver: NodeId) -> _Way:
        pair = (sender, receiver)
        if pair not in self._ways:
            self._ways[pair] = _Way(sender, receiver)
        return self._ways[pair]

    def _draw(self, span_s: tuple[float, float]) -> float:
        return self._rng.uniform(*span_s)

    def _timeout_s(self) -> float:
        return self.options.timeout_s * self._rng.uniform(0.9, 1.1)

    def _tell(self, what: str, sender: NodeId, receiver: NodeId, message: object) -> None:
        if self.observer is not None:
            self.observer(what, sender, receiver, message)

    def _once(self, end: Heal) -> Heal:
        """Return a `Heal` that works once, and not after a `heal` of everything."""
        healings, is_over = self._healings, False

        def heal() -> None:
            nonlocal is_over
            if not is_over and self._healings == healings:
                end()
            is_over = True

        return heal


def _sorted(one: NodeId, other: NodeId) -> Pair:
    return (one, other) if one < other else (other, one)
