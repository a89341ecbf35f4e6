"""Why a connection over gRPC did not come about, in words that a person can act on.

gRPC says it with the names that OpenSSL has for it. What lives here: those, and what they
mean. What must never live here: what is done about it. Called by: whoever calls nodes.
Total. Deterministic.
"""

from __future__ import annotations

from collections.abc import Mapping

_OTHER_NAME = (
    "its certificate bears another name than that of the node that is meant: an address is wrong, "
    "or a certificate"
)
_AUTHORITY = (
    "its certificate is not of our authority: name the cluster's own as ca, or give the node a "
    "certificate of it"
)
_EXPIRED = (
    "its certificate, or that of its authority, has expired, or this machine's clock is wrong"
)
_NOT_YET = (
    "its certificate, or that of its authority, is not valid yet, or this machine's clock is wrong"
)
_PLAIN = "it does not speak TLS"
_OWN = "the certificate here and its key are none in PEM, or do not belong together"
_CLOSED = (
    "it closed the connection before a word: where it has TLS it wants a certificate that its "
    "authority has signed and that is valid now"
)

# The first of which all signs occur counts.
_MEANINGS = (
    (("Hostname Verification Check failed",), _OTHER_NAME),
    (("certificate has expired",), _EXPIRED),
    (("certificate is not yet valid",), _NOT_YET),
    (("CERTIFICATE_VERIFY_FAILED",), _AUTHORITY),
    (("certificate signature failure",), _AUTHORITY),
    (("WRONG_VERSION_NUMBER",), _PLAIN),
    (("Failed to create security handshaker",), _OWN),
    (("failed to connect", "Socket closed"), _CLOSED),
)


# What needs no words of gRPC's beside it. The first whose sign occurs counts.
_UNREACHABLE = (
    ("Connection refused", "nothing listens there"),
    ("DNS resolution failed", "no machine is known by that name"),
    ("Name or service not known", "no machine is known by that name"),
    ("Network is unreachable", "its network is not reached from here"),
    ("No route to host", "its machine is not reached from here"),
    ("Deadline Exceeded", "it did not answer in time"),
    ("DEADLINE_EXCEEDED", "it did not answer in time"),
    ("Timeout occurred", "it did not answer in time"),
    ("connection attempt timed out", "it did not answer in time"),
)


def in_words(details: str) -> str:
    """Return why a node was not reached, for a person who is to act on it."""
    for sign, meaning in _UNREACHABLE:
        if sign in details:
            return meaning
    return explain(details)


def together(said: Mapping[str, str]) -> str:
    """Return what nodes said, each answer once, behind all who gave it.

    Args:
        said: by the node's address or name; where it begins with that, it is not said twice.
    """
    by_text: dict[str, list[str]] = {}
    for who, text in said.items():
        by_text.setdefault(text.removeprefix(who).removeprefix(":").strip(), []).append(who)
    return "; ".join(f"{', '.join(who)}: {text}" for text, who in by_text.items())


def explain(details: str) -> str:
    """Return what gRPC says of a call that failed, with what it means where that is known."""
    for signs, meaning in _MEANINGS:
        if all(sign in details for sign in signs):
            return f"{meaning} ({details})"
    return details
