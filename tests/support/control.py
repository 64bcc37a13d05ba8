"""What a test may ask of a broker, or do to it, from the operator's side.

Everything here is said through two doors that any broker of ours has: ``ctl`` (rabbitmqctl, near a
second a call) and ``eval`` (an Erlang expression inside the broker; milliseconds on a local node).
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from tests.support.eventually import eventually

_QUEUE_FIELDS = (
    "name",
    "messages",
    "messages_ready",
    "messages_unacknowledged",
    "consumers",
    "durable",
    "arguments",
)
_CONSUMER_FIELDS = (
    "queue_name",
    "consumer_tag",
    "ack_required",
    "prefetch_count",
    "active",
    "arguments",
)
_ALL = '<<".*">>'


@dataclass(frozen=True)
class QueueInfo:
    """A queue as the broker counts it; quorum queues and streams may count late."""

    name: str
    messages: int
    ready: int
    unacked: int
    consumers: int
    durable: bool
    arguments: Any


class Controlled(ABC):
    """A broker that can be asked and told from its operator's side."""

    @abstractmethod
    def ctl(self, *arguments: str) -> str:
        """Runs rabbitmqctl and returns what it printed.

        :raises RuntimeError: it failed; the text has what it said
        """

    @abstractmethod
    def eval(self, expression: str) -> str:
        """The value of an Erlang expression, evaluated in the broker, as Erlang prints it."""

    def alarm(self) -> None:
        """Raises the memory alarm; comes back when the broker has it."""
        self.eval("vm_memory_monitor:set_vm_memory_high_watermark(0.000001)")
        eventually(lambda: "memory" in self.alarms(), "the memory alarm")

    def clear_alarm(self) -> None:
        """Ends the memory alarm; comes back when the broker has none."""
        self.eval("vm_memory_monitor:set_vm_memory_high_watermark(0.4)")
        eventually(lambda: self.alarms() == "[]", "the end of the memory alarm")

    def alarms(self) -> str:
        """The alarms in force, as Erlang prints them; ``[]`` for none."""
        return self.eval("rabbit_alarm:get_alarms()")

    def add_vhost(self, name: str) -> None:
        """Makes a virtual host that the user guest may use."""
        self.eval(
            f'rabbit_vhost:add(<<"{name}">>, <<"tests">>), '
            f'rabbit_auth_backend_internal:set_permissions(<<"guest">>, <<"{name}">>, '
            f'{_ALL}, {_ALL}, {_ALL}, <<"tests">>)'
        )

    def delete_vhost(self, name: str) -> None:
        """Removes a virtual host with all that is in it, and closes its connections."""
        self.eval(f'rabbit_vhost:delete(<<"{name}">>, <<"tests">>)')

    def queue(self, name: str, vhost: str = "/") -> QueueInfo | None:
        """What the broker counts for a queue, or None where it has none of this name."""
        for found in self._listed("list_queues", _QUEUE_FIELDS, vhost):
            if found["name"] == name:
                return QueueInfo(
                    name=name,
                    messages=found["messages"],
                    ready=found["messages_ready"],
                    unacked=found["messages_unacknowledged"],
                    consumers=found["consumers"],
                    durable=found["durable"],
                    arguments=found["arguments"],
                )
        return None

    def list_consumers(self, vhost: str = "/") -> list[dict[str, Any]]:
        """The consumers of a virtual host: queue_name, consumer_tag, prefetch_count, active..."""
        return self._listed("list_consumers", _CONSUMER_FIELDS, vhost)

    def list_connections(self, *fields: str) -> list[dict[str, Any]]:
        """The open connections of all virtual hosts; by default their names and states."""
        listed = self.ctl("list_connections", *(fields or ("name", "state")), *_AS_JSON)
        return list(json.loads(listed))

    def close_connections(self, reason: str = "closed by the test") -> None:
        """Closes every client's connection with 320 CONNECTION_FORCED."""
        self.eval(
            f'[catch rabbit_networking:close_connection(C, "{reason}") '
            "|| C <- rabbit_networking:connections()], ok"
        )

    def _listed(self, what: str, fields: tuple[str, ...], vhost: str) -> list[dict[str, Any]]:
        return list(json.loads(self.ctl(what, "-p", vhost, *fields, *_AS_JSON)))


_AS_JSON = ("--formatter", "json", "--silent")
