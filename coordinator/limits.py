"""Limits of a configuration that can never be reached, since others always come first.

They contradict nothing, so a node starts with them; but whoever wrote them meant something
that will not come about. A limit that the file does not name is left alone where it stands for
"no limit of its own", as a tenant's does.

What lives here: those relations, and what rate of requests they bear. What must never live
here: what cannot hold together, which each part refuses itself. Called by: `raftbatch config
check`. Total. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.config import NodeConfig
from coordinator.core.texts import KNOWN_ID_BYTES, WAITING_BYTES
from coordinator.stated import EXECUTOR_BYTES_MAX, MESSAGES_BYTES_MAX, SETTINGS_BYTES_MAX
from raftbatch.records import PutModel, PutPolicy
from raftbatch.settings import Model, Policy

_ID_MEMORY_BYTES = 450
"""What a known id takes of memory, about."""

_QUARANTINED_BYTES = 40 << 10
"""What a request in quarantine takes beside its payload, at most: its texts are not cut."""

_AMOUNTS = ("requests_waiting_max", "rows_waiting_max", "bytes_waiting_max")


def unreachable(config: NodeConfig) -> list[str]:
    """Return a sentence for each limit that can never be reached."""
    looked = _Look(config)
    if not config.cluster.is_opaque:
        for record in config.founding:
            match record:
                case PutPolicy(policy=policy):
                    looked.at_policy(policy)
                    looked.at_state(policy)
                    looked.at_parts(policy)
                case PutModel(model=model):
                    looked.at_model(model)
    looked.at_port()
    return looked.found


def rate_max(policy: Policy) -> int:
    """Return how many requests a second a cluster bears for ever. Total. Deterministic."""
    return policy.dedupe_entries_max * 1000 // policy.dedupe_retention_ms


def sustained(config: NodeConfig) -> list[str]:
    """Return a sentence on what rate of requests the policy bears for ever; none of opaque nodes.

    It contradicts nothing: that an id is known for long costs memory for each.
    """
    found = []
    for record in () if config.cluster.is_opaque else config.founding:
        if isinstance(record, PutPolicy):
            most, kept_ms = record.policy.dedupe_entries_max, record.policy.dedupe_retention_ms
            found.append(
                f"ids are known for dedupe_retention_ms = {kept_ms} after their outcomes: with "
                f"dedupe_entries_max = {most} that bears {rate_max(record.policy)} requests/s for "
                f"ever, in some {most * _ID_MEMORY_BYTES // 1_000_000} MB of memory for ids; above "
                "that, new ones are refused in the end. All that the policy lets in takes up to "
                f"{state_bytes_max(record.policy)} bytes in a snapshot"
            )
    return found


def state_bytes_max(policy: Policy) -> int:
    """Return what a state takes in a snapshot at most, by these limits. Total. Deterministic.

    What comes on top is what runs when `outcome_bytes_max` is reached: its results.
    """
    return (
        policy.bytes_waiting_max
        + policy.requests_waiting_max * WAITING_BYTES
        + policy.outcome_bytes_max
        + policy.dedupe_entries_max * KNOWN_ID_BYTES
        + policy.quarantine_bytes_max
        + policy.quarantine_requests_max * _QUARANTINED_BYTES
        + policy.executors_max * EXECUTOR_BYTES_MAX
        + SETTINGS_BYTES_MAX
        + MESSAGES_BYTES_MAX
    )


class _Look:
    """Compares, and gathers what it finds.

    Args:
        config: of any node: what is looked at is alike on all.
    """

    def __init__(self, config: NodeConfig) -> None:
        self.found: list[str] = []
        self._config = config
        self._policy = Policy()

    def at_policy(self, policy: Policy) -> None:
        """Look at the limits of a cluster among themselves."""
        self._policy = policy
        of = _numbers("policy", policy)
        for amount in _AMOUNTS:
            self._is_within(f"policy.tenant_{amount}", of, f"policy.{amount}", of)
            for tenant in policy.tenants:
                name = f"policy.tenants.{tenant.tenant}"
                self._is_within(f"{name}.{amount}", _numbers(name, tenant), f"policy.{amount}", of)
        self._at_shares(policy)
        listed = len(policy.tenants)
        if listed > policy.tenants_max:
            self._say(f"policy.tenants_max = {policy.tenants_max}: policy.tenants lists {listed}")
        for low, high, why in (
            ("requests_waiting_max", "rows_waiting_max", "each has a row"),
            ("requests_waiting_max", "dedupe_entries_max", "the id of each is known"),
            ("request_bytes_max", "bytes_waiting_max", ""),
            ("request_bytes_max", "tenant_bytes_waiting_max", ""),
            ("result_bytes_max", "outcome_bytes_max", ""),
        ):
            self._is_within(f"policy.{low}", of, f"policy.{high}", of, why, always=True)
        self._is_within(
            "policy.windows_max", of, "policy.requests_waiting_max", of, "none is empty"
        )
        reserved = policy.requests_waiting_max * policy.outcome_reserve_bytes
        if reserved > policy.outcome_bytes_max:
            self._never(
                "policy.requests_waiting_max",
                policy.requests_waiting_max,
                f"outcome_reserve_bytes = {policy.outcome_reserve_bytes} for each is "
                f"{reserved} in all, and policy.outcome_bytes_max = {policy.outcome_bytes_max}",
            )

    def _at_shares(self, policy: Policy) -> None:
        """Look at what outcomes of one tenant may take, which 0 does not limit."""
        of, name = _numbers("policy", policy), "policy.tenant_outcome_bytes_max"
        shares = [(name, of, "policy.tenant_requests_waiting_max", of)]
        for tenant in policy.tenants:
            table = f"policy.tenants.{tenant.tenant}"
            own = _numbers(table, tenant)
            key = f"{table}.outcome_bytes_max"
            shares.append((key, own, f"{table}.requests_waiting_max", own))
        for key, own, waiting, waits in shares:
            share, reserve = own[key] or of[name], policy.outcome_reserve_bytes
            self._is_within(key, own, "policy.outcome_bytes_max", of)
            reserved = waits[waiting] * reserve
            if 0 < share < reserved and self._is_named(waiting):
                each = f"outcome_reserve_bytes = {reserve} for each is {reserved} in all"
                named = key if own[key] else name
                self._never(waiting, waits[waiting], f"{each}, and {named} = {share}")

    def at_state(self, policy: Policy) -> None:
        """Look whether all that the state may hold goes into a snapshot."""
        held = state_bytes_max(policy)
        most = self._config.storage.snapshots.snapshot_bytes_max
        if held > most:
            self._say(
                "policy.bytes_waiting_max, outcome_bytes_max, quarantine_bytes_max, "
                "dedupe_entries_max, requests_waiting_max, quarantine_requests_max and "
                "executors_max cannot be reached together: the state would take up to "
                f"{held} bytes, and storage.snapshot_bytes_max = {most}, beyond "
                "which no snapshot is written and the log is never compacted"
            )

    def at_parts(self, policy: Policy) -> None:
        """Look at the policy beside what the parts of a node let through."""
        config, of = self._config, _numbers("policy", policy)
        leader = _numbers("leader", config.scheduler.leader)
        sessions = _numbers("sessions", config.sessions)
        feed, api = config.scheduler.feed, config.scheduler.api
        for low in ("request_bytes_max", "result_bytes_max"):
            self._is_within(f"policy.{low}", of, "leader.record_bytes_max", leader, always=True)
        forwarded = "sessions.forward_bytes_max"
        self._is_within("policy.request_bytes_max", of, forwarded, sessions, always=True)
        unread = "sessions.unread_bytes_max"
        self._is_within("policy.result_bytes_max", of, unread, sessions, always=True)
        pending = "leader.pending_items_max"
        self._is_within("api.submissions_max", _numbers("api", api), pending, leader, always=True)
        tails = feed.tails_max * len(config.cluster.nodes)
        if policy.executors_max > tails:
            self._never(
                "policy.executors_max",
                policy.executors_max,
                f"each has a tail, and feed.tails_max = {feed.tails_max} of each node",
            )
        server = config.server
        calls = config.sessions.sessions_max + feed.tails_max + server.client_calls_max
        if calls >= server.calls_max:
            self._say(
                f"sessions.sessions_max = {config.sessions.sessions_max}, feed.tails_max = "
                f"{feed.tails_max} and server.client_calls_max = {server.client_calls_max} leave "
                f"nothing to others: each is a call, and server.calls_max = {server.calls_max}"
            )
        own, all_of = "sessions.caller_sessions_max", "sessions.sessions_max"
        self._is_within(own, sessions, all_of, sessions)

    def at_model(self, model: Model) -> None:
        """Look at the settings of a model, beside the policy before it."""
        name = f"models.{model.name}"
        own, of = _numbers(name, model), _numbers("policy", self._policy)
        for amount in _AMOUNTS:
            self._is_within(f"{name}.{amount}", own, f"policy.{amount}", of)
        for key, where, most in (
            ("rows_waiting_max", name, own),
            ("rows_waiting_max", "policy", of),
        ):
            self._is_within(f"{name}.max_batch_size", own, f"{where}.{key}", most, always=True)
        self._is_within(f"{name}.max_batch_bytes", own, f"{name}.bytes_waiting_max", own)
        self._is_within(f"{name}.max_batch_bytes", own, "policy.bytes_waiting_max", of)
        self._is_within(
            "policy.request_bytes_max", of, f"{name}.max_batch_bytes", own, "it runs in a batch"
        )
        why = "a failure follows an assignment"
        self._is_within(f"{name}.attempts_max", own, f"{name}.assigned_max", own, why, always=True)
        initial = f"{name}.backoff_initial_ms"
        self._is_within(initial, own, f"{name}.backoff_max_ms", own, always=True)
        delay_ms = model.max_queue_delay_microseconds // 1000
        if 0 < model.default_timeout_ms <= delay_ms:
            self._never(
                f"{name}.max_queue_delay_microseconds",
                model.max_queue_delay_microseconds,
                f"requests expire at default_timeout_ms = {model.default_timeout_ms}, unless they "
                "state another",
            )

    def at_port(self) -> None:
        """Look at the bounds of the client port."""
        server = _numbers("server", self._config.server)
        self._is_within("server.streams_max", server, "server.calls_max", server, always=True)
        own, all_of = "server.caller_calls_max", "server.client_calls_max"
        self._is_within(own, server, all_of, server)

    def _is_within(
        self,
        low: str,
        lows: dict[str, int],
        high: str,
        highs: dict[str, int],
        why: str = "",
        *,
        always: bool = False,
    ) -> None:
        """Complain where the first is above the second.

        Args:
            low, high: their names, as the file has them.
            lows, highs: where their values are.
            why: the one bounds the other.
            always: also where the file does not name the first.
        """
        value, most = lows[low], highs[high]
        if value > most and (always or self._is_named(low)):
            self._never(low, value, f"{why}, and {high} = {most}" if why else f"{high} = {most}")

    def _is_named(self, key: str) -> bool:
        """Return whether the file gives a key a value."""
        table, *within = key.split(".")
        values: object = self._config.cluster.rest[table].values
        while within and isinstance(values, dict):
            # A tenant's name, or a model's, may have dots of its own.
            for end in range(len(within), 0, -1):
                if ".".join(within[:end]) in values:
                    values, within = values[".".join(within[:end])], within[end:]
                    break
            else:
                return False
        return not within

    def _never(self, key: str, value: int, why: str) -> None:
        self._say(f"{key} = {value} can never be reached: {why}")

    def _say(self, text: str) -> None:
        self.found.append(text)


def _numbers(table: str, settings: object) -> dict[str, int]:
    """Return the numbers of a dataclass, by the names that they have in the file."""
    return {f"{table}.{name}": value for name, value in _fields(settings)}


def _fields(settings: object) -> Iterator[tuple[str, int]]:
    for name in type(settings).__dataclass_fields__:  # type: ignore[attr-defined]
        value = getattr(settings, name)
        if type(value) is int:
            yield name, value
