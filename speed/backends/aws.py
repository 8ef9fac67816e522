"""What S3 and SQS have in common: credentials, time-outs, errors of boto3; and manifests of batches in S3 (B-21)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, NamedTuple

import boto3
from botocore import exceptions
from botocore.config import Config

from speed.backends.address import UNTRUSTED, Address, is_untrusted
from speed.backends.backend import (
    BackendAwayError,
    BackendError,
    BackendFullError,
    BackendRefusedError,
    Outgoing,
    s3_parts,
    too_large,
)
from speed.errors import ConfigurationError

# Manifests in S3: objects that name the objects of a batch, once all of them are stored (B-21). Pure.

MAX_MANIFEST_BYTES = 8 << 20
_PARTS = 6
"""Of the key of a manifest; a place of a group may have the number of an object behind it."""


class Named(NamedTuple):
    """An object of a batch."""

    key: str
    sha256: str
    """In hexadecimal; empty if nobody says."""


def manifest_of(messages: Sequence[Outgoing], keys: Sequence[str]) -> bytes:
    """What names ``messages``, which are stored under ``keys``."""
    objects = [
        {
            "key": key,
            "size": len(one.envelope),
            "message_id": one.message_id,
            "sha256": sha256(one.envelope).hexdigest(),
        }
        for one, key in zip(messages, keys, strict=True)
    ]
    return json.dumps({"objects": objects}).encode()


def objects_of(manifest: bytes, topic: str) -> list[Named] | None:
    """What a manifest of a topic names, in its order; None for what is none, or names what is not of the topic."""
    try:
        objects = [Named(one["key"], one["sha256"]) for one in json.loads(manifest)["objects"]]
        parts = [s3_parts(one.key) for one in objects]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    is_ours = bool(objects) and all(part is not None and part[0] == topic for part in parts)
    return objects if is_ours else None


def item_of(manifest: str, number: int) -> str:
    """An object of a manifest in the place of a group: behind its manifest, and in its order."""
    return f"{manifest}/{number:06d}"


def manifest_of_item(item: str) -> str:
    """The manifest in which an object is named."""
    return item.rpartition("/")[0]


def before(place: str) -> str:
    """Behind what manifests are listed: that in which a place lies is read again."""
    parts = place.split("/")
    return "/".join(parts[:_PARTS])[:-1] if len(parts) > _PARTS else place


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
    """Translate an error. Its text may hold an access key, so only its code is shown."""
    if isinstance(error, exceptions.ClientError):
        response = error.response
        code = str(response.get("Error", {}).get("Code", "")).rpartition(".")[2][:40]
        return _of_code(service, code, int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)))
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
