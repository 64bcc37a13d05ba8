"""``acemq demo``: the toolkit at work."""

from __future__ import annotations

import os

from acemq_amqp.demo import IN_MEMORY, run_demo


def demo() -> int:
    """Plays the main job and the patterns in both flavours, in memory or on AMQP_URL."""
    return run_demo(os.environ.get("AMQP_URL") or IN_MEMORY)
