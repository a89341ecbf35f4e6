"""The metrics of a node: what there is, what it means, and how it is shown to Prometheus.

All are declared here, in one order. `raftbatch_cluster_*` are facts of the cluster, as this
node has applied them: every node shows the same, so they are not to be added up over nodes.
All others are the node's own. What lives here: names, help, and where each number comes
from. What must never live here: counting; a global: each node has its registry. Called
by: `rpc.http`. One thread: the loop's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder

import raftbatch
from coordinator.api import Api
from coordinator.core.state import State
from coordinator.loads import Load
from coordinator.measures import Measures
from coordinator.node import Node, Phase
from coordinator.overview import SHOWN_MAX
from coordinator.pulse import Pulse
from coordinator.raft.log import ReplicatedLog
from coordinator.raft.segments.limits import Space
from coordinator.raft.spread import MS, S, Spread
from coordinator.raft.standing import Role
from coordinator.replica import Replica

_CLUSTER = " A fact of the cluster, the same on every node: not to be summed over nodes."
_SINCE = " Counted since this process began; the same on every node that is up as long: not to be "
_SINCE += "summed over nodes."
_LEADER = " Shown by the leader alone."

_FAULTS = ("stale", "voids", "held", "rejected", "stalls")
"""Of `leader_parts.Counts`."""

_TRAFFIC = (
    ("peer_received_bytes", "link.bytes_received", "Bytes from other coordinators."),
    ("peer_sent_bytes", "link.bytes_sent", "Bytes to other coordinators."),
    ("peer_messages_received", "link.messages_received", "Messages from other coordinators."),
)


class NodeMetrics:
    """See the module's docstring.

    Args:
        node: whose.
        cut: returns how many connections of the HTTP port were cut, by why.

    Attributes:
        pulse: of the node; None before its log is opened.
        measures: what is counted of batches; None before that, or where there are none.
        leader_changes: how often another leader was heard of.
    """

    def __init__(self, node: Node, cut: Callable[[], Mapping[str, int]]) -> None:
        self.pulse: Pulse | None = None
        self.measures: Measures | None = None
        self.leader_changes = 0
        self._node = node
        self._cut = cut
        self._leader: str | None = None
        self._is_current = False
        self._process = ProcessCollector(registry=None)

    def look(self) -> None:
        """Take in that the log's leader may be another."""
        assert self._node.log is not None
        leader = self._node.log.leader
        if leader is not None and leader != self._leader:
            self._leader = leader
            self.leader_changes += 1

    def exposing(self, accept: str) -> tuple[Callable[[], bytes], str]:
        """Take all as it is now; return what makes text of it, on any thread, and its content type.

        To take it is quick. The text of a hundred models and executors takes as long as an
        election, which the loop must not.

        Args:
            accept: the header of that name; it chooses between Prometheus's two forms.
        """
        encode, content_type = _form(accept)
        return partial(encode, _Taken(list(self.collect()), self._process)), content_type

    def collect(self) -> Iterator[Metric]:
        """Yield all, as they are now."""
        node = self._node
        info = {"node": node.config.node_id, "cluster": node.config.cluster.name}
        info["version"] = raftbatch.__version__
        yield _gauge("node_info", "Who this node is.", 1, info)
        phases = {each.value: int(each is node.phase) for each in Phase}
        yield _gauges("phase", "1 for the phase of its life that the node is in.", "phase", phases)
        cut = "Connections to the HTTP port that were closed before their answer."
        yield _counters("http_connections_cut", cut, "reason", self._cut())
        if node.log is not None:
            yield from self._of_log(node.log)
        if self.pulse is not None:
            lag = "By how much the loop was late, at each of ten looks a second."
            yield _histogram("loop_lag_seconds", lag, self.pulse.lag_ns, S)
        if node.scheduler is not None and isinstance(node.replica, Replica):
            yield from self._of_leading(node.scheduler.api)
            if self._has_caught_up(node.replica.state):
                yield from _of_state(node.replica.state)
                yield from self._of_measures()
            yield from _of_loads(node.loads())

    def _has_caught_up(self, state: State) -> bool:
        """Whether all is applied that was in the log: before, totals would seem to go back."""
        log, measures = self._node.log, self.measures
        if not self._is_current and log is not None and measures is not None:
            self._is_current = state.term == log.term and measures.is_past
        return self._is_current

    def _of_log(self, log: ReplicatedLog) -> Iterator[Metric]:
        yield _gauge("term", "The current term.", log.term)
        yield _gauge(
            "commit_index", "Highest index that is known here to be committed.", log.commit
        )
        yield _gauge("applied_index", "Index of the last entry applied.", log.applied)
        yield _gauge(
            "last_index", "Index of the newest entry here, committed or not.", log.last_index
        )
        yield _gauge("is_leader", "1 where this node leads.", int(log.role is Role.LEADER))
        yield _gauge(
            "has_leader", "1 where this node knows who leads.", int(log.leader is not None)
        )
        changes = "How often this node has heard of another leader than before."
        yield _counter("leader_changes", changes, self.leader_changes)
        connected = sum(1 for each in self._node.peers() if each.incarnation)
        yield _gauge("peers_connected", "Other coordinators that are connected.", connected)
        members = len(log.membership.members)
        yield _gauge("members", "Members of the cluster, this node too, as it knows.", members)
        events = dict(self._node.counters.values)
        for name, counted, said in _TRAFFIC:
            yield _counter(name, said, events.pop(counted, 0))
        said = "What happened on the way to other coordinators, by the node's names for it."
        yield _counters("peer_events", said, "event", events)
        sync = "How long the disk took to make a group of entries durable."
        yield _histogram("journal_sync_seconds", sync, log.disk.sync_ns, S)
        free = "What this node may still write to its journal's disk, as of about the last group."
        yield _gauge("disk_free_bytes", free, log.disk.space_left)
        spaces = {each.name.lower(): int(each is log.space) for each in Space}
        full = "1 for how much room the disk has: low admits nothing, reserve appends nothing."
        yield _gauges("disk_space", full, "space", spaces)

    def _of_leading(self, api: Api) -> Iterator[Metric]:
        scheduler = self._node.scheduler
        assert scheduler is not None
        counts, commit_ns = scheduler.leader.counts, scheduler.leader.commit_ns
        took = "From the append of an entry to its effects, where this node led: commit and apply."
        yield _histogram("commit_seconds", took, commit_ns, S)
        yield _counter("proposed_entries", "Entries appended by this node.", counts.entries_total)
        proposed = "Requests in entries appended by this node."
        yield _counter("proposed_requests", proposed, counts.requests_total)
        faults = {each: getattr(counts, f"{each}_total") for each in _FAULTS}
        said = "What went wrong while this node led: stale and voids are bugs of raftbatch."
        yield _counters("leader_faults", said, "fault", faults)
        refused = "Requests that got an error from this node instead of a ticket."
        yield _counters("requests_refused", refused, "code", api.refused)
        standing = api.standing()
        yield _gauge("outcome_waits", "Calls that wait here for an outcome.", standing.waits)
        yield _gauge("tails", "Feeds of executors that are tailed from here.", standing.tails)

    def _of_measures(self) -> Iterator[Metric]:
        measures = self.measures
        assert measures is not None
        sealed = {each.name.lower(): count for each, count in measures.sealed.items()}
        said = "Batches, by why their window was sealed." + _SINCE
        yield _counters("cluster_batches_sealed", said, "reason", sealed)
        lapsed = {each.name.lower(): count for each, count in measures.lapsed.items()}
        said = "Assignments that were taken back." + _SINCE
        yield _counters("cluster_assignments_lapsed", said, "reason", lapsed)
        said = "Rows of each batch as it was sealed." + _SINCE
        yield _histogram("cluster_batch_rows", said, measures.rows, 1)
        said = "Log time from the admission of a batch's first request to its first assignment."
        yield _histogram("cluster_batch_queue_seconds", said + _SINCE, measures.queue_ms, S // MS)
        said = "How long models ran for a batch, by the executor's word." + _SINCE
        yield _histogram("cluster_batch_infer_seconds", said, measures.infer_ns, S)


class _Taken(CollectorRegistry):
    """What was taken, as the library wants it; what the system says of the process comes last."""

    def __init__(self, taken: list[Metric], process: ProcessCollector) -> None:
        super().__init__(auto_describe=False)
        self._taken = taken
        self._process = process

    def collect(self) -> Iterator[Metric]:
        yield from self._taken
        yield from self._process.collect()


def _form(accept: str) -> tuple[Callable[[CollectorRegistry], bytes], str]:
    """Return what makes text, and its content type; of a header that makes no sense, the older."""
    try:
        return choose_encoder(accept if accept.isascii() else "")
    except (TypeError, ValueError):  # the library compares a version with numbers, whatever it is
        return choose_encoder("")


def _of_state(state: State) -> Iterator[Metric]:
    """Yield what the state holds; its totals are of the cluster's whole life."""
    counters, use = state.counters, state.all_use
    yield _fact_total("requests_admitted", "Requests taken in.", counters.admitted)
    said = "Requests that were committed and then refused; most are refused before that."
    yield _fact_total("requests_refused", said, counters.refused)
    outcomes = {
        "ok": counters.succeeded,
        "failed": counters.failed,
        "expired": counters.expired,
        "cancelled": counters.cancelled,
    }
    yield _counters("cluster_outcomes", "Outcomes given." + _CLUSTER, "kind", outcomes)
    yield _fact_total("batches_completed", "Batches that were reported whole.", counters.completed)
    yield _fact_total("batches_bisected", "Batches halved after failures.", counters.bisected)
    yield _fact_total("requests_quarantined", "Requests set aside.", counters.quarantined)
    yield _fact("requests_waiting", "Requests without an outcome.", use.requests)
    yield _fact("rows_waiting", "Rows of requests without an outcome.", use.rows)
    yield _fact("waiting_bytes", "Payloads and parameters of those, in bytes.", use.size)
    yield _fact("windows", "Windows that gather, none empty.", len(state.windows))
    yield _fact("batches", "Sealed batches that are not done with.", len(state.batches))
    yield _fact("outcomes_known", "Outcomes within retention.", len(state.ended))
    yield _fact("outcome_bytes", "Bytes of outcomes within retention.", state.outcome_bytes)
    yield _fact("quarantine", "Requests in quarantine now.", len(state.quarantine))
    executors = list(state.executors.values())
    states = {"ready": 0, "draining": 0, "suspended": 0}
    for each in executors:
        name = "draining" if each.is_draining else "suspended" if each.is_suspended else "ready"
        states[name] += 1
    yield _gauges("cluster_executors", "Live executors." + _CLUSTER, "state", states)
    yield _fact("slots", "Batches that live executors can hold.", sum(e.slots for e in executors))
    held = sum(len(each.held) for each in executors)
    yield _fact("slots_held", "Slots that assignments take.", held)
    yield _fact("models", "Model versions.", len(state.models))
    yield from _of_models(state)


def _of_models(state: State) -> Iterator[Metric]:
    """Yield what there is of each model, of the first hundred: names are what clients chose."""
    shown = f" The first {SHOWN_MAX} by name." + _CLUSTER
    labels = ["model", "version"]
    waiting = GaugeMetricFamily(
        "raftbatch_cluster_model_requests_waiting",
        "Requests without an outcome, by model." + shown,
        labels=labels,
    )
    ready = GaugeMetricFamily(
        "raftbatch_cluster_model_executors_ready",
        "Executors that have the model ready and take new batches; with 0 its requests wait."
        + shown,
        labels=labels,
    )
    counts: dict[tuple[str, str], int] = {}
    for each in state.executors.values():
        if each.takes_new:
            for model in each.models:
                counts[model] = counts.get(model, 0) + 1
    for model in sorted(state.models)[:SHOWN_MAX]:
        waiting.add_metric(model, state.model_use[model].requests)
        ready.add_metric(model, counts.get(model, 0))
    yield waiting
    yield ready


def _of_loads(loads: Mapping[str, Load]) -> Iterator[Metric]:
    """Yield what executors have to do, of the first hundred."""
    shown = sorted(loads.items())[:SHOWN_MAX]
    for name, said, value in _EXECUTOR:
        values = {executor: value(load) for executor, load in shown}
        yield _gauges(f"executor_{name}", said + _LEADER, "executor", values)
    for name, said, place in (
        ("instances", "Processes of an executor, by the model they run.", 0),
        ("instances_busy", "Processes of an executor that run something now.", 1),
    ):
        labels = ["executor", "model", "version"]
        family = GaugeMetricFamily(f"raftbatch_executor_{name}", said + _LEADER, labels=labels)
        for executor, load in shown:
            for each in load.models:
                family.add_metric([executor, *each.model], (each.instances, each.busy)[place])
        yield family
    for name, said, place in (
        ("device_memory_bytes", "Memory in use of an executor's device, by anybody.", 0),
        ("device_memory_limit_bytes", "Memory of an executor's device.", 1),
    ):
        labels = ["executor", "device"]
        family = GaugeMetricFamily(f"raftbatch_executor_{name}", said + _LEADER, labels=labels)
        for executor, load in shown:
            for device in load.devices:
                memory = (device.memory_bytes, device.memory_limit_bytes)[place]
                family.add_metric([executor, device.device], memory)
        yield family


_EXECUTOR: tuple[tuple[str, str, Callable[[Load], float]], ...] = (
    ("batches_running", "Batches that an executor runs.", lambda load: load.running),
    ("batches_waiting", "Batches that wait in an executor's slots.", lambda load: load.waiting),
    (
        "cpu_ratio",
        "CPU an executor takes of what it may use, 0 to 1.",
        lambda load: load.cpu_permille / 1000,
    ),
    (
        "memory_bytes",
        "Resident memory of an executor and its processes.",
        lambda load: load.memory_bytes,
    ),
    (
        "memory_limit_bytes",
        "Memory an executor may take; 0: unknown.",
        lambda load: load.memory_limit_bytes,
    ),
)


def _gauge(name: str, said: str, value: float, labels: Mapping[str, str] | None = None) -> Metric:
    found = GaugeMetricFamily(f"raftbatch_{name}", said, labels=list(labels or ()))
    found.add_metric(list((labels or {}).values()), value)
    return found


def _gauges(name: str, said: str, label: str, values: Mapping[str, float]) -> Metric:
    found = GaugeMetricFamily(f"raftbatch_{name}", said, labels=[label])
    for each, value in values.items():
        found.add_metric([each], value)
    return found


def _counter(name: str, said: str, value: float) -> Metric:
    return CounterMetricFamily(f"raftbatch_{name}", said, value=value)


def _counters(name: str, said: str, label: str, values: Mapping[str, int]) -> Metric:
    found = CounterMetricFamily(f"raftbatch_{name}", said, labels=[label])
    for each, value in sorted(values.items()):
        found.add_metric([each], value)
    return found


def _fact(name: str, said: str, value: int) -> Metric:
    return _gauge(f"cluster_{name}", said + _CLUSTER, value)


def _fact_total(name: str, said: str, value: int) -> Metric:
    return _counter(f"cluster_{name}", said + _CLUSTER, value)


def _histogram(name: str, said: str, spread: Spread, unit: int) -> Metric:
    """Return a spread, whose numbers are so many to one of the metric's unit."""
    counts, total = list(spread.counts), spread.total
    bounds: Iterable[str] = [*(_number(each / unit) for each in spread.bounds), "+Inf"]
    buckets: list[tuple[str, float]] = []
    below = 0
    for bound, count in zip(bounds, counts, strict=True):
        below += count
        buckets.append((bound, below))
    found = HistogramMetricFamily(f"raftbatch_{name}", said)
    found.add_metric([], buckets=buckets, sum_value=total / unit)
    return found


def _number(value: float) -> str:
    """Return a bound as Prometheus writes it: `1.0`, `0.0025`."""
    return repr(float(value))
