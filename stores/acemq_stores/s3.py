"""Claim-check payloads as objects of an S3 bucket, at AWS or any server that speaks S3.

An object's name is a prefix and the key; its length and SHA-256 are metadata of ours, because a
server's own checksum of a large upload is a hash of hashes. Each call is bounded in time and tried
again by the client, so a store that is down is an error within a minute and never a stall.
"""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from acemq_amqp.durations import Duration, seconds
from acemq_amqp.errors import ConfigurationError
from acemq_stores.claim_keys import checked_key, is_key, new_key
from acemq_stores.digests import Digest, without_digest
from acemq_stores.s3_client import make_client, transfer_in_parts
from acemq_stores.s3_errors import STALE_LOGIN, code_of, is_missing, refusal, store_error

_MIB: Final = 1024 * 1024
#: A look-alike may show a new object late: so long a missing one is asked for again, in seconds.
_PATIENCE: Final = 2.0
_FIRST_WAIT: Final = 0.1
_SHA256: Final = "acemq-sha256"
_LENGTH: Final = "acemq-length"


class S3ClaimCheckStore:
    """Keeps payloads as objects of a bucket. What was put is stored when ``put`` returns.

    Needs boto3: ``pip install 'acemq-amqp[s3]'``. Credentials come from boto3's usual places, are
    refreshed by it, and are looked up anew when the server calls them expired.

    :param bucket: its name; it has to be there
    :param prefix: begins every object's name, such as ``claims/``
    :param client: a boto3 S3 client to use in place of one that is made here; the settings below
        are then its own affair
    :param endpoint_url: of a server other than AWS; no checksums are then asked of it that some
        servers cannot do
    :param region: of the bucket; by default boto3's
    :param session: a ``boto3.Session`` with the credentials to use
    :param connect_timeout: seconds until a server has to answer a connection
    :param read_timeout: seconds until it has to send or take more bytes
    :param attempts: tries of one call, with growing waits
    :param multipart_threshold: bytes from which on a payload goes up in parts
    :param put_options: further arguments of S3's PutObject, such as
        ``{"ServerSideEncryption": "aws:kms", "StorageClass": "STANDARD_IA"}``
    :param require_digest: refuse an object without our metadata; otherwise it is read unverified
        and counted in ``unverified``
    :raises ConfigurationError: boto3 is not installed, or a setting that cannot work
    """

    def __init__(
        self,
        bucket: str,
        *,
        prefix: str = "",
        client: Any = None,
        endpoint_url: str | None = None,
        region: str | None = None,
        session: Any = None,
        connect_timeout: Duration = 3.0,
        read_timeout: Duration = 15.0,
        attempts: int = 3,
        multipart_threshold: int = 64 * _MIB,
        put_options: Mapping[str, Any] | None = None,
        require_digest: bool = False,
    ) -> None:
        if not isinstance(bucket, str) or not bucket:
            raise ConfigurationError("acemq: an S3 claim-check store wants the name of its bucket")
        self._bucket = bucket
        self._prefix = prefix
        self._place = f"s3://{bucket}/{prefix}"
        self._make: Callable[[], Any] = make_client(
            endpoint_url=endpoint_url,
            region=region,
            session=session,
            connect_timeout=seconds(connect_timeout, "connect_timeout"),
            read_timeout=seconds(read_timeout, "read_timeout"),
            attempts=attempts,
        )
        self._given = client
        self._made: Any = None
        self._multipart_threshold = multipart_threshold
        self._put_options = dict(put_options or {})
        self._require_digest = require_digest
        self._unverified = 0
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"S3ClaimCheckStore({self._place})"

    @property
    def unverified(self) -> int:
        """Objects that were read although they have no digest of ours."""
        return self._unverified

    def check(self) -> None:
        """Asks for the bucket once; for the start of a program.

        :raises ConfigurationError: no such bucket, another region's, or a login that may not use it
        :raises StoreError: the server cannot be reached
        """
        try:
            self._client().head_bucket(Bucket=self._bucket)
        except Exception as failure:
            raise refusal(failure, self._bucket, self._place) from failure

    def put(self, content: bytes) -> str:
        """Keeps a payload.

        :returns: its key; the object's name is that after the prefix
        :raises StoreError: the server cannot be reached, or refuses
        """
        key = new_key()
        digest = Digest.of(content)
        options = {
            **self._put_options,
            "Metadata": {
                **self._put_options.get("Metadata", {}),
                _SHA256: digest.sha256,
                _LENGTH: str(digest.length),
            },
        }
        self._asked("write", key, lambda client: self._upload(client, key, content, options))
        return key

    def get(self, key: str) -> bytes | None:
        """The payload, compared with its digest; None where it is not there, also 2 s later.

        :raises DecodeError: not a key that a store issues
        :raises FatalError: damaged or replaced
        :raises StoreError: the server cannot be reached or refuses: an object that may not be seen
            is never taken for one that is gone
        """
        checked_key(key)
        answer = self._patiently(key)
        if answer is None:
            return None
        content, metadata = answer
        self._verify(content, metadata, key)
        return content

    def delete(self, key: str) -> None:
        """Removes a payload; one that is not there is no error.

        :raises DecodeError: not a key that a store issues
        :raises StoreError: the server cannot be reached, or refuses
        """
        checked_key(key)
        self._asked(
            "delete",
            key,
            lambda client: client.delete_object(Bucket=self._bucket, Key=self._prefix + key),
        )

    def listing(self) -> Iterator[tuple[str, float]]:
        """Every payload: its key, and when it was put (seconds since the epoch).

        :raises StoreError: the server cannot be reached, or refuses
        """
        pages = self._client().get_paginator("list_objects_v2")
        page = iter(pages.paginate(Bucket=self._bucket, Prefix=self._prefix))
        while (listed := self._asked("list", "all", lambda client: next(page, None))) is not None:
            for entry in listed.get("Contents", ()):
                key = entry["Key"].removeprefix(self._prefix)
                if is_key(key):
                    yield key, entry["LastModified"].timestamp()

    # ------------------------------------------------------------ asking

    def _upload(self, client: Any, key: str, content: bytes, options: dict[str, Any]) -> None:
        name = self._prefix + key
        if len(content) < self._multipart_threshold:
            client.put_object(Bucket=self._bucket, Key=name, Body=content, **options)
            return
        client.upload_fileobj(
            io.BytesIO(content),
            self._bucket,
            name,
            ExtraArgs=options,
            Config=transfer_in_parts(self._multipart_threshold),
        )

    def _patiently(self, key: str) -> tuple[bytes, Mapping[str, str]] | None:
        deadline, wait = time.monotonic() + _PATIENCE, _FIRST_WAIT
        while (answer := self._asked("read", key, lambda client: self._read(client, key))) is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            time.sleep(min(wait, left))
            wait *= 2
        content, metadata = answer
        return content, metadata

    def _read(self, client: Any, key: str) -> tuple[bytes, Mapping[str, str]] | None:
        try:
            answer = client.get_object(Bucket=self._bucket, Key=self._prefix + key)
        except Exception as failure:
            if is_missing(failure):
                return None
            raise
        with answer["Body"] as body:
            return body.read(), answer.get("Metadata", {})

    def _verify(self, content: bytes, metadata: Mapping[str, str], key: str) -> None:
        sha256, length = metadata.get(_SHA256), metadata.get(_LENGTH, "")
        if sha256 is None or not length.isdecimal():
            if self._require_digest:
                raise without_digest(key, self._place)
            with self._lock:
                self._unverified += 1
            return
        Digest(sha256, int(length)).check(content, key, self._place)

    def _asked(self, verb: str, key: str, call: Callable[[Any], Any]) -> Any:
        client = self._client()
        try:
            return call(client)
        except Exception as failure:
            if code_of(failure) in STALE_LOGIN:
                self._renew(client)
            raise store_error(failure, verb, key, self._place) from failure

    def _client(self) -> Any:
        """The client; making one is not safe in several threads, using it is."""
        if self._given is not None:
            return self._given
        with self._lock:
            if self._made is None:
                try:
                    self._made = self._make()
                except Exception as failure:
                    raise refusal(failure, self._bucket, self._place) from failure
            return self._made

    def _renew(self, stale: Any) -> None:
        """The next call gets a client whose credentials are looked up anew."""
        with self._lock:
            if self._made is stale:
                self._made = None
