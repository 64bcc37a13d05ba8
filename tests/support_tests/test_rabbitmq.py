"""A private node does what its methods say, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest

from tests.support.eventually import eventually
from tests.support.handshake import broker_version
from tests.support.rabbitmq import RabbitMQ

pytestmark = pytest.mark.server

ChannelAt = Callable[[str], Any]
PERSISTENT = pika.BasicProperties(delivery_mode=2)


def publish(channel: Any, queue: str, body: bytes) -> None:
    channel.basic_publish("", queue, body, PERSISTENT, mandatory=True)


def test_a_started_node_serves_and_tells_its_version(
    own_rabbitmq: RabbitMQ, channel_at: ChannelAt
) -> None:
    channel = channel_at(own_rabbitmq.url)
    channel.queue_declare("orders")
    publish(channel, "orders", b"one")
    assert channel.basic_get("orders", auto_ack=True)[2] == b"one"
    assert broker_version("127.0.0.1", own_rabbitmq.port) == own_rabbitmq.version


@pytest.mark.parametrize("end", [RabbitMQ.stop, RabbitMQ.kill])
def test_a_durable_queue_outlives_the_node(
    own_rabbitmq: RabbitMQ, channel_at: ChannelAt, end: Callable[[RabbitMQ], None]
) -> None:
    channel = channel_at(own_rabbitmq.url)
    channel.queue_declare("orders", durable=True)
    publish(channel, "orders", b"kept")
    own_rabbitmq.persist()

    end(own_rabbitmq)
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        channel.connection.process_data_events(time_limit=None)
    assert broker_version("127.0.0.1", own_rabbitmq.port) is None
    own_rabbitmq.restart()

    method, _, body = channel_at(own_rabbitmq.url).basic_get("orders")
    assert (body, method.message_count) == (b"kept", 0)


def test_a_stopped_node_tells_its_clients(own_rabbitmq: RabbitMQ, channel_at: ChannelAt) -> None:
    connection = channel_at(own_rabbitmq.url).connection
    own_rabbitmq.stop()
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.process_data_events(time_limit=None)
    assert closed.value.reply_code == 320


def test_a_paused_node_answers_when_it_goes_on(
    own_rabbitmq: RabbitMQ, channel_at: ChannelAt
) -> None:
    channel = channel_at(own_rabbitmq.url)
    own_rabbitmq.pause()
    assert own_rabbitmq.running
    assert broker_version("127.0.0.1", own_rabbitmq.port, timeout=0.5) is None
    own_rabbitmq.resume()
    assert channel.queue_declare("orders").method.queue == "orders"


def test_an_alarm_blocks_publishers_until_it_is_cleared(
    own_rabbitmq: RabbitMQ, channel_at: ChannelAt
) -> None:
    channel = channel_at(own_rabbitmq.url)
    channel.queue_declare("orders")
    told: list[str] = []
    connection = channel.connection
    connection.add_on_connection_blocked_callback(lambda *_: told.append("blocked"))
    connection.add_on_connection_unblocked_callback(lambda *_: told.append("unblocked"))

    def hears(word: str) -> bool:
        connection.process_data_events(time_limit=0)
        return word in told

    own_rabbitmq.alarm()
    unconfirmed = connection.channel()
    unconfirmed.basic_publish("", "orders", b"first after the alarm")
    eventually(lambda: hears("blocked"), "Connection.Blocked")
    own_rabbitmq.clear_alarm()
    eventually(lambda: hears("unblocked"), "Connection.Unblocked")
    assert own_rabbitmq.alarms() == "[]"


def test_queues_consumers_and_connections_are_listed(
    own_rabbitmq: RabbitMQ, channel_at: ChannelAt
) -> None:
    channel = channel_at(own_rabbitmq.url)
    channel.queue_declare("orders", durable=True, arguments={"x-max-length": 9})
    publish(channel, "orders", b"one")
    channel.basic_qos(prefetch_count=7)
    channel.basic_consume("orders", lambda *_: None, consumer_tag="tag")

    eventually(lambda: (q := own_rabbitmq.queue("orders")) and q.unacked == 1, "one unacked")
    found = own_rabbitmq.queue("orders")
    assert found is not None
    assert (found.messages, found.ready, found.consumers, found.durable) == (1, 0, 1, True)
    assert own_rabbitmq.queue("nothing of this name") is None
    (consumer,) = own_rabbitmq.list_consumers()
    assert (consumer["consumer_tag"], consumer["prefetch_count"]) == ("tag", 7)
    assert len(own_rabbitmq.list_connections()) == 1


def test_connections_are_closed_on_demand(own_rabbitmq: RabbitMQ, channel_at: ChannelAt) -> None:
    connection = channel_at(own_rabbitmq.url).connection
    own_rabbitmq.close_connections("enough")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="enough"):
        connection.process_data_events(time_limit=None)


def test_an_expression_that_fails_is_an_error(own_rabbitmq: RabbitMQ) -> None:
    assert own_rabbitmq.eval("1 + 1.") == "2"
    with pytest.raises(RuntimeError, match="undef"):
        own_rabbitmq.eval("no_such_module:nothing()")


def test_a_vhost_of_the_shared_node_is_the_test_s_own(amqp_url: str, channel_at: ChannelAt) -> None:
    channel = channel_at(amqp_url)
    channel.queue_declare("orders")
    publish(channel, "orders", b"one")


def test_two_nodes_make_a_cluster(start_rabbitmq: Callable[..., RabbitMQ]) -> None:
    first = start_rabbitmq()
    second = start_rabbitmq(beside=first)
    second.join(first)
    for node in (first, second):
        status = json.loads(node.ctl("cluster_status", "--formatter", "json", "--silent"))
        assert set(status["running_nodes"]) == {first.node, second.node}


DIES = """
import os, signal, sys
from pathlib import Path
from tests.support.processes import Process
folder = Path(sys.argv[1]) / "private"
folder.mkdir()
process = Process(["sleep", "600"], dict(os.environ), Path(sys.argv[1]) / "log", folder)
print(process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nothing_outlives_tests_that_are_killed(tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-c", DIES, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert told.returncode == -signal.SIGKILL
    program = Path(f"/proc/{int(told.stdout)}/cmdline")
    eventually(lambda: not (program.exists() and program.read_bytes()), "the end of the program")
    eventually(lambda: not (tmp_path / "private").exists(), "the end of its folder")


def test_a_closed_node_leaves_no_process_and_no_file(
    start_rabbitmq: Callable[..., RabbitMQ],
) -> None:
    node = start_rabbitmq()
    folder = Path(node._home.folder)
    names = [path.name for path in Path("/proc").glob("[0-9]*")]
    mine = [pid for pid in names if str(folder).encode() in _environment(pid)]
    assert mine
    node.close()
    assert not folder.exists()
    eventually(lambda: not any(_environment(pid) for pid in mine), "the end of its processes")


def _environment(pid: str) -> bytes:
    """What a process was started with; empty for one that is gone or a zombie."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes() if int(pid) != os.getpid() else b""
    except OSError:
        return b""
