"""A cluster of three nodes loses the leader of a quorum queue under load."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.chaos.conftest import LONG
from tests.chaos.ledger import Ledger
from tests.chaos.load import Load
from tests.contract import threads
from tests.contract.waiting import until
from tests.support.rabbitmq import RabbitMQ

Enter = Callable[[Ledger, str], None]


@pytest.fixture
def cluster(start_rabbitmq: Callable[..., RabbitMQ]) -> list[RabbitMQ]:
    """Three nodes in one cluster."""
    first = start_rabbitmq()
    others = [start_rabbitmq(beside=first) for _ in range(2)]
    for node in others:
        node.join(first)
    return [first, *others]


def leader_of(node: RabbitMQ, queue: str) -> str:
    """The name of the node that leads a quorum queue."""
    resource = f'rabbit_misc:r(<<"/">>, queue, <<"{queue}">>)'
    told = node.eval(
        f"{{ok, Q}} = rabbit_amqqueue:lookup({resource}), "
        "{_, Leader} = ra_leaderboard:lookup_leader(element(1, amqqueue:get_pid(Q))), Leader"
    )
    found = re.search(r"[\w-]+@\w+", told)
    assert found is not None, told
    return found[0]


@pytest.mark.soak
@pytest.mark.chaos
@pytest.mark.parametrize("form", [LONG], ids=["long"])
async def test_a_quorum_leader_killed(load: Load, cluster: list[RabbitMQ], enter: Enter) -> None:
    await load.open([node.url for node in cluster], quorum=True)
    load.start()
    for _ in range(3):
        await load.flows(200)
        name = await threads.run(lambda: leader_of(cluster[0], load.queue))
        leader = next(node for node in cluster if node.node == name)
        if leader is cluster[0]:
            cluster.append(cluster.pop(0))  # whom to ask next
        await threads.run(leader.kill)
        await load.flows(200)  # two nodes of three are a quorum
        await threads.run(leader.boot)
        await until(lambda: load.consumer.running, "a consumer")
    await load.flows(200)
    await load.finish()
    enter(load.ledger, cluster[0].version)
