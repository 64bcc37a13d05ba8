"""A boto3 client whose calls are bounded in time, made when it is first wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from acemq_amqp.errors import ConfigurationError

#: The async flavour calls a store in eight threads, and a worker of the blocking one in its own.
_CONNECTIONS: Final = 32


def make_client(
    *,
    endpoint_url: str | None,
    region: str | None,
    session: Any,
    connect_timeout: float,
    read_timeout: float,
    attempts: int,
) -> Callable[[], Any]:
    """What makes a client. A call of it gives one with credentials looked up anew.

    :param attempts: of one call
    :raises ConfigurationError: boto3 is not installed
    """
    boto3, config = _boto()
    settings: dict[str, Any] = {
        "connect_timeout": connect_timeout,
        "read_timeout": read_timeout,
        "retries": {"total_max_attempts": attempts, "mode": "standard"},
        "max_pool_connections": _CONNECTIONS,
        "tcp_keepalive": True,
    }
    if endpoint_url is not None:
        # Newer checksums by default are more than many servers that speak S3 can do.
        settings["request_checksum_calculation"] = "when_required"
        settings["response_checksum_validation"] = "when_required"

    def make() -> Any:
        chosen = boto3.Session() if session is None else session
        return chosen.client(
            "s3", endpoint_url=endpoint_url, region_name=region, config=config(**settings)
        )

    return make


def transfer_in_parts(threshold: int) -> Any:
    """How a payload goes up in parts, in the calling thread alone."""
    from boto3.s3.transfer import TransferConfig

    return TransferConfig(multipart_threshold=threshold, use_threads=False)


def _boto() -> tuple[Any, Callable[..., Any]]:
    try:
        import boto3
        from botocore.config import Config
    except ImportError as failure:
        raise ConfigurationError(
            f"acemq: S3ClaimCheckStore needs boto3, which is not installed ({failure}): "
            "pip install 'acemq-amqp[s3]'"
        ) from failure
    return boto3, Config
