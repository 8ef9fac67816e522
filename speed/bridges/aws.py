"""What S3 and SQS have in common: credentials, time-outs, and what errors of boto3 mean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from botocore import exceptions
from botocore.config import Config

from speed.bridges.address import Address
from speed.bridges.backend import too_large
from speed.bridges.errors import BackendAwayError, BackendError, BackendFullError, BackendRefusedError
from speed.bridges.tls import UNTRUSTED, is_untrusted
from speed.errors import ConfigurationError

_REFUSALS = frozenset(
    {
        *("InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied", "403", "AuthFailure", "ExpiredToken"),
        *("NoSuchBucket", "QueueDoesNotExist", "NonExistentQueue"),
    }
)
_FULL = frozenset({"QuotaExceeded", "InsufficientStorage", "XMinioStorageFull"})
_AWAY = frozenset({"SlowDown", "RequestTimeout", "RequestThrottled", "ThrottlingException", "OverLimit"})
FAILURES = (exceptions.BotoCoreError, exceptions.ClientError, boto3.exceptions.Boto3Error, OSError)


def client_of(service: str, address: Address, connections: int = 10) -> Any:
    """A client of boto3 for an address. Thread-safe, as boto3 says."""
    own: dict[str, Any] = {}
    if address.user:
        own = {"aws_access_key_id": address.user, "aws_secret_access_key": address.password()}
    if address.options["endpoint"]:
        own["endpoint_url"] = address.options["endpoint"]
    config = Config(
        connect_timeout=5,
        read_timeout=20,
        max_pool_connections=connections,
        retries={"total_max_attempts": 2, "mode": "standard"},
        s3={"addressing_style": "path"},
    )
    verify = address.options["trusted"] or None
    try:
        return boto3.session.Session().client(
            service, **own, region_name=address.options["region"], config=config, verify=verify
        )
    except (ValueError, exceptions.BotoCoreError) as error:
        raise ConfigurationError(
            f"{address} cannot be used: {type(error).__name__}; look at its endpoint and region"
        ) from None


@contextmanager
def asking(service: str) -> Iterator[None]:
    """Errors of boto3 as what they mean. ``service`` is its name for people."""
    try:
        yield
    except boto3.exceptions.S3UploadFailedError as error:
        raise error_of(service, error.__context__ or error) from None
    except FAILURES as error:
        raise error_of(service, error) from None


def error_of(service: str, error: BaseException) -> Exception:
    """What an error means; its text may hold an access key, so only its code is told."""
    if isinstance(error, exceptions.ClientError):
        told = error.response
        code = str(told.get("Error", {}).get("Code", "")).rpartition(".")[2][:40]
        return _of_code(service, code, int(told.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)))
    if isinstance(error, (exceptions.NoCredentialsError, exceptions.PartialCredentialsError)):
        return BackendRefusedError(f"{service} needs credentials: in the address, or where boto3 looks for them")
    if is_untrusted(error):
        return BackendRefusedError(f"{service}: {UNTRUSTED}")
    return BackendAwayError(f"{service} does not answer ({type(error).__name__}): try again")


def _of_code(service: str, code: str, status: int) -> Exception:
    if code == "EntityTooLarge":
        return too_large("the bound of an object")
    if code in _FULL:
        return BackendFullError(f"{service} has no room ({code})")
    if code in _REFUSALS or status in (401, 403):
        place = "queue" if service == "SQS" else "bucket"
        return BackendRefusedError(
            f"{service} refuses the credentials, the {place}, or what this user may not do ({code})"
        )
    if status >= 500 or code in _AWAY:
        return BackendAwayError(f"{service} does not answer, or not now ({code}): try again")
    return BackendError(f"{service}: {code}")


__all__ = ["FAILURES", "asking", "client_of", "error_of"]
