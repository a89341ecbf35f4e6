"""Handshakes that failed: each reason of gRPC's in words, and everything else as it is."""

import pytest

from raftbatch.handshakes import explain

FAILED = "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: "
SSL = FAILED + "Tls handshake failed (TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL: error:1000007d:SSL "


@pytest.mark.parametrize(
    ("details", "meaning"),
    [
        (FAILED + "Custom verification check failed with error: UNAUTHENTICATED: Hostname "
         "Verification Check failed.", "bears another name"),
        (SSL + "CERTIFICATE_VERIFY_FAILED: certificate has expired: OK", "has expired, or this"),
        (SSL + "CERTIFICATE_VERIFY_FAILED: certificate is not yet valid: OK", "is not valid yet"),
        (SSL + "CERTIFICATE_VERIFY_FAILED: unable to get local issuer", "not of our authority"),
        (SSL + "BAD_SIGNATURE: certificate signature failure: OK", "not of our authority"),
        (SSL + "WRONG_VERSION_NUMBER: Invalid certificate", "does not speak TLS"),
        (FAILED + "Failed to create security handshaker.", "none in PEM"),
        (FAILED.replace("UNKNOWN", "UNAVAILABLE") + "Socket closed", "before a word"),
    ],
)  # fmt: skip
def test_handshake_that_failed_is_said_in_words(details: str, meaning: str) -> None:
    said = explain(details)
    assert meaning in said.partition(" (")[0]
    assert said.endswith(f"({details})"), "whoever knows more reads on"


def test_other_failures_are_left_as_they_are() -> None:
    for details in ("", "Deadline Exceeded", "Socket closed", FAILED + "Connection refused"):
        assert explain(details) == details
