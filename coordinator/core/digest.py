"""The rolling hash over everything that `apply` did.

It takes each entry's checksum, and the rows of all replies and effects: two
replicas that did anything differently differ from then on. Payloads and results
are not hashed again: the entry's checksum has them. What lives here: one
function. Called by: `apply`. Total. Deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import cast

import msgpack

from coordinator.core.effects import Effect, Reply, Verdicts
from coordinator.core.state import DIGEST_BYTES, State


def roll(
    state: State, checksum: int, replies: Sequence[Reply | Verdicts], effects: Sequence[Effect]
) -> bytes:
    """Return the digest after an entry; the state is as the entry left it."""
    row = (
        state.index,
        checksum,
        state.now_ms,
        state.next_request,
        state.next_ended,
        state.oldest_kept,
        state.oldest_ended,
        [each.row() for each in replies],
        [each.row() for each in effects],
    )
    content = cast("bytes", msgpack.packb(row))
    return blake2b(content, digest_size=DIGEST_BYTES, key=state.digest).digest()
