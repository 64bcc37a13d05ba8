"""The store in S3: its objects, and what its answers mean."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from acemq_amqp import AceMQError, ConfigurationError, FatalError, StoreError
from acemq_stores import S3ClaimCheckStore, s3
from tests.stores.claims.stands import S3Stand
from tests.support.ports import free_port
from tests.support.proxy import Proxy
from tests.support.s3 import LOGIN, REGION, Answer, TellingServer

KEY = "3f0c8a52-7a39-4d3e-9a57-0a1b2c3d4e5f"
MIB = 1024 * 1024
NO_SUCH_KEY = Answer(404, "NoSuchKey")

Telling = Callable[..., TellingServer]


def at(url: str, **options: Any) -> S3ClaimCheckStore:
    """A store at an address, which gives up soon."""
    options = {"session": boto3.Session(region_name=REGION, **LOGIN), **options}
    return S3ClaimCheckStore(
        "bucket", endpoint_url=url, connect_timeout=1.0, read_timeout=1.0, attempts=1, **options
    )


@pytest.fixture
def no_login(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    """An environment without any credentials."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    yield monkeypatch


# ------------------------------------------------------------ objects


def test_an_object_has_its_name_and_digest(s3: S3Stand) -> None:
    key = s3.store.put(b"content")
    found = s3.client.get_object(Bucket=s3.bucket, Key=f"claims/{key}")
    assert found["Body"].read() == b"content"
    assert found["Metadata"] == {
        "acemq-sha256": "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73",
        "acemq-length": "7",
    }


def test_put_options_reach_s3_beside_the_digest(s3: S3Stand) -> None:
    store = s3.another(
        put_options={
            "StorageClass": "STANDARD_IA",
            "ServerSideEncryption": "AES256",
            "Metadata": {"team": "shop"},
        }
    )
    key = store.put(b"content")
    head = s3.client.head_object(Bucket=s3.bucket, Key=f"claims/{key}")
    assert (head["StorageClass"], head["ServerSideEncryption"]) == ("STANDARD_IA", "AES256")
    assert head["Metadata"]["team"] == "shop"
    assert store.get(key) == b"content"
    assert store.unverified == 0


def test_a_large_payload_goes_up_in_parts_and_is_verified(s3: S3Stand) -> None:
    content = bytes(range(256)) * (9 * MIB // 256)
    key = s3.another(multipart_threshold=MIB).put(content)
    # the hash of hashes that S3 gives for parts
    assert s3.client.head_object(Bucket=s3.bucket, Key=f"claims/{key}")["ETag"].endswith('-2"')
    assert s3.store.get(key) == content
    s3.replace(key, content[:-1])
    with pytest.raises(FatalError):
        s3.store.get(key)


def test_an_object_of_another_library_is_read_and_counted_or_refused(s3: S3Stand) -> None:
    s3.client.put_object(Bucket=s3.bucket, Key=f"claims/{KEY}", Body=b"from Java")
    assert s3.store.get(KEY) == b"from Java"
    assert s3.store.unverified == 1
    with pytest.raises(FatalError, match="has no digest, and require_digest=True"):
        s3.another(require_digest=True).get(KEY)


def test_objects_outside_of_the_prefix_are_out_of_reach(s3: S3Stand) -> None:
    s3.client.put_object(Bucket=s3.bucket, Key=KEY, Body=b"another tenant's")
    s3.client.put_object(Bucket=s3.bucket, Key=f"claims/sub/{KEY}", Body=b"not ours")
    assert s3.store.get(KEY) is None
    assert list(s3.store.listing()) == []


def test_a_client_that_is_given_is_used(s3: S3Stand) -> None:
    store = S3ClaimCheckStore(s3.bucket, prefix="claims/", client=s3.client)
    assert s3.store.get(store.put(b"content")) == b"content"


class SmallPages:
    """A client whose listings have two objects on a page."""

    def __init__(self, client: Any) -> None:
        self._paginator = client.get_paginator("list_objects_v2")

    def get_paginator(self, name: str) -> SmallPages:
        return self

    def paginate(self, **options: Any) -> Any:
        return self._paginator.paginate(**options, PaginationConfig={"PageSize": 2})


def test_more_keys_than_a_page_holds_are_listed(s3: S3Stand) -> None:
    keys = {s3.store.put(b"content") for _ in range(5)}
    store = S3ClaimCheckStore(s3.bucket, prefix="claims/", client=SmallPages(s3.client))
    assert {key for key, _ in store.listing()} == keys


def test_another_server_is_not_asked_for_checksums_it_may_not_know(telling: Telling) -> None:
    server = telling(Answer())
    at(server.url).put(b"content")
    assert not [name for name in server.requests[0] if name.startswith("x-amz-checksum")]


# ------------------------------------------------------------ gone, or not to be had


def test_an_object_that_shows_late_is_found(telling: Telling) -> None:
    server = telling(NO_SUCH_KEY, NO_SUCH_KEY, Answer(body=b"content"))
    assert at(server.url).get(KEY) == b"content"


def test_an_object_that_never_shows_is_gone_after_two_seconds(
    telling: Telling, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    now = 100.0

    class Clock:
        @staticmethod
        def monotonic() -> float:
            return now + sum(waits)

        sleep = waits.append

    monkeypatch.setattr(s3, "time", Clock)
    server = telling(NO_SUCH_KEY)
    assert at(server.url).get(KEY) is None
    assert sum(waits) == pytest.approx(2.0)
    assert len(server.requests) == len(waits) + 1 <= 8


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Answer(403, "AccessDenied"), "this login may not do that"),
        (Answer(403, "SignatureDoesNotMatch"), "this login may not do that"),
        (Answer(404, "NoSuchBucket"), "there is no such bucket"),
        (Answer(500, "InternalError"), "worth trying again"),
        (Answer(503, "SlowDown"), "worth trying again"),
        (Answer(400, "ExpiredToken"), "the credentials have expired"),
        (Answer(body=b"half of", missing=7), "worth trying again"),
        (Answer(404, "NoSuchVersion"), "worth trying again"),
    ],
    ids=lambda each: each.code or f"{each.status}" if isinstance(each, Answer) else "",
)
def test_nothing_else_than_a_missing_key_is_gone(
    telling: Telling, answer: Answer, told: str
) -> None:
    server = telling(answer)
    with pytest.raises(StoreError, match=f"^acemq: could not read the claim-check .*{told}"):
        at(server.url).get(KEY)


