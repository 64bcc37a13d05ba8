"""What went wrong with TLS, told so that a reader knows which side has to change what.

Both drivers meet the same errors of the system's TLS library, wrapped in errors of their
own; this finds the library's error in whatever it is wrapped in. What trying again cannot
help is :class:`TlsFailed`; anything else is left to the caller.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import Final

from acemq_amqp.address import Address
from acemq_amqp.errors import TlsFailed, UntrustedBroker

_AUTHORITY: Final = (
    "give the authority that signed it as Security(ca_file=...); the system's authorities are "
    "trusted only where none is given"
)
_NAME: Final = (
    "connect by a host name that is in the certificate, or say which one it has as "
    "Security(server_name=...)"
)
#: by OpenSSL's code of a failed verification: what the certificate is, and what to do
_UNTRUSTED: Final = {
    2: ("signed by an authority that is not trusted here", _AUTHORITY),
    9: ("not valid yet", "check the clocks of both machines"),
    10: ("expired", "renew it on the broker, or check this machine's clock"),
    18: ("self-signed and not trusted here", _AUTHORITY),
    19: ("signed by an authority that is not trusted here", _AUTHORITY),
    20: ("signed by an authority that is not trusted here", _AUTHORITY),
    21: ("signed by an authority that is not trusted here", _AUTHORITY),
    62: ("for another host name", _NAME),
    64: ("for another address", _NAME),
}
_OWN: Final = "check Security(certificate=..., key=...) and the authorities that the broker trusts"
#: by the end of the library's name for the alert that the broker sent: what it means for us
_ALERTS: Final = {
    "ALERT_CERTIFICATE_REQUIRED": (
        "the broker wants a client certificate",
        "give one as Security(certificate=..., key=...)",
    ),
    "ALERT_HANDSHAKE_FAILURE": (
        "the broker refused the handshake, as it does where it wants a client certificate",
        "give one as Security(certificate=..., key=...), or compare the ciphers of both sides",
    ),
    "ALERT_UNKNOWN_CA": ("the broker does not trust this client's certificate", _OWN),
    "ALERT_BAD_CERTIFICATE": ("the broker refused this client's certificate", _OWN),
    "ALERT_UNSUPPORTED_CERTIFICATE": ("the broker refused this client's certificate", _OWN),
    "ALERT_CERTIFICATE_UNKNOWN": ("the broker refused this client's certificate", _OWN),
    "ALERT_CERTIFICATE_REVOKED": ("this client's certificate was revoked", _OWN),
    "ALERT_CERTIFICATE_EXPIRED": ("this client's certificate has expired", "renew it"),
    "ALERT_ACCESS_DENIED": ("the broker refused this client's certificate", _OWN),
    "ALERT_PROTOCOL_VERSION": ("the broker speaks no TLS 1.2 or later", "allow it there"),
    "UNSUPPORTED_PROTOCOL": ("the broker speaks no TLS 1.2 or later", "allow it there"),
}
#: what the library calls bytes that are not TLS
_NOT_TLS: Final = (
    "WRONG_VERSION_NUMBER",
    "UNKNOWN_PROTOCOL",
    "PACKET_LENGTH_TOO_LONG",
    "RECORD_LAYER_FAILURE",
    "HTTP_REQUEST",
)


class AnsweredInTls(ConnectionError):
    """The other side speaks TLS, where this one does not."""


def tls_failure(address: Address, cause: BaseException | None) -> TlsFailed | None:
    """The error for a connection that TLS prevents for good, or None where it is none of that.

    :param cause: what the driver or the socket raised, wrapped or not
    """
    for error in _causes(cause):
        if isinstance(error, AnsweredInTls):
            return _failed(
                address,
                "this port speaks TLS, and the address says not to",
                "write amqps://, or give the broker's port without TLS (by default 5672)",
            )
        if isinstance(error, ssl.SSLCertVerificationError):
            return _untrusted(address, error)
        if isinstance(error, ssl.SSLError):
            return _of_reason(address, getattr(error, "reason", None) or "")
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what it came from, each once: drivers chain errors in circles."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        yield error
        error = error.__cause__ or error.__context__


def _untrusted(address: Address, error: ssl.SSLCertVerificationError) -> UntrustedBroker:
    what, advice = _UNTRUSTED.get(
        error.verify_code, ("not one to be trusted", "renew it on the broker")
    )
    failed = UntrustedBroker(
        f"acemq: cannot connect to {address.shown}: the broker's certificate is {what} "
        f"({error.verify_message}); {advice}"
    )
    failed.__cause__ = error
    return failed


def _of_reason(address: Address, reason: str) -> TlsFailed | None:
    if reason in _NOT_TLS:
        return _failed(
            address,
            f"this port does not speak TLS ({reason})",
            "write amqp://, or give the broker's TLS port (by default 5671)",
        )
    for end, (what, advice) in _ALERTS.items():
        if reason.endswith(end):
            return _failed(address, f"{what} ({reason})", advice)
    return None


def _failed(address: Address, what: str, advice: str) -> TlsFailed:
    return TlsFailed(f"acemq: cannot connect to {address.shown}: {what}; {advice}")
