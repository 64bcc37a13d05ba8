"""Messages that kill their consumer: recognised by their deliveries, across process deaths.

A quorum queue counts deliveries itself; the count is believed only on a redelivery,
since a republished one would be believed too. A classic queue counts nothing, so a
redelivered message is first put back with a count of ours. A message is parked only
if it was alone in flight: neighbours carry the poison's count without its guilt. So
who has ended without an answer twice is handled alone from then on.
"""

from __future__ import annotations

from acemq_amqp import headers
from acemq_amqp.core.ports import Arrival
from acemq_amqp.core.settlement import Hop
from acemq_amqp.naming import parked_queue

_BROKER_COUNT = "x-delivery-count"
#: So many deliveries without an answer may be an accident.
_PATIENCE = 2


def suspected(arrival: Arrival) -> bool:
    """Whether an earlier delivery of it ended without an answer."""
    return arrival.redelivered or _number(arrival, headers.DELIVERIES) > 0


def poison_hop(
    arrival: Arrival, queue: str, *, alone: bool, most: int, ordered: bool = False
) -> Hop | None:
    """What to do with a suspected delivery instead of handling it; None to handle it.

    :param alone: nothing else of this consumer was in flight
    :param most: deliveries without an answer at most
    :param ordered: it must not be put back behind others, even if nobody counts it then
    """
    deliveries = deliveries_of(arrival)
    if deliveries >= most and alone:
        return _parked(queue, deliveries)
    if arrival.redelivered and not ordered and not _counted_by_broker(arrival):
        return put_back(arrival, queue)
    return None


def must_be_alone(arrival: Arrival, most: int) -> bool:
    """Whether it may only be handled with nothing else in flight.

    Not at the first redelivery, which most often is a connection that was lost; in time before
    ``most`` deliveries, so that the last of them is one that it had alone.
    """
    return deliveries_of(arrival) >= max(1, min(_PATIENCE, most - 1))


def put_back(arrival: Arrival, queue: str) -> Hop:
    """Behind the others of its queue, with its count."""
    deliveries = min(deliveries_of(arrival), headers.LARGEST)
    return Hop(queue, "retried", {headers.DELIVERIES: deliveries})


def deliveries_of(arrival: Arrival) -> int:
    """How many deliveries of it ended without an answer, as far as anybody counted."""
    counted = _number(arrival, headers.DELIVERIES)
    if not arrival.redelivered:
        return counted
    return counted + (_number(arrival, _BROKER_COUNT) if _counted_by_broker(arrival) else 1)


def _counted_by_broker(arrival: Arrival) -> bool:
    return _BROKER_COUNT in arrival.properties.headers.values()


def _parked(queue: str, deliveries: int) -> Hop:
    error = f"delivered {deliveries} times and never answered; its handler may end the process"
    return Hop(parked_queue(queue), "parked", {headers.ERROR: error})


def _number(arrival: Arrival, name: str) -> int:
    # Anybody's header: a negative number must not buy a poison message further deliveries.
    return headers.read_number(arrival.properties.headers.get(name), 0, least=0)
