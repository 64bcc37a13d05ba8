"""What S3's refusals mean: an object that is gone, a login that is stale, or a store in trouble."""

from __future__ import annotations

from typing import Any, Final

from acemq_amqp.errors import AceMQError, ConfigurationError, StoreError

_MISSING: Final = {"NoSuchKey", "NotFound", "404"}
#: Credentials read anew may be better.
STALE_LOGIN: Final = {
    *("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"),
    *("InvalidAccessKeyId", "InvalidToken", "RequestExpired"),
}
_NO_CREDENTIALS: Final = {
    *("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"),
    *("TokenRetrievalError", "UnauthorizedSSOTokenError", "ProfileNotFound"),
}
_UNREACHABLE: Final = {
    *("EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "ProxyConnectionError"),
    *("ConnectionClosedError", "SSLError", "HTTPClientError"),
}


def code_of(failure: BaseException) -> str:
    """S3's word for it, or ``""``."""
    return str(_answer(failure).get("Error", {}).get("Code", ""))


def is_missing(failure: BaseException) -> bool:
    """Whether the bucket is there and the object is not."""
    return code_of(failure) in _MISSING and _status(failure) in (404, 0)


def store_error(failure: Exception, verb: str, key: str, place: str) -> AceMQError:
    """What a caller of the store is told."""
    if isinstance(failure, AceMQError):
        return failure
    return StoreError(
        f"acemq: could not {verb} the claim-check payload {key} in {place}: "
        f"{_told(failure)}; {_advice(failure)}"
    )


def refusal(failure: Exception, bucket: str, place: str) -> AceMQError:
    """What a check at start-up is told, by whose fault it is."""
    if isinstance(failure, AceMQError):
        return failure
    why = _wrong_setting(failure, bucket)
    if why is None:
        return StoreError(f"acemq: {place} cannot be used: {_told(failure)}; {_advice(failure)}")
    return ConfigurationError(f"acemq: {place} cannot be used: {why} ({_told(failure)})")


def _wrong_setting(failure: Exception, bucket: str) -> str | None:
    if _named(failure, _NO_CREDENTIALS):
        return "no credentials were found; set AWS_ACCESS_KEY_ID, a profile or a role"
    if _named(failure, {"NoRegionError", "InvalidRegionError"}):
        return "no valid region is set; pass region="
    status = _status(failure)
    region = _answer(failure).get("ResponseMetadata", {}).get("HTTPHeaders", {})
    if status == 404:
        return f"there is no bucket {bucket!r}; make it, or correct the name"
    if status in (301, 307, 400):
        other = region.get("x-amz-bucket-region")
        return f"the bucket is in another region{f', {other}' if other else ''}; pass region="
    if status in (401, 403):
        return f"this login may not use the bucket {bucket!r}, or is unknown there"
    return None


def _advice(failure: Exception) -> str:
    code = code_of(failure)
    if _named(failure, _NO_CREDENTIALS):
        return "no credentials were found: set AWS_ACCESS_KEY_ID, a profile or a role"
    if code == "NoSuchBucket":
        return "there is no such bucket: make it, or correct its name"
    if code in STALE_LOGIN:
        return "the credentials have expired or are unknown: they are looked up anew at next use"
    if _status(failure) in (401, 403):
        return "this login may not do that: correct its rights"
    if _named(failure, _UNREACHABLE):
        return "the server cannot be reached: look at the address and at the network"
    return "it is worth trying again"


def _told(failure: Exception) -> str:
    return f"{type(failure).__name__}: {' '.join(str(failure).split())}"


def _named(failure: BaseException, names: set[str]) -> bool:
    return any(kind.__name__ in names for kind in type(failure).__mro__)


def _answer(failure: BaseException) -> dict[str, Any]:
    answer = getattr(failure, "response", None)
    return answer if isinstance(answer, dict) else {}


def _status(failure: BaseException) -> int:
    status = _answer(failure).get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return status if isinstance(status, int) else 0
