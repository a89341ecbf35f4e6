"""Certificates of one node, and what their errors mean to an operator.

Both ends show a certificate of the cluster's own authority. Host names play no
part: whoever connects compares the certificate's common name with the node it
means. What lives here: contexts made of files, errors in words. What must never
live here: who may connect. Called by: `raftbatch.realworld`, composition roots.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any

from raftbatch.config import Certificates
from raftbatch.errors import CannotStart

_NO_CHECK_TIME = 0x200000  # X509_V_FLAG_NO_CHECK_TIME, which the module ssl has no name for
_NOT_YET_VALID, _EXPIRED = 9, 10  # X509_V_ERR_*
_PEM_BYTES_MAX = 1 << 20
_FLIGHTS_MAX = 10  # of a handshake; TLS 1.3 takes three


@dataclass(frozen=True, slots=True)
class RealTLS:
    """TLS settings for both roles of a port.

    Attributes:
        server: for those who connect to us.
        client: for those to whom we connect.
        name: the common name of our certificate.
    """

    server: ssl.SSLContext
    client: ssl.SSLContext
    name: str | None = None


def read_pem(path: str) -> bytes:
    """Return what is in a file of certificates or keys; links are followed, to what was renewed.

    Raises:
        CannotStart: it cannot be read; the text says why.
    """
    try:
        with open(path, "rb") as file:
            return file.read(_PEM_BYTES_MAX)
    except OSError as error:
        raise _unreadable(path, error) from None


def load_tls(ca: str, certificate: str, key: str, *, is_client: bool = False) -> RealTLS:
    """Read the files of a node, and try them on each other.

    Args:
        ca: path of the authority's certificate, in PEM.
        certificate: of this node's, with those between it and the authority's.
        key: of its private key, without a password.
        is_client: whether the certificate is shown to servers alone, and may be good for no more.

    Raises:
        CannotStart: a file cannot be read, they do not belong together, or the
            certificate is not valid now; the text says which, and what to do.
    """
    contexts = []
    for protocol in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT):
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3  # both ends are raftbatch
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        _load_authority(context, ca)
        _load_own(context, certificate, key)
        contexts.append(context)
    server, client = contexts
    client.verify_mode = ssl.CERT_NONE if is_client else ssl.CERT_REQUIRED
    try:
        name = _tried(server, client, ca, certificate)
    finally:
        client.verify_mode = ssl.CERT_REQUIRED
    return RealTLS(server, client, name)


def load_own(certificates: Certificates, node: str) -> RealTLS:
    """Read the files of a node, and make sure that they are its own.

    Raises:
        CannotStart: as of `load_tls`, or the certificate bears another name.
    """
    tls = load_tls(certificates.ca, certificates.cert, certificates.key)
    if tls.name != node:
        raise CannotStart(
            f"the certificate in {certificates.cert} names {tls.name or 'nobody'}, but this node "
            f"is {node}: give it a certificate whose common name is {node}"
        )
    return tls


def read_shown(certificates: Certificates) -> tuple[bytes, bytes, bytes]:
    """Return what somebody trusts and shows to nodes, in PEM: authority, certificate, key.

    The latter two are tried first: nodes would say no more than that they end the call. They are
    empty where none is shown.

    Raises:
        CannotStart: as of `load_tls`.
    """
    if certificates.cert:
        load_tls(certificates.ca, certificates.cert, certificates.key, is_client=True)
    else:
        _load_authority(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), certificates.ca)
    ca, cert, key = (
        read_pem(each) if each else b""
        for each in (certificates.ca, certificates.cert, certificates.key)
    )
    return ca, cert, key


def _load_authority(context: ssl.SSLContext, ca: str) -> None:
    try:
        context.load_verify_locations(cafile=ca)
    except ssl.SSLError as error:
        raise CannotStart(
            f"{ca} holds no certificate in PEM: name the file of the cluster's authority "
            f"({_reason(error)})"
        ) from None
    except OSError as error:
        raise _unreadable(ca, error) from None


def _no_password() -> str:
    raise ValueError("it asks for a password")


def _load_own(context: ssl.SSLContext, certificate: str, key: str) -> None:
    for path in (certificate, key):  # the module ssl does not say which of them it missed
        read_pem(path)
    try:
        context.load_cert_chain(certificate, key, _no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            text = f"{key} is not the key of the certificate in {certificate}"
        else:
            text = f"{certificate} and {key} are no certificate and key in PEM"
        raise CannotStart(f"{text} ({_reason(error)})") from None
    except (OSError, ValueError) as error:
        raise CannotStart(f"{key} cannot be used: {error}; a node's key has no password") from None


def _unreadable(path: str, error: OSError) -> CannotStart:
    return CannotStart(f"{path} cannot be read: {error.strerror or error}")


def _tried(server: ssl.SSLContext, client: ssl.SSLContext, ca: str, certificate: str) -> str | None:
    """Let the node shake hands with itself, first whatever the time; return its name."""
    contexts = (server, client)
    try:
        for context in contexts:
            context.verify_flags |= _NO_CHECK_TIME
        facts = _shake_hands(server, client)
    except ssl.SSLError as error:
        raise CannotStart(
            f"the certificate in {certificate} is not accepted by the authority in {ca}: "
            f"{_reason(error)}"
        ) from None
    finally:
        for context in contexts:
            context.verify_flags &= ~_NO_CHECK_TIME
    try:
        _shake_hands(server, client)
    except ssl.SSLError as error:
        raise CannotStart(
            f"the certificate in {certificate} is valid from {facts['notBefore']} to "
            f"{facts['notAfter']}, or that of its authority in {ca} is out of its time: "
            f"{_reason(error)} by this machine's clock: renew it, or set the clock"
        ) from None
    names = [value for part in facts["subject"] for key, value in part if key == "commonName"]
    return names[0] if len(names) == 1 else None


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> dict[str, Any]:
    """Return the client's certificate, as the server sees it: the same as its own.

    Raises:
        ssl.SSLError: one of them does not accept the other.
    """
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(down, up), server.wrap_bio(up, down, server_side=True)]
    for _ in range(_FLIGHTS_MAX):
        waiting = False
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                waiting = True
        if not waiting:
            break
    return ends[1].getpeercert() or {}


_VERDICTS = {
    _EXPIRED: "the certificate of the other end, or of its authority, has expired, or this "
    "machine's clock is wrong",
    _NOT_YET_VALID: "the certificate of the other end, or of its authority, is not valid yet, or "
    "this machine's clock is wrong",
}

# What the other end says to us, and what is not TLS at all, by OpenSSL's name of the reason.
_REASONS = {
    "CERTIFICATE_EXPIRED": "the other end says that our certificate has expired: it has, or the "
    "clock there is wrong",
    "BAD_CERTIFICATE": "the other end does not accept our certificate; it may be not valid yet by "
    "the clock there",
    "CERTIFICATE_REQUIRED": "the other end asks for a certificate, and we have shown none",
    "UNKNOWN_CA": "the other end does not know the authority of our certificate",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the other end has shown no certificate",
    "WRONG_VERSION_NUMBER": "the other end does not speak TLS",
    "HTTP_REQUEST": "the other end speaks HTTP",
    "UNSUPPORTED_PROTOCOL": "the other end does not speak TLS 1.3",
}


def explain(error: OSError) -> OSError:
    """Return an error of a connection in words that an operator can act on."""
    if isinstance(error, ssl.SSLCertVerificationError):
        verdict = _VERDICTS.get(
            error.verify_code, "the certificate of the other end is not of our authority"
        )
        return ConnectionError(f"{verdict} ({error.verify_message})")
    if isinstance(error, ssl.SSLError):
        reason = error.reason or ""
        for name, text in _REASONS.items():
            if reason.endswith(name):
                return ConnectionError(f"{text} ({_reason(error)})")
        return ConnectionError(f"TLS failed: {_reason(error)}")
    if not str(error):  # as asyncio and uvloop do it: they close without TLS's own words
        return type(error)(
            "the other end closed the connection during the TLS handshake: it may not accept our "
            "certificate, and says why in its log, or it has no TLS"
        )
    return error


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return (error.reason or str(error)).lower().replace("_", " ")
