"""The async transport: aio-pika's connection holds the conversation, content passes by it.

The driver logs in, keeps the heartbeat and carries the calls that have an answer. What
carries messages (publishes, confirms, returns, deliveries, settlements) is read from and
written to the same socket by the wire layer, many frames at once.
"""

from acemq_amqp.transports.aiopika.transport import AioPikaTransport

__all__ = ["AioPikaTransport"]
