"""TLS settings: checked when they are made, read anew for each connection, never weakened."""

from __future__ import annotations

import dataclasses
import logging
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

import acemq_amqp
from acemq_amqp import (
    ConfigurationError,
    Credentials,
    Security,
    blocking,
    without_verifying_the_broker,
)
from acemq_amqp.address import parse_addresses
from acemq_amqp.security import checked_security

SECRET = "sesame-9"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ca.pem, cert.pem, key.pem, both.pem, locked.pem (encrypted), junk.pem."""
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    mine = authority.issue_cert("client")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    mine.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    mine.private_key_pem.write_to_path(folder / "key.pem")
    mine.private_key_and_cert_chain_pem.write_to_path(folder / "both.pem")
    key = load_pem_private_key(mine.private_key_pem.bytes(), None)
    (folder / "locked.pem").write_bytes(
        key.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(SECRET.encode())
        )
    )
    trustme.CA().issue_cert("x").private_key_pem.write_to_path(folder / "other-key.pem")
    (folder / "junk.pem").write_text(f"{SECRET}\n")
    return folder


def source() -> Credentials:
    return Credentials("ann", SECRET)


def test_by_default_the_broker_is_verified_by_the_systems_authorities() -> None:
    context = Security().context()
    assert context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    system = ssl.create_default_context()
    assert context.get_ca_certs() == system.get_ca_certs()


@pytest.mark.parametrize("form", ["ca_file", "pem", "der", "bytes"])
def test_a_given_authority_replaces_the_systems(files: Path, form: str) -> None:
    pem = (files / "ca.pem").read_text()
    data: dict[str, str | bytes] = {
        "pem": pem,
        "bytes": pem.encode(),
        "der": ssl.PEM_cert_to_DER_cert(pem[pem.index("-----BEGIN") :]),
    }
    security = (
        Security(ca_data=data[form]) if data.get(form) else Security(ca_file=files / "ca.pem")
    )
    context = security.context()
    assert len(context.get_ca_certs()) == 1
    assert context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname


@pytest.mark.parametrize(
    "given",
    [
        {"certificate": "cert.pem", "key": "key.pem"},
        {"certificate": "both.pem"},
        {"certificate": "cert.pem", "key": "locked.pem", "key_password": SECRET},
        {"certificate": "cert.pem", "key": "locked.pem", "key_password": SECRET.encode()},
    ],
)
def test_a_client_certificate_is_taken(files: Path, given: dict[str, Any]) -> None:
    Security(**_placed(files, given)).context()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ca_file": "none.pem"}, "ca_file .*none.pem.* No such file"),
        ({"ca_file": "junk.pem"}, "ca_file .*junk.pem"),
        ({"ca_file": "key.pem"}, "ca_file .*key.pem"),
        ({"ca_file": 7}, "ca_file= wants the path of a file, got a int"),
        ({"ca_data": "junk"}, "ca_data"),
        ({"ca_data": ""}, "ca_data"),
        ({"ca_data": b""}, "ca_data"),
        ({"ca_data": 7}, "ca_data"),
        ({"key": "key.pem"}, "give certificate="),
        ({"key_password": SECRET}, "give certificate="),
        ({"certificate": "cert.pem"}, "certificate .*cert.pem"),
        ({"certificate": "none.pem", "key": "key.pem"}, "No such file"),
        ({"certificate": "cert.pem", "key": "none.pem"}, "none.pem"),
        ({"certificate": "cert.pem", "key": "other-key.pem"}, "KEY_VALUES_MISMATCH"),
        ({"certificate": "cert.pem", "key": "locked.pem"}, "give key_password="),
        ({"certificate": "cert.pem", "key": "locked.pem", "key_password": "no"}, "key_password"),
        ({"server_name": ""}, "server_name="),
        ({"server_name": "a b"}, "server_name="),
        ({"credentials": source()}, "credentials= wants a function"),
        ({"credentials": ("ann", SECRET)}, "credentials= wants a function"),
    ],
)
def test_what_cannot_work_is_refused_when_made(
    files: Path, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"^acemq: .*{said}") as refused:
        Security(**_placed(files, given))
    assert SECRET not in str(refused.value)


def test_files_are_read_at_each_connection(files: Path, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_bytes((files / "ca.pem").read_bytes())
    security = Security(ca_file=file)
    before = security.context().get_ca_certs()
    trustme.CA().cert_pem.write_to_path(file)
    assert security.context().get_ca_certs() != before
    file.unlink()
    with pytest.raises(ConfigurationError, match="No such file"):
        security.context()


def test_nothing_secret_is_shown(files: Path) -> None:
    security = Security(
        ca_data=(files / "ca.pem").read_text(),
        certificate=files / "cert.pem",
        key=files / "locked.pem",
        key_password=SECRET,
        server_name="broker.example",
        credentials=source,
    )
    assert SECRET not in repr(security) and "BEGIN" not in repr(security)
    assert "broker.example" in repr(security) and "locked.pem" in repr(security)


def test_verification_is_turned_off_by_one_function_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "acemq_amqp"):
        security = without_verifying_the_broker(credentials=source)
        context = security.context()
        security.context()
    assert context.verify_mode is ssl.CERT_NONE and not context.check_hostname
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert repr(security) == "without_verifying_the_broker(credentials=...)"
    assert security != Security(credentials=source)


def test_no_keyword_turns_verification_off() -> None:
    with pytest.raises(TypeError):
        Security(_verifies=False)  # type: ignore[call-arg]
    copied = dataclasses.replace(without_verifying_the_broker(), server_name="x")
    assert copied.context().verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    "security",
    [
        Security(server_name="broker.example"),
        Security(server_name="broker.example", credentials=source),
        without_verifying_the_broker(),
    ],
)
@pytest.mark.parametrize("url", ["amqp://h", "memory://m", ["amqps://h", "amqp://other"]])
def test_tls_settings_without_tls_are_refused(url: str, security: Security) -> None:
    with pytest.raises(ConfigurationError, match=r"reached without TLS; write amqps://"):
        acemq_amqp.connect(url, security=security)
    with pytest.raises(ConfigurationError, match=r"reached without TLS; write amqps://"):
        blocking.connect(url, security=security)


@pytest.mark.parametrize("url", ["amqp://h", "amqps://h", "memory://m", ["amqps://h", "amqp://h"]])
def test_credentials_are_for_any_address(url: str) -> None:
    security = Security(credentials=source)
    assert checked_security(security, parse_addresses(url)) is security


@pytest.mark.parametrize("wrong", [True, "ca.pem", ssl.create_default_context(), source])
def test_security_of_another_kind_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="security= wants a Security"):
        acemq_amqp.connect("amqps://h", security=wrong)


def test_the_name_to_verify_is_the_host_unless_said_otherwise() -> None:
    assert Security().name_for("broker.example") == "broker.example"
    assert Security(server_name="real").name_for("broker.example") == "real"


def _placed(files: Path, given: dict[str, Any]) -> dict[str, Any]:
    """File names as paths in the folder."""
    return {
        name: files / value if isinstance(value, str) and value.endswith(".pem") else value
        for name, value in given.items()
    }
