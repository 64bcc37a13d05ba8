"""What TLS prevents for good is told apart from what may pass, and says who has to change what."""

from __future__ import annotations

import ssl

import pytest

from acemq_amqp.address import parse_address
from acemq_amqp.errors import CannotConnect, TlsFailed, UntrustedBroker
from acemq_amqp.transports.refusals import no_connection
from acemq_amqp.transports.tls import AnsweredInTls, tls_failure
from acemq_amqp.transports.wire.tap import Tap

ADDRESS = parse_address("amqps://ann:sesame-9@broker.example")


def tls_error(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}]")
    error.reason = reason
    return error


def untrusted(code: int, message: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, f"certificate verify failed: {message}")
    error.verify_code, error.verify_message = code, message
    return error


@pytest.mark.parametrize(
    ("code", "message", "said"),
    [
        (10, "certificate has expired", "expired .*renew it on the broker"),
        (9, "certificate is not yet valid", "not valid yet .*clocks"),
        (18, "self-signed certificate", "self-signed .*ca_file"),
        (19, "self-signed certificate in certificate chain", "not trusted here .*ca_file"),
        (20, "unable to get local issuer certificate", "not trusted here .*ca_file"),
        (62, "Hostname mismatch", "for another host name .*server_name"),
        (64, "IP address mismatch", "for another address .*server_name"),
        (23, "certificate revoked", r"\(certificate revoked\); renew it"),
    ],
)
def test_an_untrusted_broker(code: int, message: str, said: str) -> None:
    error = tls_failure(ADDRESS, untrusted(code, message))
    assert isinstance(error, UntrustedBroker)
    with pytest.raises(UntrustedBroker, match=f"^acemq: .*broker.example:5671.*{said}"):
        raise error
    assert message in str(error) and "sesame" not in str(error)


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "wants a client certificate"),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", "refused the handshake"),
        ("TLSV1_ALERT_UNKNOWN_CA", "does not trust this client"),
        ("SSLV3_ALERT_CERTIFICATE_EXPIRED", "has expired"),
        ("TLSV1_ALERT_PROTOCOL_VERSION", "no TLS 1.2"),
        ("UNSUPPORTED_PROTOCOL", "no TLS 1.2"),
        ("WRONG_VERSION_NUMBER", "does not speak TLS .*amqp://"),
    ],
)
def test_what_cannot_change_by_itself(reason: str, said: str) -> None:
    error = tls_failure(ADDRESS, tls_error(reason))
    assert isinstance(error, TlsFailed) and not isinstance(error, UntrustedBroker)
    with pytest.raises(TlsFailed, match=f"^acemq: .*{said}"):
        raise error


@pytest.mark.parametrize(
    "passing",
    [
        tls_error("TLSV1_ALERT_INTERNAL_ERROR"),
        ssl.SSLEOFError(8, "EOF occurred in violation of protocol"),
        ConnectionResetError(104, "Connection reset by peer"),
        TimeoutError(),
        None,
    ],
)
def test_what_may_pass_is_tried_again(passing: BaseException | None) -> None:
    assert tls_failure(ADDRESS, passing) is None
    assert type(no_connection(ADDRESS, None, passing)) is CannotConnect


def test_it_is_found_in_what_a_driver_raises() -> None:
    wrapped = ConnectionError("the driver's own")
    wrapped.__context__ = untrusted(10, "certificate has expired")
    wrapped.__context__.__context__ = wrapped  # as one driver leaves it
    assert type(no_connection(ADDRESS, None, wrapped)) is UntrustedBroker


def test_a_tls_port_spoken_to_without_tls() -> None:
    tap = Tap()
    alert = b"\x15\x03\x01\x00\x02\x02\n"
    assert tap.feed(alert) == ([], alert), "the driver may make of it what it will"
    assert tap.speaks_tls
    with pytest.raises(TlsFailed, match=r"this port speaks TLS.*amqps://"):
        raise no_connection(ADDRESS, None, AnsweredInTls())


def test_frames_are_no_tls() -> None:
    tap = Tap()
    tap.feed(b"\x01\x00\x00\x00\x00\x00\x04\x00\x0a\x00\x33\xce")
    assert not tap.speaks_tls