@pytest.mark.parametrize("verb", ["put", "delete"])
def test_a_refused_write_is_a_store_error(telling: Telling, verb: str) -> None:
    store = at(telling(Answer(403, "AccessDenied")).url)
    with pytest.raises(StoreError, match=r"^acemq: could not .*AccessDenied.*correct its rights"):
        store.put(b"content") if verb == "put" else store.delete(KEY)


def test_a_wrong_bucket_is_a_retry_and_never_gone(s3: S3Stand) -> None:
    store = at(s3.url)
    with pytest.raises(StoreError, match="there is no such bucket: make it, or correct its name"):
        store.get(KEY)
    with pytest.raises(StoreError, match="there is no such bucket"):
        store.put(b"content")


def test_a_server_that_is_not_there_is_a_store_error() -> None:
    store = at(f"http://127.0.0.1:{free_port()}")
    for call in (lambda: store.put(b"content"), lambda: store.get(KEY), store.check):
        with pytest.raises(StoreError, match="the server cannot be reached"):
            call()


def test_a_server_that_stalls_is_a_store_error(s3: S3Stand, proxy_to: Any) -> None:
    proxy: Proxy = proxy_to(int(s3.url.rpartition(":")[2]))
    store = at(f"http://127.0.0.1:{proxy.port}")
    proxy.blackhole()
    with pytest.raises(StoreError, match="the server cannot be reached"):
        store.get(KEY)


def test_a_failure_that_passes_is_tried_again(telling: Telling) -> None:
    server = telling(Answer(503, "SlowDown"), Answer(body=b"content"))
    store = S3ClaimCheckStore(
        "bucket", endpoint_url=server.url, session=boto3.Session(region_name=REGION, **LOGIN)
    )
    assert store.get(KEY) == b"content"


# ------------------------------------------------------------ credentials


def test_no_credentials_are_told_as_that(no_login: pytest.MonkeyPatch, s3_url: str) -> None:
    store = at(s3_url, session=None, region=REGION)
    with pytest.raises(StoreError, match="no credentials were found: set AWS_ACCESS_KEY_ID"):
        store.get(KEY)
    with pytest.raises(ConfigurationError, match="no credentials were found"):
        store.check()


def test_credentials_that_expired_are_looked_up_anew(
    no_login: pytest.MonkeyPatch, telling: Telling
) -> None:
    server = telling(Answer(400, "ExpiredToken"), Answer(body=b"content"))
    store = at(server.url, session=None, region=REGION)
    no_login.setenv("AWS_ACCESS_KEY_ID", "before")
    no_login.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with pytest.raises(StoreError, match="they are looked up anew at next use"):
        store.get(KEY)
    no_login.setenv("AWS_ACCESS_KEY_ID", "after")
    assert store.get(KEY) == b"content"
    logins = [request["authorization"] for request in server.requests]
    assert ["Credential=before/" in logins[0], "Credential=after/" in logins[1]] == [True, True]


# ------------------------------------------------------------ the check at start-up


def test_a_bucket_that_is_there_passes(s3: S3Stand) -> None:
    s3.another().check()


@pytest.mark.parametrize(
    ("answer", "kind", "told"),
    [
        (Answer(404), ConfigurationError, "there is no bucket 'bucket'; make it"),
        (Answer(403), ConfigurationError, "this login may not use the bucket 'bucket'"),
        (
            Answer(301, headers={"x-amz-bucket-region": "us-west-2"}),
            ConfigurationError,
            "the bucket is in another region, us-west-2; pass region=",
        ),
        (Answer(503), StoreError, "worth trying again"),
    ],
    ids=lambda each: str(each.status) if isinstance(each, Answer) else "",
)
def test_the_check_names_what_is_wrong(
    telling: Telling, answer: Answer, kind: type[AceMQError], told: str
) -> None:
    with pytest.raises(kind, match=f"^acemq: s3://bucket/ cannot be used: .*{told}"):
        at(telling(answer).url).check()


def test_without_boto3_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'acemq-amqp\[s3\]'"):
        S3ClaimCheckStore("bucket")


def test_a_store_without_a_bucket_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="wants the name of its bucket"):
        S3ClaimCheckStore("")
