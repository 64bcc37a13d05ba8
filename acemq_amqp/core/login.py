"""The login of a connection, asked of its source at each attempt.

A source is a user's function, which may fail, hang, or give something else. None of that
ends a connection that is coming back: it is told, and the source is asked again later.
"""

from __future__ import annotations

from typing import TypeAlias

from acemq_amqp.core.ports import Call, Task, Work
from acemq_amqp.credentials import Credentials, CredentialsSource
from acemq_amqp.errors import CannotConnect, ConfigurationError, kind_of

_Answer: TypeAlias = tuple[Credentials | None, Exception | None]


class Logins:
    """Asks one source. Threads that ask at the same time get one answer.

    :param source: None where the login stands in the address
    """

    def __init__(self, work: Work, source: CredentialsSource | None) -> None:
        self._work = work
        self._call = None if source is None else work.bind(source)
        self._asked: tuple[Task, list[_Answer]] | None = None

    async def read(self, deadline: float) -> Credentials | None:
        """What the source gives now; None where there is no source.

        :raises ConfigurationError: it says so itself, or gave something else than credentials
        :raises CannotConnect: it failed, or did not answer in time
        """
        if self._call is None:
            return None
        asked = self._asked
        # A thread cannot be cancelled: one that still hangs in the source is waited for again.
        if asked is None or asked[0].done():
            answers: list[_Answer] = []
            task = self._work.spawn(_ask(self._call, answers), "acemq-credentials")
            asked = self._asked = task, answers
        return _given(await _answer(*asked, deadline))


async def _ask(call: Call, answers: list[_Answer]) -> None:
    try:
        answers.append((await call(), None))
    except Exception as error:
        answers.append((None, error))


async def _answer(task: Task, answers: list[_Answer], deadline: float) -> _Answer:
    try:
        await task.join(deadline)
    finally:
        task.cancel()  # unless it has ended
    if not answers:
        raise CannotConnect(
            "acemq: the source of credentials did not answer in time, and is asked again later; "
            "give whatever it waits for a time-out of a few seconds"
        )
    return answers[0]


def _given(answer: _Answer) -> Credentials:
    credentials, error = answer
    if isinstance(error, ConfigurationError):
        raise error
    if error is not None:
        raise CannotConnect(
            f"acemq: the source of credentials failed ({type(error).__name__}: {error}); it is "
            "asked again at the next attempt"
        ) from error
    if not isinstance(credentials, Credentials):
        raise ConfigurationError(
            f"acemq: the source of credentials gave {kind_of(credentials)}; it has to "
            "return Credentials(username, password)"
        )
    return credentials
