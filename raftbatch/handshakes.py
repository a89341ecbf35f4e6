"""Why a connection over gRPC did not come about, in words that a person can act on.

gRPC says it with the names that OpenSSL has for it. What lives here: those, and what they
mean. What must never live here: what is done about it. Called by: whoever calls nodes.
Total. Deterministic.
"""

from __future__ import annotations

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


def explain(details: str) -> str:
    """Return what gRPC says of a call that failed, with what it means where that is known."""
    for signs, meaning in _MEANINGS:
        if all(sign in details for sign in signs):
            return f"{meaning} ({details})"
    return details
