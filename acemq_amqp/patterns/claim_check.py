"""Claim check: a payload too large for a broker is put aside, and its key travels instead.

The codec stands around another one and works on its bytes. Three bytes at the front of a body
say whether the payload follows or its key; a body that does not start so is another publisher's
and is read as the wrapped codec would read it. On a queue in use, readers take the codec first
and publishers after them; on the way back publishers leave it first, and readers keep it until
nothing that was framed can come back: queues, rungs, dead letters, parked messages, streams.
"""

from __future__ import annotations

import threading
import uuid
from typing import Any, Final, Protocol, runtime_checkable

from acemq_amqp.codec import Codec
from acemq_amqp.codecs.waiting import blocks, decode_waiting, encode_waiting, waits
from acemq_amqp.core.checks import checked_codec, whole
from acemq_amqp.errors import AceMQError, ConfigurationError, DecodeError, FatalError, StoreError
from acemq_amqp.patterns.store_threads import threads_of

#: Payloads of so many bytes and more are put aside, where nothing else is said.
DEFAULT_THRESHOLD: Final = 65536

_INLINE: Final = b"\xac\x01\x00"
#: How a body begins that carries a key.
CLAIM_CHECK_FRAME: Final = b"\xac\x01\x01"
_HEADER: Final = 3


@runtime_checkable
class ClaimCheckStore(Protocol):
    """Where the payloads are: bytes under keys, shared by publishers and readers.

    Called from several threads at once, so it has to be safe for that. Plain functions, since
    both flavours use them: the async one calls them in threads of the store's own. It keeps a
    payload longer than any message can live that names it: in queues, rungs, dead letters,
    streams, outboxes, and until the last replay by hand.
    """

    def put(self, content: bytes) -> str:
        """Keeps a payload, and gives the key that the message will carry.

        The key is unique for the store's life, and no reader sees half a payload under it.

        :raises StoreError: it is not kept; the message is not sent
        """

    def get(self, key: str) -> bytes | None:
        """The payload of a key, or None where the store has it no longer.

        None is final: the message is dead-lettered. A store that cannot tell raises.

        :param key: as a message carried it: anybody's input, to be checked
        :raises StoreError: the store cannot be reached, or does not answer; tried again later
        :raises DecodeError: no key of this store's making; the message is parked
        :raises FatalError: what is there is not what was put; the message is dead-lettered
        """

    def delete(self, key: str) -> None:
        """Removes a payload. Never called by the codec: other readers and replays need it.

        A key that is not there is no error.

        :raises StoreError: the store cannot be reached, or refuses
        """


