"""Whether a window query may go on with what is kept under its id: decided once for all stores."""

from __future__ import annotations

from acemq_amqp.errors import ConfigurationError
from acemq_amqp.eventlog.store import Query


def registered(query: str, shape: str, known: tuple[int, str] | None, reset: str | None) -> Query:
    """The query as it is known from now on; ``fresh`` where nothing of before is left.

    :param known: the generation and the shape that are kept
    :param reset: ``"all"`` or ``"state"``
    :raises ConfigurationError: its shape is another one and no reset was asked for, or a reset that
        there is not
    """
    if reset not in (None, "all", "state"):
        raise ConfigurationError(
            f"acemq: reset of query {query!r} is 'all' or 'state', not {reset!r}"
        )
    if known is None:
        return Query(query, 1, fresh=True)
    generation, shape_known = known
    if reset is not None:
        return Query(query, generation + 1, fresh=True)
    if shape_known != shape:
        raise ConfigurationError(
            f"acemq: query {query!r} is known with another shape, and its open windows with it: "
            "give it another id, or reset it with reset='all' or reset='state'"
        )
    return Query(query, generation)
