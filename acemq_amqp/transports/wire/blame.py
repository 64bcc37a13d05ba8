"""Whose fault a closed publishing channel was, read from the broker's own words.

The broker stops at the message that offends, and drops what was written after it. Its text
names an exchange, a size or nothing. The last message in flight that fits the text was surely
not stored; an earlier one may have gone through before, say where the exchange was deleted in
between. Where only one message was in flight, it is the one whatever the text says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from acemq_amqp.core.ports import Outgoing, Refused

_EXCHANGE = re.compile(
    r"(?:topic '(?P<key>.*)' in )?exchange '(?P<name>.*?)(?:(?P<whole>' in vhost)|[.]{3}$|$)"
)
_SIZE = re.compile(r"message size \d+ is larger than .*size (?P<limit>\d+)")
_ACCESS_REFUSED, _NOT_FOUND, _LOCKED, _PRECONDITION_FAILED = 403, 404, 405, 406
#: errors of one channel, which nothing but a message of that channel brings about
_OF_A_MESSAGE = (_ACCESS_REFUSED, _NOT_FOUND, _LOCKED, _PRECONDITION_FAILED)


def to_blame(code: int, text: str, flying: Sequence[Outgoing]) -> dict[int, Refused]:
    """The messages that are to blame, by their index among those in flight.

    :param flying: what was written and not confirmed, oldest first
    """
    fits = _fitting(code, text)
    blamed = [index for index, outgoing in enumerate(flying) if fits(outgoing)]
    if len(flying) == 1 and code in _OF_A_MESSAGE:
        blamed = [0]
    # A size is the message's own: what is larger than the limit was stored in no case.
    sure = blamed if code == _PRECONDITION_FAILED else blamed[-1:]
    return {
        index: Refused(text, code, stored="no" if index in sure else "perhaps") for index in blamed
    }


def _fitting(code: int, text: str) -> Callable[[Outgoing], bool]:
    if code in (_NOT_FOUND, _ACCESS_REFUSED) and (named := _EXCHANGE.search(text)):
        name, whole, key = named["name"], bool(named["whole"]), named["key"]
        return lambda outgoing: (
            # A reply text holds 255 bytes, so a long name may be cut ("...").
            (outgoing.exchange == name if whole else outgoing.exchange.startswith(name))
            and key in (None, outgoing.routing_key)
        )
    if code == _PRECONDITION_FAILED and (size := _SIZE.search(text)):
        limit = int(size["limit"])
        return lambda outgoing: len(outgoing.body) > limit
    return lambda outgoing: False
