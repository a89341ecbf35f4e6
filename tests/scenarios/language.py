"""The language of the scenario files.

A line that begins at the margin is a command, or a comment (`#`). The indented
lines below a command are what it brings about: messages as they arrive, and what
changed at a node. `pytest tests/scenarios --rewrite` writes them anew.

    nodes n1 n2 n3 [message_bytes=N] [in_flight_bytes=N] [piece_bytes=N]
                        a cluster, all connected; must come first
    log n1 1 1 2        give a node a log, by the terms of its entries, before anything happens;
                        the first, of term 1, has founded the cluster, and is there anyhow
    term n1 3 [n2]      give it a term and a vote

    timeout n1          let time pass until its election timer fires; the others stand still
    elect n1            the same, and deliver all that follows
    tick n1 | all       judge timers now
    pass MS             let time pass, without a tick
    run MS [but n3 ..]  let time pass and everybody work, but those, who stand still
    deliver n1->n2 [N]  deliver what is under way, or only N; without a pair, everything once
    stabilize [n1 n2]   deliver until nothing is under way [between these]

    cut n1 n2 ..        break the first one's connections to the others; both ends notice
    join n1 n2 ..       connect them anew
    mute n1->n2         let messages vanish unnoticed; `unmute` ends it
    drop n1->n2 [N]     lose what is under way
    keep n1->n2 NAME    copy what is under way; `take` takes it away
    inject NAME n1->n2  deliver that, now

    propose n1 x y*900  propose entries; `*900` pads one to so many bytes
    read n1 NAME        ask for a linearizable read
    transfer n1 n2      hand leadership over
    snapshot n1         take one, and let go of the log before it

    crash n1 [power]    kill a node; with `power`, what was not synced is lost
    start n1            start it again
    hold n1 WORKER      let its disk stand still: journal-write, journal-read or snapshots
    sync n1             let a held journal write one group, and tell of it
    release n1          let its disk go on
    fill n1 [all]       fill its disk up to the reserve [or the brim]; `free` makes room

    show n1 ..          tell role, term, log, commit and state
    expect n1 WHAT ..   fail unless: leader, follower, candidate, down; term T; commit N;
                        log 1-2@1 3@2; state x y; match n2 N; next n2 N; feeding n2 probe
    expect leader n1    it is the only leader; `none`: there is none
    expect sent < N     so few messages were sent since the last `expect sent`
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from chaos.worlds.disk import SimDisk
from coordinator.raft.messages import Message
from coordinator.raft.replication import Window
from coordinator.raft.standing import Role
from raftbatch.errors import RaftbatchError
from raftbatch.ids import NodeId
from tests.scenarios.cluster import Broken, Cluster
from tests.scenarios.node import DISK_BYTES, PADDING, Node

INDENT = "    "
_FULL_BYTES = 20_000  # below the reserve of the nodes' journals


class Unmet(AssertionError):
    """What a script expects is not so."""


def replay(text: str) -> str:
    """Run a script; return it with the trace that it gives.

    Raises:
        Broken, Unmet: the line is named.
    """
    interpreter = Interpreter()
    written: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(INDENT):
            continue
        written.append(line)
        if line and not line.startswith("#"):
            try:
                trace = interpreter.run(line)
            except (AssertionError, KeyError, TypeError, ValueError) as error:
                error.add_note(f"in line {number}: {line}")
                raise
            written += [f"{INDENT}{each}" for each in trace]
    return "\n".join(written) + "\n"


class Interpreter:
    """Runs commands, one at a time."""

    def __init__(self) -> None:
        self._kept: dict[str, list[Message]] = {}
        self._sent_total = 0
        self._cluster: Cluster | None = None

    @property
    def cluster(self) -> Cluster:
        """The cluster that `nodes` made."""
        assert self._cluster is not None, "`nodes` comes first"
        return self._cluster

    def run(self, line: str) -> list[str]:
        """Run one command; return what it brought about."""
        name, *words = line.split()
        command: Callable[..., None] | None = getattr(self, f"do_{name}", None)
        if command is None:
            raise ValueError(f"there is no command {name!r}")
        command(*words)
        trace, self.cluster.trace = self.cluster.trace, []
        return trace

    # Making a cluster.

    def do_nodes(self, *words: str) -> None:
        """See the module's docstring, here and below."""
        names = [word for word in words if "=" not in word]
        options = {
            name: int(value) for name, _, value in (word.partition("=") for word in words) if value
        }
        piece_bytes = options.pop("piece_bytes", 1 << 20)
        window = Window(**{f"{name}_max": value for name, value in options.items()})
        self._cluster = Cluster(names, window, piece_bytes)

    def do_log(self, name: str, *terms: str) -> None:
        node = self.cluster[name]
        assert terms[0] == "1", "the first entry has founded the cluster, in term 1"
        for term in terms[1:]:
            if int(term) > node.data.journal.hard_state.term:
                node.data.journal.set_hard_state(int(term), None)
            node.data.journal.append(int(term), f"{name}:{term}".encode())
        self._begin_anew(node)

    def do_term(self, name: str, term: str, vote: str | None = None) -> None:
        node = self.cluster[name]
        node.data.journal.set_hard_state(int(term), NodeId(vote) if vote else None)
        self._begin_anew(node)

    def _begin_anew(self, node: Node) -> None:
        node.settle()
        node.stop()
        self.cluster.start(node.id)
        self.cluster.trace.clear()

    # Time, and the network.

    def do_timeout(self, name: str) -> None:
        self.cluster.time_out(name)

    def do_elect(self, name: str) -> None:
        self.cluster.time_out(name)
        self.cluster.stabilize()

    def do_tick(self, name: str) -> None:
        for node in self._named(name):
            self.cluster.tick(node.id)

    def do_pass(self, duration_ms: str) -> None:
        self.cluster.clock.advance_ms(int(duration_ms))

    def do_run(self, duration_ms: str, *paused: str) -> None:
        self.cluster.run(int(duration_ms), *paused[1:])

    def do_deliver(self, pair: str = "", most: str = "1000000") -> None:
        pairs = [self._pair(pair)] if pair else list(self.cluster.queues)
        for each, count in [(each, len(self.cluster.queues[each])) for each in pairs]:
            self.cluster.deliver(*each, min(count, int(most)))

    def do_stabilize(self, *among: str) -> None:
        self.cluster.stabilize(*among)

    def do_cut(self, name: str, *others: str) -> None:
        for other in others:
            self.cluster.cut(name, other)

    def do_join(self, name: str, *others: str) -> None:
        for other in others:
            self.cluster.join(name, other)

    def do_mute(self, pair: str) -> None:
        self.cluster.muted.add(self._pair(pair))

    def do_unmute(self, pair: str) -> None:
        self.cluster.muted.discard(self._pair(pair))

    def do_drop(self, pair: str, most: str = "1000000") -> None:
        queue = self.cluster.queues[self._pair(pair)]
        for _ in range(min(int(most), len(queue))):
            queue.popleft()

    def do_keep(self, pair: str, name: str) -> None:
        self._kept[name] = list(self.cluster.queues[self._pair(pair)])
        assert self._kept[name], "nothing is under way"

    def do_take(self, pair: str, name: str) -> None:
        self.do_keep(pair, name)
        self.cluster.queues[self._pair(pair)].clear()

    def do_inject(self, name: str, pair: str) -> None:
        for message in self._kept[name]:
            self.cluster.hand_in(*self._pair(pair), message)

    # What a node is asked to do.

    def do_propose(self, name: str, *words: str) -> None:
        node = self.cluster[name]

        def propose() -> None:
            for word in words:
                text, _, size = word.partition("*")
                data = text.encode().ljust(int(size or 0), PADDING)
                self._ask(node, partial(self._proposed, node, data))

        node.event(propose)

    def _proposed(self, node: Node, data: bytes) -> None:
        core = node.running
        core.propose(node.now_ns, core.standing.term, data)

    def do_read(self, name: str, label: str) -> None:
        node = self.cluster[name]

        def answer(index: int | None) -> None:
            verdict = "fails" if index is None else f"may be answered at {index}"
            self.cluster.tell(f"{name}: read {label} {verdict}")

        node.event(lambda: self._ask(node, lambda: node.running.read(node.now_ns, answer)))

    def do_transfer(self, name: str, heir: str) -> None:
        node = self.cluster[name]

        def done(moved: bool) -> None:
            verdict = "is over, this node leads no more" if moved else "has failed"
            self.cluster.tell(f"{name}: transfer to {heir} {verdict}")

        def hand_over() -> None:
            node.running.hand_over(node.now_ns, NodeId(heir), done)

        node.event(lambda: self._ask(node, hand_over))

    def _ask(self, node: Node, ask: Callable[[], None]) -> None:
        try:
            ask()
        except RaftbatchError as error:
            self.cluster.tell(f"{node.id} refuses: {type(error).__name__}: {error}")

    def do_snapshot(self, name: str) -> None:
        self.cluster[name].event(self.cluster[name].capture)

    # A node's life, and its disk.

    def do_crash(self, name: str, power: str = "") -> None:
        self.cluster[name].stop(power=bool(power))

    def do_start(self, name: str) -> None:
        self.cluster.start(name)
        self.do_show(name)

    def do_hold(self, name: str, worker: str) -> None:
        self.cluster[name].held.add(worker)

    def do_sync(self, name: str) -> None:
        self.cluster[name].event(self.cluster[name].sync)

    def do_release(self, name: str) -> None:
        self.cluster[name].held.clear()
        self.cluster[name].event(lambda: None)

    def do_fill(self, name: str, all_of_it: str = "") -> None:
        disk: SimDisk = self.cluster[name].disk
        disk.capacity -= disk.bytes_left - (0 if all_of_it else _FULL_BYTES)

    def do_free(self, name: str) -> None:
        self.cluster[name].disk.capacity = DISK_BYTES

    # What is so.

    def do_show(self, *names: str) -> None:
        for node in [each for name in names for each in self._named(name)]:
            facts = [fact for fact in node.facts().values() if fact]
            state = [f"state {' '.join(node.state) or 'empty'}"] if node.core else []
            self.cluster.tell(f"{node.id}: {', '.join(facts + state)}")

    def do_expect(self, subject: str, *words: str) -> None:
        if subject == "leader":
            leaders = [node.id for node in self.cluster.nodes.values() if self._leads(node)]
            wanted, found = [word for word in words if word != "none"], list(map(str, leaders))
        elif subject == "sent":
            total = self.cluster.sent_total
            found, self._sent_total = [str(total - self._sent_total)], total
            wanted = found if int(found[0]) < int(words[1]) else [f"less than {words[1]}"]
        else:
            wanted, found = list(words), self._found(self.cluster[subject], *words)
        if wanted != found:
            raise Unmet(f"{subject} should be {' '.join(wanted)}, but is {' '.join(found)}")

    def _found(self, node: Node, what: str, *words: str) -> list[str]:
        """Return what is so, in the words in which it was asked."""
        if what == "down":
            return ["down" if node.core is None else "up"]
        core = node.running
        match what:
            case "leader" | "candidate" | "follower":
                return [core.standing.role.value]
            case "term":
                return ["term", str(core.standing.term)]
            case "commit":
                return ["commit", str(core.standing.commit)]
            case "log":
                return ["log", *node.log().split()]
            case "state":
                return ["state", *node.state]
            case "match" | "next" | "feeding":
                assert core.replication is not None, f"{node.id} does not lead"
                value = getattr(core.replication.progress[NodeId(words[0])], what)
                return [what, words[0], str(value if isinstance(value, int) else value.value)]
            case _:
                raise ValueError(f"nothing can be expected of {what!r}")

    def _leads(self, node: Node) -> bool:
        return node.core is not None and node.core.standing.role is Role.LEADER

    def _named(self, name: str) -> list[Node]:
        if name == "all":
            return [node for node in self.cluster.nodes.values() if node.core is not None]
        return [self.cluster[name]]

    def _pair(self, pair: str) -> tuple[str, str]:
        sender, _, to = pair.partition("->")
        return sender, to


__all__ = ["Broken", "Interpreter", "Unmet", "replay"]
