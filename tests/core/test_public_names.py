"""The names, parameters and defaults that programs written elsewhere rely on, in both flavours."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import pytest

_BOTH = ("acemq_amqp", "acemq_amqp.blocking")

#: by module under a flavour: name -> the parameters that are given by name, with their defaults
_DEFAULTS: dict[str, dict[str, dict[str, Any]]] = {
    "": {
        "connect": {
            **{"codec": None, "origin": None, "retry": None, "prefetch": 20},
            **{"max_outstanding": 1000, "max_outstanding_bytes": 64 * 1024 * 1024},
            **{"max_message_size": None, "timeout": 10, "retry_unknown": True},
            **{"connect_timeout": 30, "fail_fast": False, "security": None},
            **{"on_publish": (), "on_consume": (), "observer": None},
        },
        "Connection.publisher": {
            **{"exchange": "", "routing_key": "", "codec": None},
            **{"persistent": True, "mandatory": None},
        },
        "Connection.consume": {
            **{"codec": None, "retry": None, "prefetch": None, "concurrency": 1, "tag": ""},
            **{"args": None, "declare": True, "single_active": False, "max_deliveries": 10},
            **{"spill": True, "inline": False},
        },
        "Connection.health": {"timeout": 3},
        "Connection.close": {"timeout": 20},
        "Consumer.close": {"timeout": 20},
        "Publisher.send": {
            **{"envelope": None, "routing_key": None, "headers": None, "reply_to": ""},
            **{"priority": None, "expiration": None},
        },
        "Publisher.send_many": {"routing_key": None},
        "Topology.exchange": {
            "kind": "topic",
            "durable": True,
            "auto_delete": False,
            "args": None,
        },
        "Topology.queue": {
            **{"durable": True, "auto_delete": False, "exclusive": False, "quorum": None},
            **{"dead_letter": False, "retry": None, "single_active": False, "args": None},
        },
        "Topology.stream": {"retention": None},
        "Topology.binding": {"routing_key": "", "args": None},
        "Envelope.to_headers": {"routing_key": ""},
        "Envelope.from_headers": {"routing_key": "", "message_id": None},
        "exponential_retry": {"max_delay": 0},
    },
    ".patterns": {
        "idempotent": {"key": None, "in_progress_delay": 5},
        "transactional": {"key": None},
        "ClaimCheckCodec": {"threshold": 65536},
        "record": {"envelope": None, "codec": None, "ordering_key": ""},
        "OutboxRelay": {"interval": 1, "batch": 100},
        "ConsumerGroup.start": {
            **{"codec": None, "retry": None, "prefetch": None, "concurrency": 1, "tag": ""},
            **{"args": None, "declare": True},
        },
        "replay": {
            **{"exchange": "", "routing_key": None, "limit": 0, "deadline": None, "rate": None},
            **{"only": None, "restart": True, "dry_run": False},
        },
        "StreamRetention": {"max_age": None, "max_bytes": None, "segment_bytes": None},
    },
}
_CASES = [
    (flavour + module, name, defaults)
    for flavour in _BOTH
    for module, names in _DEFAULTS.items()
    for name, defaults in names.items()
]


@pytest.mark.parametrize(("module", "name", "defaults"), _CASES)
def test_defaults_stay_as_they_were_given_out(
    module: str, name: str, defaults: dict[str, Any]
) -> None:
    found: Any = import_module(module)
    for step in name.split("."):
        found = getattr(found, step)
    parameters = inspect.signature(found).parameters
    assert {each: parameters[each].default for each in defaults} == defaults
