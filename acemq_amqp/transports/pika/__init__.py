"""The blocking transport: the driver pika on an I/O thread of each connection."""

from acemq_amqp.transports.pika.transport import PikaTransport

__all__ = ["PikaTransport"]
