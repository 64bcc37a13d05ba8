"""Methods written by us and answered to us, on channels that the driver keeps.

The driver's own calls would encode arguments its own way (no floats) and, for a
consumer they know of, cancel it before its channel is closed. So methods are written
as frames of ours, their tables by the toolkit's one codec; the driver hands the
answers to a callback.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import pika.exceptions
import pika.spec

from acemq_amqp.errors import ConfigurationError
from acemq_amqp.fieldtable import encode_table
from acemq_amqp.topology import (
    BindingDeclaration,
    Declaration,
    ExchangeDeclaration,
    QueueDeclaration,
)

_EMPTY_TABLE = b"\x00\x00\x00\x00"


def method_frame(
    channel: int, method: Any, arguments: Mapping[str, Any] | None = None, what: str = "argument"
) -> bytes:
    """One method frame.

    :param method: of the driver's `spec`, without arguments
    :param arguments: where the method's last field is a table: its values
    :raises ConfigurationError: an argument that cannot be encoded
    """
    try:
        fields = b"".join(method.encode())
    except pika.exceptions.ShortStringTooLong as error:
        raise ConfigurationError(
            f"acemq: a name in {method.NAME} has more than the 255 bytes that AMQP allows; "
            "shorten it"
        ) from error
    if arguments:
        table = encode_table(arguments, what)
        fields = fields.removesuffix(_EMPTY_TABLE) + struct.pack(">I", len(table)) + table
    payload = struct.pack(">I", method.INDEX) + fields
    return struct.pack(">BHI", 1, channel, len(payload)) + payload + b"\xce"


def declaring(step: Declaration) -> tuple[str, Any, Any]:
    """What declaring it is called in errors, the method without arguments, and its answer."""
    match step:
        case ExchangeDeclaration():
            return (
                f"declaring exchange '{step.name}'",
                pika.spec.Exchange.Declare(
                    exchange=step.name,
                    type=step.kind,
                    durable=step.durable,
                    auto_delete=step.auto_delete,
                ),
                pika.spec.Exchange.DeclareOk,
            )
        case QueueDeclaration():
            return (
                f"declaring queue '{step.name}'",
                pika.spec.Queue.Declare(
                    queue=step.name,
                    durable=step.durable,
                    exclusive=step.exclusive,
                    auto_delete=step.auto_delete,
                ),
                pika.spec.Queue.DeclareOk,
            )
        case BindingDeclaration():
            return _binding(step)


def _binding(step: BindingDeclaration) -> tuple[str, Any, Any]:
    if step.to_exchange:
        return (
            f"binding exchange '{step.destination}' to exchange '{step.source}'",
            pika.spec.Exchange.Bind(
                destination=step.destination, source=step.source, routing_key=step.routing_key
            ),
            pika.spec.Exchange.BindOk,
        )
    return (
        f"binding queue '{step.destination}' to exchange '{step.source}'",
        pika.spec.Queue.Bind(
            queue=step.destination, exchange=step.source, routing_key=step.routing_key
        ),
        pika.spec.Queue.BindOk,
    )
