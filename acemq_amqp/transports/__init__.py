"""What carries messages: aio-pika, pika, and the broker in memory behind both flavours."""