class InMemoryClaimCheckStore:
    """Keeps payloads in this process, for tests: they end with it."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._contents)

    def __repr__(self) -> str:
        return f"InMemoryClaimCheckStore({len(self)} payloads)"

    def put(self, content: bytes) -> str:
        """Keeps a payload under a fresh UUID."""
        key = str(uuid.uuid4())
        with self._lock:
            self._contents[key] = bytes(content)
        return key

    def get(self, key: str) -> bytes | None:
        """The payload, or None."""
        with self._lock:
            return self._contents.get(key)

    def delete(self, key: str) -> None:
        """Forgets a payload, if it is there."""
        with self._lock:
            self._contents.pop(key, None)


class ClaimCheckCodec:
    """Puts a large payload aside and sends its key::

        store = FilesystemClaimCheckStore("/mnt/payloads")
        codec = ClaimCheckCodec(JsonCodec(), store)
        mq = await connect(url, codec=codec)

    A payload that is gone dead-letters its message, with a text that says so; a store that
    cannot be reached is a retry. In the async flavour only the store's calls leave the event
    loop, for threads of the store's own.

    :param delegate: the codec whose output is sent inline or put aside
    :param store: where large payloads go
    :param threshold: bytes of the delegate's output from which on it is put aside; 0: always
    :raises ConfigurationError: no codec, no store, or a threshold below 0
    """

    def __init__(
        self, delegate: Codec, store: ClaimCheckStore, *, threshold: int = DEFAULT_THRESHOLD
    ) -> None:
        self._delegate = checked_codec(delegate)
        whole(threshold, "the threshold of a claim check, in bytes,", least=0)
        if isinstance(store, type) or not isinstance(store, ClaimCheckStore):
            raise ConfigurationError(
                f"acemq: {store!r} is no claim-check store: it wants put, get and delete"
            )
        self._store = store
        self._threshold = threshold
        self._threads = threads_of(store)
        self._computes = not waits(delegate) and not blocks(delegate)

    def __repr__(self) -> str:
        return f"ClaimCheckCodec({self._delegate!r}, above={self._threshold} bytes)"

    @property
    def delegate(self) -> Codec:
        """The wrapped codec."""
        return self._delegate

    @property
    def store(self) -> ClaimCheckStore:
        """Where large payloads go."""
        return self._store

    @property
    def threshold(self) -> int:
        """Bytes of the delegate's output from which on it is put aside."""
        return self._threshold

    @property
    def content_type(self) -> str:
        """The delegate's: a document that was put aside is still a document."""
        return self._delegate.content_type

    def can_decode(self, content_type: str | None) -> bool:
        """What the delegate claims."""
        return self._delegate.can_decode(content_type)

    def encode(self, payload: Any) -> bytes:
        """The payload itself in a frame, or its key.

        :raises EncodeError: the delegate cannot write it; nothing was kept
        :raises StoreError: the store did not take it
        """
        encoded = self._delegate.encode(payload)
        if len(encoded) < self._threshold:
            return _INLINE + encoded
        return CLAIM_CHECK_FRAME + self._put(encoded)

    def decode(self, body: bytes, content_type: str | None = None) -> Any:
        """The payload, wherever it is.

        :raises DecodeError: the delegate cannot read it, or the key is none of this store
        :raises FatalError: the store has it no longer, or not as it was put
        :raises StoreError: the store cannot be reached
        """
        frame = body[:_HEADER]
        if frame == _INLINE:
            body = body[_HEADER:]
        elif frame == CLAIM_CHECK_FRAME:
            body = self._get(_key_in(body))
        return self._delegate.decode(body, content_type)

    async def encode_async(self, payload: Any) -> bytes:
        """:meth:`encode`, with the store asked beside the event loop."""
        encoded: bytes
        if self._computes:
            encoded = self._delegate.encode(payload)
        elif blocks(self._delegate):
            encoded = await self._threads.run(self._delegate.encode, payload)
        else:
            encoded = await encode_waiting(self._delegate, payload)
        if len(encoded) < self._threshold:
            return _INLINE + encoded
        key: bytes = await self._threads.run(self._put, encoded)
        return CLAIM_CHECK_FRAME + key

    async def decode_async(self, body: bytes, content_type: str | None = None) -> Any:
        """:meth:`decode`, with the store asked beside the event loop."""
        frame = body[:_HEADER]
        if frame == _INLINE:
            body = body[_HEADER:]
        elif frame == CLAIM_CHECK_FRAME:
            body = await self._threads.run(self._get, _key_in(body))
        if self._computes:
            return self._delegate.decode(body, content_type)
        if blocks(self._delegate):
            return await self._threads.run(self._delegate.decode, body, content_type)
        return await decode_waiting(self._delegate, body, content_type)

    def _put(self, content: bytes) -> bytes:
        try:
            key = self._store.put(content)
        except AceMQError:
            raise
        except Exception as failure:
            raise self._failed("put", failure, "nothing was sent") from failure
        if not isinstance(key, str) or not key:
            raise StoreError(
                f"acemq: {self._store!r} gave {key!r} as the key of a payload, where text was "
                "expected; nothing was sent. Mend its put()"
            )
        return key.encode()

    def _get(self, key: str) -> bytes:
        try:
            content = self._store.get(key)
        except AceMQError:
            raise
        except Exception as failure:
            again = "the message is tried again, as its retry policy says"
            raise self._failed("get", failure, again) from failure
        if content is None:
            raise FatalError(
                f"acemq: the claim check {key!r} is not in {self._store!r}, so its message cannot "
                "be read: the payload was removed while a message still named it. A store has to "
                "keep payloads longer than queues, dead letters and replays keep messages"
            )
        return content

    def _failed(self, verb: str, failure: Exception, then: str) -> StoreError:
        """Whatever a foreign store raises means that it does not answer."""
        return StoreError(
            f"acemq: {verb} of the claim-check store {self._store!r} failed: "
            f"{type(failure).__name__}: {failure}; {then}"
        )


def is_claim_check(body: bytes) -> bool:
    """Whether a body carries the key of a payload in its place."""
    return body[:_HEADER] == CLAIM_CHECK_FRAME


def claim_key_of(body: bytes) -> str | None:
    """The key that a body carries; None where it carries its payload, or no text as the key."""
    try:
        return _key_in(body) if is_claim_check(body) else None
    except DecodeError:
        return None


def _key_in(body: bytes) -> str:
    try:
        return body[_HEADER:].decode()
    except UnicodeDecodeError as failure:
        raise DecodeError(
            f"acemq: a claim check of {len(body)} bytes carries no text as its key ({failure}); "
            "its publisher frames it wrongly"
        ) from failure
