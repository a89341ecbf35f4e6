"""Handshakes that failed: each reason of gRPC's in words, and everything else as it is."""

import pytest

from raftbatch.handshakes import explain, in_words, together

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


@pytest.mark.parametrize(
    ("details", "words"),
    [
        (FAILED + "Failed to connect to remote host: connect: Connection refused (111)",
         "nothing listens there"),
        ("Deadline Exceeded", "it did not answer in time"),
        ("DNS resolution failed for nowhere:1: C-ares status is not ARES_SUCCESS",
         "no machine is known by that name"),
        ("what nobody knows", "what nobody knows"),
    ],
)  # fmt: skip
def test_node_that_is_not_reached_is_told_in_words(details: str, words: str) -> None:
    assert in_words(details) == words


def test_what_several_nodes_say_is_said_once() -> None:
    said = {"a:1": "a:1: nothing", "b:1": "b:1: nothing", "c:1": "c:1 does not answer", "d:1": "no"}
    assert together(said) == "a:1, b:1: nothing; c:1: does not answer; d:1: no"
