"""Messages that kill their consumer: recognised by their deliveries, across process deaths.

A quorum queue counts deliveries itself; the count is believed only on a redelivery,
since a republished one would be believed too. A classic queue counts nothing, so a
redelivered message is first put back with a count of ours. A message is parked only
if it was alone in flight: neighbours carry the poison's count without its guilt.
"""

from __future__ import annotations

from acemq_amqp import headers
from acemq_amqp.core.ports import Arrival
from acemq_amqp.core.settlement import Hop
from acemq_amqp.naming import parked_queue

_BROKER_COUNT = "x-delivery-count"


def suspected(arrival: Arrival) -> bool:
    """Whether an earlier delivery of it ended without an answer."""
    return arrival.redelivered or _number(arrival, headers.DELIVERIES) > 0


def poison_hop(arrival: Arrival, queue: str, *, alone: bool, most: int) -> Hop | None:
    """What to do with a suspected delivery instead of handling it; None to handle it.

    :param alone: nothing else of this consumer was in flight
    :param most: deliveries without an answer at most
    """
    counted = _number(arrival, headers.DELIVERIES)
    by_broker = _BROKER_COUNT in arrival.properties.headers.values()
    deliveries = counted
    if arrival.redelivered:
        deliveries = _number(arrival, _BROKER_COUNT) if by_broker else counted + 1
    if deliveries >= most and alone:
        return _parked(queue, deliveries)
    if arrival.redelivered and not by_broker:
        return Hop(queue, "retried", {headers.DELIVERIES: deliveries})
    return None


def _parked(queue: str, deliveries: int) -> Hop:
    error = f"delivered {deliveries} times and never answered; its handler may end the process"
    return Hop(parked_queue(queue), "parked", {headers.ERROR: error})


def _number(arrival: Arrival, name: str) -> int:
    value = arrival.properties.headers.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
