"""The event log's values as a database keeps them, and back.

Lanes, keys and ids may come from anybody's messages: what no database keeps as text (NUL, half a
surrogate pair) is spelled out behind an escape.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from acemq_amqp.eventlog.store import Fence, LaneLease, LaneRow, Position, WindowKey, WindowRow
from acemq_stores.sql.session import Row

_UNKEPT: Final = re.compile("[\0\x1a\ud800-\udfff]")
_SPELLED: Final = re.compile("\x1a([0-9a-f]{4})")


def kept(text: str) -> str:
    """A text as any database keeps it."""
    return _UNKEPT.sub(lambda found: f"\x1a{ord(found[0]):04x}", text)


def told(text: str) -> str:
    """What :func:`kept` was given."""
    return _SPELLED.sub(lambda found: chr(int(found[1], 16)), text) if "\x1a" in text else text


# ------------------------------------------------------------ to the database


def as_json(rows: Iterable[Any]) -> str:
    """Rows as a statement's one parameter."""
    return json.dumps(list(rows), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def texts(names: Iterable[str]) -> str:
    """Texts, each once, as a statement's one parameter."""
    return as_json(dict.fromkeys(map(kept, names)))


def lane_offsets(offsets: Mapping[str, int], lane: str, offset: str) -> str:
    """Offsets of lanes, under these names."""
    return as_json({lane: kept(name), offset: each} for name, each in offsets.items())


def lane_moments(moments: Mapping[str, float], moment: str) -> str:
    """Moments of lanes, under that name; ``inf`` is the last that JSON can say."""
    last = sys.float_info.max
    return as_json(
        {"lane": kept(lane), moment: max(-last, min(last, each))} for lane, each in moments.items()
    )


def pairs(keys: Iterable[tuple[str, str]]) -> str:
    """Pairs (lane, key), each once."""
    return as_json({"lane": kept(lane), "key": kept(key)} for lane, key in dict.fromkeys(keys))


def windows_removed(keys: Iterable[WindowKey]) -> str:
    """Keys of windows."""
    return as_json(
        {"lane": kept(lane), "key": kept(key), "starts": start} for lane, key, start in keys
    )


def windows_written(rows: Iterable[WindowRow]) -> str:
    """Windows, each once: the last of a key."""
    last = {(row.lane, row.key, row.start): row for row in rows}
    return as_json(map(_written, last.values()))


def _written(row: WindowRow) -> dict[str, Any]:
    return {
        "lane": kept(row.lane),
        "key": kept(row.key),
        "starts": row.start,
        "ends": row.end,
        "closes": None if row.closes == math.inf else row.closes,
        "revision": row.revision,
        "state": kept(row.state),
    }


# ------------------------------------------------------------ from the database


def window_of(row: Row) -> WindowRow:
    """A window."""
    lane, key, start, end, closes, revision, state = row
    never = math.inf if closes is None else float(closes)
    return WindowRow(
        told(lane), told(key), float(start), float(end), never, int(revision), told(state)
    )


def lease_of(row: Row) -> LaneLease:
    """A lane that was leased."""
    return LaneLease(told(row[0]), int(row[1]), int(row[2]))


def positions_of(rows: Sequence[Row]) -> list[Position]:
    """Positions, by group and stream, from a row for each of their lanes."""
    found: dict[tuple[str, str], tuple[Row, list[LaneRow]]] = {}
    for row in rows:
        _, lanes = found.setdefault((row[0], row[1]), (row, []))
        if row[8] is not None:
            lanes.append(LaneRow(told(row[8]), int(row[9]), int(row[10]), row[11]))
    return [_position(row, lanes) for _, (row, lanes) in sorted(found.items())]


def _position(row: Row, lanes: list[LaneRow]) -> Position:
    group, stream, epoch, next_, anchor, unfinished, attempts, holder = row[:8]
    return Position(
        Fence(group, stream, int(epoch)),
        int(next_),
        told(anchor),
        int(unfinished),
        int(attempts),
        holder,
        tuple(sorted(lanes, key=lambda each: each.lane)),
    )
