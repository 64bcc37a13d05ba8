"""JSON Web Tokens as an authorization server issues them, and a RabbitMQ that logs in by them."""

from __future__ import annotations

import base64
import json
import time
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from acemq_amqp import Credentials

_KEY = "the-key"
_SCOPE = ["rabbitmq.configure:*/*", "rabbitmq.write:*/*", "rabbitmq.read:*/*"]


class Issuer:
    """Signs tokens.

    :param folder: where the public key goes, for the broker
    """

    def __init__(self, folder: Path) -> None:
        self._key = rsa.generate_private_key(65537, 2048)
        self._public = folder / "token-key.pem"
        public = self._key.public_key()
        self._public.write_bytes(
            public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        )

    @property
    def config(self) -> list[str]:
        """Lines of rabbitmq.conf for a broker that takes its tokens, and passwords besides."""
        return [
            "auth_backends.1 = rabbit_auth_backend_oauth2",
            "auth_backends.2 = rabbit_auth_backend_internal",
            "auth_oauth2.resource_server_id = rabbitmq",
            f"auth_oauth2.default_key = {_KEY}",
            f"auth_oauth2.signing_keys.{_KEY} = {self._public}",
        ]

    def token(self, user: str, lasts: float) -> Credentials:
        """A token, which the broker counts in whole seconds."""
        expiry = int(time.time() + lasts)
        claims = {"sub": user, "client_id": user, "aud": ["rabbitmq"], "scope": _SCOPE}
        signed = ".".join(
            _coded(json.dumps(part).encode())
            for part in ({"alg": "RS256", "typ": "JWT", "kid": _KEY}, {**claims, "exp": expiry})
        )
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), SHA256())
        token = f"{signed}.{_coded(signature)}"
        return Credentials(user, token, datetime.fromtimestamp(expiry, UTC))


def _coded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


PLUGIN = "rabbitmq_auth_backend_oauth2"
