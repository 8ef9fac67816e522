"""Manifests in S3: objects that name the objects of a batch, once all of them are stored (B-21). Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from speed.bridges.backend import Outgoing
from speed.bridges.names import s3_parts

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


__all__ = ["MAX_MANIFEST_BYTES", "Named", "before", "item_of", "manifest_of", "manifest_of_item", "objects_of"]
