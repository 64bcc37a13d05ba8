"""What the broker answers when it refuses: RabbitMQ's codes and words, as the toolkit's errors.

Two kinds are kept apart. What RabbitMQ refuses too is refused in its words, under
its code. What RabbitMQ could do and this broker cannot is a configuration error
that names it.
"""

from __future__ import annotations

from acemq_amqp.errors import (
    AccessRefused,
    BrokerError,
    ConfigurationError,
    DeclarationMismatch,
    NotFound,
)

_KINDS: dict[int, tuple[type[BrokerError], str]] = {
    403: (AccessRefused, "use another name, or ask for it without exclusive"),
    404: (NotFound, "declare it first, or correct its name"),
    405: (AccessRefused, "use the connection that declared it, or another name"),
    406: (
        DeclarationMismatch,
        "no queue or exchange of that kind can have it; correct the declaration",
    ),
}
_OTHER = (BrokerError, "a broker cannot do that; change the call")


def refused(code: int, words: str) -> BrokerError:
    """The error for what RabbitMQ refuses as well.

    :param words: RabbitMQ's own, which name the object
    """
    kind, advice = _KINDS.get(code, _OTHER)
    if "inequivalent" in words:
        advice = "declare it as it is, or delete it first and declare it anew"
    elif "single active consumer" in words:
        advice = "take from it with a consumer, which waits for its turn"
    return kind(f"acemq: the in-memory broker refused: {words} ({code}); {advice}", code=code)


def not_in_memory(what: str) -> ConfigurationError:
    """The error for what a RabbitMQ could do and this broker does not."""
    return ConfigurationError(
        f"acemq: the in-memory broker does not know {what}; leave it out, or use a RabbitMQ"
    )


def no_queue(name: str) -> BrokerError:
    return refused(404, f"NOT_FOUND - no queue '{name}' in vhost '/'")


def no_exchange(name: str) -> BrokerError:
    return refused(404, f"NOT_FOUND - no exchange '{name}' in vhost '/'")


def locked(name: str) -> BrokerError:
    return refused(
        405,
        f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{name}' in vhost '/'. "
        "It could be originally declared on another connection or the exclusive property value "
        "does not match that of the original declaration.",
    )


def pulled_singly(name: str) -> BrokerError:
    return refused(
        405,
        f"RESOURCE_LOCKED - cannot obtain access to locked queue '{name}' in vhost '/'. basic.get "
        "operations are not supported by quorum queues with single active consumer",
    )


def in_exclusive_use(name: str) -> BrokerError:
    return refused(403, f"ACCESS_REFUSED - queue '{name}' in vhost '/' in exclusive use")


def reserved(what: str, name: str) -> BrokerError:
    return refused(403, f"ACCESS_REFUSED - {what} name '{name}' contains reserved prefix 'amq.*'")


def default_exchange() -> BrokerError:
    return refused(403, "ACCESS_REFUSED - operation not permitted on the default exchange")


def invalid_argument(name: str, queue: str, why: str) -> BrokerError:
    return refused(
        406, f"PRECONDITION_FAILED - invalid arg '{name}' for queue '{queue}' in vhost '/'{why}"
    )


def not_on_streams(method: str, queue: str) -> BrokerError:
    return refused(
        540,
        f"NOT_IMPLEMENTED - {method} not supported by stream queues queue '{queue}' in vhost '/'",
    )


def invalid_property(name: str, queue: str) -> BrokerError:
    return refused(
        406, f"PRECONDITION_FAILED - invalid property '{name}' for queue '{queue}' in vhost '/'"
    )
