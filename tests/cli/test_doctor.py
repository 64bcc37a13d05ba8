"""``acemq doctor``: on a broker that is well, under an alarm, and for a login that may not."""

from __future__ import annotations

from typing import Any

import pytest

from acemq_amqp.transports.memory import forget_memory_broker
from tests.cli.conftest import Acemq
from tests.contract.stands import as_login
from tests.support.rabbitmq import RabbitMQ
from tests.support.stands import Stand


def test_in_memory_all_is_well(acemq: Acemq) -> None:
    ended = acemq("doctor", "memory://doctor")
    forget_memory_broker("doctor")
    assert (ended.code, ended.err) == (0, "")
    assert "acemq in memory" in ended.out and "WRONG" not in ended.out


@pytest.mark.server
def test_a_broker_that_is_well_is_told_with_its_version(
    acemq: Acemq, rabbitmq: Stand, amqp_url: str, vhost: str
) -> None:
    ended = acemq("doctor", amqp_url, "--json")
    assert ended.code == 0
    found = {each["check"]: each for each in ended.data}
    assert all(each["ok"] for each in found.values())
    assert f"RabbitMQ {rabbitmq.version}" in found["broker"]["detail"]
    assert "guest:guest" not in ended.out
    assert {"may declare", "may publish", "may consume", "may delete"} < set(found)
    if rabbitmq.control is not None:
        assert "acemq-doctor" not in rabbitmq.control.ctl("list_queues", "-p", vhost, "name")


@pytest.mark.server
def test_an_alarm_is_found(acemq: Acemq, own_rabbitmq: RabbitMQ) -> None:
    own_rabbitmq.alarm()
    ended = acemq("doctor", own_rabbitmq.url, "--json")
    own_rabbitmq.clear_alarm()
    assert ended.code == 1
    wrong: list[Any] = [each for each in ended.data if not each["ok"]]
    assert "paused publishing" in " ".join(each["detail"] for each in wrong)


@pytest.mark.server
def test_what_a_login_may_not_do_is_found(
    acemq: Acemq, rabbitmq: Stand, amqp_url: str, vhost: str
) -> None:
    if rabbitmq.control is None:
        return  # a broker given by address is not ours to change
    words = (f'<<"{word}">>' for word in ("reader", "tests", vhost, "^$", ".*"))
    reader, by, place, nothing, all_ = words
    backend = "rabbit_auth_backend_internal"
    may = f"{reader}, {place}, {nothing}, {nothing}, {all_}, {by}"
    rabbitmq.control.eval(
        f"catch {backend}:add_user({reader}, {reader}, {by}), {backend}:set_permissions({may})"
    )
    ended = acemq("doctor", as_login(amqp_url, "reader"), "--json")
    assert ended.code == 1
    wrong = {each["check"]: each["detail"] for each in ended.data if not each["ok"]}
    assert "403" in wrong["may declare"] and "may publish" in wrong
