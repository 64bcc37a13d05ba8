"""How a connection is made safe: whom it trusts, what it shows, as whom it logs in.

``amqps://`` verifies the broker's certificate and host name, with TLS 1.2 at least, and
needs no settings where the broker's certificate is signed by an authority that the system
knows. Files are checked when the value is made and read again at each connection, so
renewed certificates take effect without a restart. No keyword turns verification off.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from acemq_amqp.address import Address
from acemq_amqp.credentials import CredentialsSource
from acemq_amqp.errors import ConfigurationError, kind_of

log = logging.getLogger("acemq_amqp")

Path: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Security:
    """TLS settings for ``amqps://`` addresses, and a source of credentials for any address.

    The broker is always verified. Nothing secret is in its repr.

    :param ca_file: PEM file of the authorities to trust, instead of the system's
    :param ca_data: the same as PEM text or DER bytes; both may be given
    :param certificate: PEM file of this client's certificate, with its chain
    :param key: PEM file of its key; by default the key is in the certificate's file
    :param key_password: where the key is encrypted
    :param server_name: the name that the broker's certificate has to be for, where that is not
        the address's host; also sent to the broker (SNI)
    :param credentials: gives the login at every attempt to connect, and before it expires; the
        address's own login then counts for nothing
    :raises ConfigurationError: a file that is missing or not what it should be, or settings that
        do not go together
    """

    ca_file: Path | None = None
    ca_data: str | bytes | None = None
    certificate: Path | None = None
    key: Path | None = None
    key_password: str | bytes | None = None
    server_name: str | None = None
    credentials: CredentialsSource | None = None
    _verifies: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        self._check()
        self._load_into(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    def _check(self) -> None:
        if self.credentials is not None and not callable(self.credentials):
            raise ConfigurationError(
                "acemq: credentials= wants a function that gives Credentials, such as "
                "credentials_from_environment(); got a "
                f"{type(self.credentials).__name__}. For a fixed login put it in the address"
            )
        if self.server_name is not None and not _is_name(self.server_name):
            raise ConfigurationError(
                "acemq: server_name= has to be the name in the broker's certificate; "
                f"got {self.server_name!r}"
            )
        for name in ("ca_file", "certificate", "key"):
            if not isinstance(getattr(self, name), str | os.PathLike | None):
                raise ConfigurationError(
                    f"acemq: {name}= wants the path of a file, got a "
                    f"{type(getattr(self, name)).__name__}; text of certificates goes to ca_data="
                )
        if self.certificate is None and (self.key is not None or self.key_password is not None):
            raise ConfigurationError(
                "acemq: key= and key_password= belong to a client certificate; give certificate= "
                "as well, or leave them out"
            )

    def __repr__(self) -> str:
        shown = [
            f"{name}={getattr(self, name)!r}"
            for name in ("ca_file", "certificate", "key", "server_name")
            if getattr(self, name) is not None
        ]
        shown += [
            f"{name}=..."
            for name in ("ca_data", "key_password", "credentials")
            if getattr(self, name) is not None
        ]
        kind = "Security" if self._verifies else "without_verifying_the_broker"
        return f"{kind}({', '.join(shown)})"

    @property
    def has_tls_settings(self) -> bool:
        """Whether anything is set that means something on ``amqps://`` only."""
        return not self._verifies or any(
            setting is not None
            for setting in (self.ca_file, self.ca_data, self.certificate, self.server_name)
        )

    def context(self) -> ssl.SSLContext:
        """The TLS settings of one connection, from the files as they are now.

        :raises ConfigurationError: a file is gone, or is not what it was
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # checks certificate and host name
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._load_into(context)
        if self.ca_file is None and self.ca_data is None:
            context.load_default_certs()
        if not self._verifies:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def name_for(self, host: str) -> str:
        """The name that the certificate of the broker at this host has to be for."""
        return self.server_name or host

    def _load_into(self, context: ssl.SSLContext) -> None:
        if self.ca_file is not None:
            with _explained("ca_file", os.fspath(self.ca_file), "PEM certificates of authorities"):
                context.load_verify_locations(cafile=self.ca_file)
        if self.ca_data is not None:
            with _explained("ca_data", "as given", "certificates of authorities, PEM text or DER"):
                context.load_verify_locations(cadata=_authorities(self.ca_data))
        if self.certificate is not None:
            shown = os.fspath(self.certificate)
            if self.key is not None:
                shown += f" with key {os.fspath(self.key)}"
            password = _no_password if self.key_password is None else self.key_password
            with _explained("certificate", shown, "a PEM certificate and its key"):
                context.load_cert_chain(self.certificate, self.key, password)


def without_verifying_the_broker(
    *,
    certificate: Path | None = None,
    key: Path | None = None,
    key_password: str | bytes | None = None,
    server_name: str | None = None,
    credentials: CredentialsSource | None = None,
) -> Security:
    """Encrypts, and talks to whoever answers: anybody on the way can read and change everything.

    For a broker on a developer's own machine. Anywhere else give the authority of the broker's
    certificate as ``Security(ca_file=...)``. Each call of this logs a warning. The parameters are
    those of :class:`Security`.
    """
    security = Security(
        certificate=certificate,
        key=key,
        key_password=key_password,
        server_name=server_name,
        credentials=credentials,
    )
    object.__setattr__(security, "_verifies", False)
    log.warning(
        "acemq: connections are made without verifying the broker: anybody on the way can read "
        "and change messages and passwords; give the broker's authority as Security(ca_file=...)"
    )
    return security


def checked_security(security: Any, addresses: Iterable[Address]) -> Security:
    """The security of a connection to these addresses; the default one where None is given.

    :raises ConfigurationError: it is something else, or has TLS settings for an address without
        TLS. A source of credentials is for any address, the broker in memory included
    """
    if security is None:
        return Security()
    if not isinstance(security, Security):
        raise ConfigurationError(
            f"acemq: security= wants a Security, got {kind_of(security)}; write "
            "Security(ca_file=...), or Security(credentials=...)"
        )
    for address in addresses:
        if security.has_tls_settings and not address.secure:
            raise ConfigurationError(
                f"acemq: TLS settings were given, and {address.shown} is reached without TLS; "
                "write amqps:// (port 5671), or leave all but credentials= out of security="
            )
    return security


@contextmanager
def _explained(setting: str, given: str, what: str) -> Iterator[None]:
    """Says which setting is at fault, in the words of the system or of OpenSSL."""
    try:
        yield
    except ConfigurationError:
        raise
    except ssl.SSLError as error:
        words = getattr(error, "reason", None) or str(error)
        raise ConfigurationError(
            f"acemq: {setting} ({given}) has to hold {what}, and cannot be loaded: "
            f"{words}; check the files, and key_password if the key is encrypted"
        ) from error
    except (OSError, TypeError, ValueError) as error:
        words = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(
            f"acemq: {setting} ({given}) cannot be loaded: {words}; it has to hold "
            f"{what}, readable for this process"
        ) from error


def _authorities(data: str | bytes) -> str | bytes:
    """As the TLS library wants them: PEM is text, and nothing at all is no certificate."""
    if isinstance(data, bytes) and b"-----BEGIN" in data:
        return data.decode("ascii")
    return data or "none"


def _no_password() -> str:
    """Asked by OpenSSL, which would otherwise ask at the terminal and wait."""
    raise ConfigurationError("acemq: the key of the certificate is encrypted; give key_password=")


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and value.isprintable() and " " not in value
