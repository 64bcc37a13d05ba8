"""What patterns keep things in: folders, S3, SQL. Imports ``acemq_amqp``, and never the reverse.

A store is imported when it is asked for, so that none needs the packages of another.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from acemq_stores.filesystem import FilesystemClaimCheckStore
    from acemq_stores.s3 import S3ClaimCheckStore
    from acemq_stores.sql.claim_check import SqlClaimCheckStore
    from acemq_stores.sql.idempotency import SqlIdempotencyStore
    from acemq_stores.sql.log import SqlLogStore
    from acemq_stores.sql.outbox import SqlOutboxStore
    from acemq_stores.sql.schema import create_schema, schema_ddl

_MODULES: Final = {
    "FilesystemClaimCheckStore": "filesystem",
    "S3ClaimCheckStore": "s3",
    "SqlClaimCheckStore": "sql.claim_check",
    "SqlIdempotencyStore": "sql.idempotency",
    "SqlLogStore": "sql.log",
    "SqlOutboxStore": "sql.outbox",
    "create_schema": "sql.schema",
    "schema_ddl": "sql.schema",
}

__all__ = [
    "FilesystemClaimCheckStore",
    "S3ClaimCheckStore",
    "SqlClaimCheckStore",
    "SqlIdempotencyStore",
    "SqlLogStore",
    "SqlOutboxStore",
    "create_schema",
    "schema_ddl",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
