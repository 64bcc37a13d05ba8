"""A service: takes orders from a queue and tells of each paid one in a topic exchange.

    python examples/async_service.py        # Ctrl-C or SIGTERM ends it, in order

It needs a RabbitMQ: AMQP_URL names it, amqp://guest:guest@localhost/ by default.
"""

from __future__ import annotations

import asyncio
import os

from acemq_amqp import Ack, Message, Topology, accept, connect, exponential_retry, reject

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost/")

# Five tries, with waits of about 1, 2, 4 and 8 s; then the message is in shop.orders.dlq.
RETRY = exponential_retry(5, 1.0, max_delay=60)

TOPOLOGY = (
    Topology()
    .exchange("shop.events", "topic")
    .queue("shop.orders", dead_letter=True)
    .binding("shop.orders", "shop.events", "order.placed")
    .queue("shop.invoices")
    .binding("shop.invoices", "shop.events", "order.paid")
)


async def main() -> None:
    async with connect(URL, origin="shop@example", retry=RETRY) as mq:
        await mq.declare(TOPOLOGY)
        events = mq.publisher("shop.events")

        async def handle(message: Message) -> Ack:
            order, attempt = message.payload, message.envelope.attempt
            if not order["address"]:
                print(f"order {order['number']} rejected: no address", flush=True)
                return reject("no address")
            if order["number"] == 3 and attempt == 1:
                print("order 3 failed: it is tried again", flush=True)
                raise ConnectionError("the bank did not answer")
            # Sent, confirmed, and only then accepted: a crash in between pays twice, never not at
            # all. Whoever must not do that twice looks at message.envelope.id.
            paid = message.envelope.caused(type="order.paid")
            await events.send(order, envelope=paid, routing_key="order.paid")
            print(f"order {order['number']} paid at attempt {attempt}", flush=True)
            return accept()

        await mq.consume("shop.orders", handle, concurrency=4)
        for number in range(1, 6):
            order = {"number": number, "address": "" if number == 4 else f"{number} High Street"}
            await events.send(order, routing_key="order.placed")
        await mq.run()  # until a signal; then running handlers end, and what waits goes back
        print("stopped", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
