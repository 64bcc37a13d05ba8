"""AMQP messaging patterns over RabbitMQ: ``import acemq_amqp`` is the async flavour.

``from acemq_amqp import blocking`` has the same names without ``await``.
"""

from __future__ import annotations

# A submodule takes its name in the package when it is first loaded: this one before the function
# ``retry`` has that name.
from acemq_amqp import retry as _policies  # noqa: F401
from acemq_amqp.ack import Ack, Handler, accept, in_progress, park, reject, retry
from acemq_amqp.connecting import Connecting, Connection, connect
from acemq_amqp.core.catalogue import Difference
from acemq_amqp.core.consumer import Consumer
from acemq_amqp.core.health import HealthReport, HealthStatus, aggregate_health
from acemq_amqp.core.observer import Observer
from acemq_amqp.core.publisher import Publication, Publisher
from acemq_amqp.core.publishing import PublishResult
from acemq_amqp.core.pulling import Delivery
from acemq_amqp.credentials import (
    Credentials,
    CredentialsSource,
    credentials_from_environment,
    credentials_from_file,
)
from acemq_amqp.envelope import Envelope
from acemq_amqp.errors import (
    AccessRefused,
    AceMQError,
    AuthenticationRefused,
    BatchError,
    BrokerError,
    BrokerTimeout,
    CannotConnect,
    ConfigurationError,
    ConnectionLost,
    ConsumerEnded,
    DeclarationMismatch,
    DecodeError,
    EncodeError,
    FatalError,
    HandlerError,
    MessageError,
    NotFound,
    PublishError,
    PublishingPaused,
    PublishRefused,
    PublishUnknown,
    StoreError,
    TlsFailed,
    UnknownHost,
    UntrustedBroker,
)
from acemq_amqp.message import Message
from acemq_amqp.metrics import Metrics
from acemq_amqp.naming import (
    DEAD_LETTER_EXCHANGE,
    RETRY_EXCHANGE,
    dead_letter_queue,
    parked_queue,
    retry_queue,
)
from acemq_amqp.retention import StreamRetention
from acemq_amqp.retry import RetryPolicy, exponential_retry, fixed_retry, no_retry
from acemq_amqp.security import Security, without_verifying_the_broker
from acemq_amqp.topology import Topology

__version__ = "0.1.0"

__all__ = [
    "DEAD_LETTER_EXCHANGE",
    "RETRY_EXCHANGE",
    "AccessRefused",
    "AceMQError",
    "Ack",
    "AuthenticationRefused",
    "BatchError",
    "BrokerError",
    "BrokerTimeout",
    "CannotConnect",
    "ConfigurationError",
    "Connecting",
    "Connection",
    "ConnectionLost",
    "Consumer",
    "ConsumerEnded",
    "Credentials",
    "CredentialsSource",
    "DeclarationMismatch",
    "DecodeError",
    "Delivery",
    "Difference",
    "EncodeError",
    "Envelope",
    "FatalError",
    "Handler",
    "HandlerError",
    "HealthReport",
    "HealthStatus",
    "Message",
    "MessageError",
    "Metrics",
    "NotFound",
    "Observer",
    "Publication",
    "PublishError",
    "PublishRefused",
    "PublishResult",
    "PublishUnknown",
    "Publisher",
    "PublishingPaused",
    "RetryPolicy",
    "Security",
    "StoreError",
    "StreamRetention",
    "TlsFailed",
    "Topology",
    "UnknownHost",
    "UntrustedBroker",
    "accept",
    "aggregate_health",
    "connect",
    "credentials_from_environment",
    "credentials_from_file",
    "dead_letter_queue",
    "exponential_retry",
    "fixed_retry",
    "in_progress",
    "no_retry",
    "park",
    "parked_queue",
    "reject",
    "retry",
    "retry_queue",
    "without_verifying_the_broker",
]
