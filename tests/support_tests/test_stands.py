"""Where the tests find their RabbitMQ, and what they say when there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.installation import ServerMissing, find_installation
from tests.support.stands import find_stand


def test_an_address_in_the_environment_comes_first() -> None:
    both = {"AMQP_URL": "amqp://second", "ACEMQ_TEST_AMQP_URL": "amqp://first"}
    assert find_stand(both).url_of("/") == "amqp://first"
    assert find_stand({"AMQP_URL": "amqp://second"}).url_of("/") == "amqp://second"


def test_a_version_that_is_not_here_is_an_error_that_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ACEMQ_CACHE", str(tmp_path))
    with pytest.raises(ServerMissing, match=r"scripts/other-rabbitmq 4\.9"):
        find_installation("4.9")


def test_a_version_asked_for_comes_before_an_address(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ACEMQ_CACHE", str(tmp_path))
    with pytest.raises(ServerMissing, match=r"4\.9"):
        find_stand({"ACEMQ_RABBITMQ": "4.9", "AMQP_URL": "amqp://somewhere"})
