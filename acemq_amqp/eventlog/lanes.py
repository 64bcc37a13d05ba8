"""Which of several streams a lane is in: a hash that every AceMQ library computes alike."""

from __future__ import annotations

_OFFSET_BASIS = 2166136261
_PRIME = 16777619


def stream_index(lane: str, count: int) -> int:
    """FNV-1a, 32 bits, of a lane's UTF-8, modulo a count; 0 where that is 1 or less."""
    if count <= 1:
        return 0
    hash = _OFFSET_BASIS
    for byte in lane.encode():
        hash = (hash ^ byte) * _PRIME & 0xFFFF_FFFF
    return hash % count
