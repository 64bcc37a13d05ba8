"""A script: puts a batch of photos into a queue, works them off with threads, and ends.

    python examples/blocking_script.py

It needs a RabbitMQ: AMQP_URL names it, amqp://guest:guest@localhost/ by default.
"""

from __future__ import annotations

import os
import queue

from acemq_amqp.blocking import Ack, Message, Topology, accept, connect, fixed_retry, reject

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost/")
QUEUE = "photos.to-resize"
PHOTOS = [f"photo-{number:03}.{'txt' if number == 13 else 'jpg'}" for number in range(1, 101)]

ended: queue.SimpleQueue[str] = queue.SimpleQueue()


def resize(message: Message) -> Ack:
    """Called in four threads at once. What it raises means: try again, as the policy says."""
    name, attempt = message.payload["name"], message.envelope.attempt
    if not name.endswith(".jpg"):
        ended.put(name)
        return reject(f"{name} is no photo")  # to photos.to-resize.dlq, with this reason
    if name == "photo-007.jpg" and attempt == 1:
        print(f"{name}: failed, it is tried again")
        raise OSError("the disk is busy")
    ended.put(name)
    return accept()


def main() -> None:
    with connect(URL, retry=fixed_retry(3, 0.5)) as mq:
        mq.declare(Topology().queue(QUEUE, dead_letter=True))
        results = mq.publisher(routing_key=QUEUE).send_many({"name": name} for name in PHOTOS)
        print(f"{len(results)} photos sent, each confirmed by the broker")

        missing = set(PHOTOS)
        with mq.consume(QUEUE, resize, concurrency=4):
            while missing:
                missing.discard(ended.get())

        print(f"{mq.message_count(QUEUE)} photos left in {QUEUE}")
        while (dead := mq.pull(f"{QUEUE}.dlq")) is not None:
            print(f"dead letter: {dead.headers['x-acemq-error']}")
            dead.ack()


if __name__ == "__main__":
    main()
