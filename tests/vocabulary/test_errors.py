"""Errors reach other processes whole: a pool's worker that raises one does not hang its pool."""

from __future__ import annotations

import copy
import pickle

import pytest

from acemq_amqp import (
    AceMQError,
    BatchError,
    ConfigurationError,
    NotFound,
    PublishingPaused,
    PublishRefused,
    PublishResult,
)
from acemq_amqp.eventlog import RetentionPassed
from acemq_amqp.patterns import ReplayResult, ReplayStopped

_REFUSED = PublishRefused("acemq: refused", message_id="m-1", code=404, stored="perhaps")


@pytest.mark.parametrize(
    "error",
    [
        ConfigurationError("acemq: no"),
        NotFound("acemq: no queue", code=404),
        _REFUSED,
        PublishingPaused("acemq: paused", message_id="m-1", reason="low on memory"),
        RetentionPassed("acemq: gone", 3, 17),
        ReplayStopped("acemq: stopped", ReplayResult("orders.dlq")),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("carried", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy])
def test_an_error_is_carried_whole(error: AceMQError, carried: object) -> None:
    assert callable(carried)
    other = carried(error)
    assert type(other) is type(error)
    assert (str(other), other.args, vars(other)) == (str(error), error.args, vars(error))


def test_a_batch_s_outcomes_go_with_it() -> None:
    result = PublishResult("m-0", True)
    error = pickle.loads(pickle.dumps(BatchError("acemq: one failed", [result, _REFUSED])))
    assert str(error) == "acemq: one failed"
    assert error.outcomes[0] == result
    assert vars(error.outcomes[1]) == vars(_REFUSED)
