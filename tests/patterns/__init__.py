"""The patterns, in both flavours, on the broker in memory and on RabbitMQ."""
