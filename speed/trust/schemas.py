"""A registry of schemas: ``NAME/VERSION`` and ``.json``, ``.avsc`` or ``.desc``, in a directory or below a URL.

A version never changes once it is read. Nothing is fetched from where a message points: names are looked up here only.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlparse
from urllib.request import HTTPRedirectHandler, Request, build_opener

from speed.core.log import logger
from speed.errors import ConfigurationError
from speed.fs.entry_file import FAILING
from speed.fs.open import opened
from speed.message.errors import SchemaError
from speed.message.schemas import MAX_SCHEMA_BYTES, MODES, Schema, parse_schema, schema_hash
from speed.message.schemas.places import DEPRECATED, PII, is_marked, marked_names
from speed.wire import lazily
from speed.wire.content import PROTOBUF_TYPE, decode_content
from speed.wire.message import MessageView

log = logger("speed.trust")

FORMAT_OF = {".json": "json-schema", ".avsc": "avro", ".desc": "protobuf"}
VALUE_TYPES = frozenset({"application/msgpack", "application/json", "text/plain"})
"""Payloads that are a value without a schema."""
_BYTES_OF = {"avro": "application/avro", "protobuf": PROTOBUF_TYPE}
MAX_CACHED = 1024
MISSING_SECONDS = 60.0
"""How long a remote registry is not asked again for what it does not have, whatever messages name."""
AWAY_SECONDS = 5.0
_TIMEOUT_SECONDS = 5
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}").fullmatch


class RegisteredSchema(NamedTuple):
    """A schema with what a message says of it."""

    schema: Schema
    fields: dict[str, Any]

    def describe(self, value: Any) -> dict[str, Any]:
        """The SchemaContext of a message with that value."""
        used = marked_names(value, self.schema.places, DEPRECATED)
        return {**self.fields, "deprecated_fields_used": used} if used else self.fields

    @property
    def contains_pii(self) -> bool:
        return is_marked(self.schema.places, PII)

    def reads(self, content_type: str) -> bool:
        """Whether such a payload has a value for the schema."""
        return content_type in VALUE_TYPES or content_type == _BYTES_OF.get(self.fields["schema_format"])

    def see(self, content_type: str, data: memoryview) -> Any:
        """The payload's value as the schema sees it; SchemaError, WireError."""
        value = decode_content(content_type, "", data) if content_type in VALUE_TYPES else None
        return self.schema.check(content_type, data, value)


class SchemaRegistry:
    """Schemas of payloads, by name and version: JSON Schema, Avro and protobuf. Thread-safe.

    Args:
        base: a directory or an https URL, below which a schema is ``NAME/VERSION`` with the ending of its format.
        compatibility_mode: what messages say of how versions follow each other, as ``backward``.

    Raises ConfigurationError.
    """

    def __init__(self, base: str | os.PathLike[str], *, compatibility_mode: str = "backward") -> None:
        self._base = os.fspath(base).rstrip("/")
        scheme = urlparse(self._base).scheme
        if scheme not in ("", "https") or compatibility_mode not in MODES:
            raise ConfigurationError(
                f"a schema registry is a directory or an https URL, its mode one of {', '.join(MODES)}"
            )
        self.is_remote = scheme == "https"
        self._mode = compatibility_mode
        self._known: dict[tuple[str, str], tuple[RegisteredSchema | None, float]] = {}
        self._newest: dict[str, tuple[str | None, float]] = {}
        self._away = float("-inf"), ""
        self._lock = threading.Lock()

    def get(self, name: str, version: str) -> RegisteredSchema:
        """The schema; SchemaError if there is none."""
        found = self.find(name, version)
        if found is None:
            raise SchemaError(f"there is no schema {name!r} of version {version!r} in {self._base}")
        return found

    def find(self, name: str, version: str) -> RegisteredSchema | None:
        """As ``get``, None if there is none. What was looked up is remembered, within a bound."""
        if not all(_NAME(text) and ".." not in text for text in (name, version)):
            raise SchemaError(f"{name[:64]!r} of version {version[:64]!r} cannot be a schema: use [A-Za-z0-9._-]")
        with self._lock:
            found, until = self._known.get((name, version), (None, 0.0))
            if found is None and until <= time.monotonic():
                if len(self._known) >= MAX_CACHED:
                    self._known.clear()
                found = self._load_unless_away(name, version)
                self._known[name, version] = found, time.monotonic() + (MISSING_SECONDS if self.is_remote else 0.0)
            return found

    def latest(self, name: str) -> str:
        """The newest version in a directory, by its numbers; SchemaError if there is none."""
        if self.is_remote or not _NAME(name):
            raise SchemaError(f"the newest version of {name!r} is not known here: name a version")
        try:
            files = os.listdir(f"{self._base}/{name}")
        except OSError:
            files = []
        versions = [stem for stem, end in map(os.path.splitext, files) if end in FORMAT_OF]
        if not versions:
            raise SchemaError(f"there is no schema {name!r} in {self._base}")
        return max(versions, key=lambda text: [int(part) for part in re.findall(r"\d+", text)])

    def newest(self, name: str) -> str | None:
        """As ``latest``, None if there is none or it is not known; looked up once a minute."""
        with self._lock:
            found, until = self._newest.get(name, (None, float("-inf")))
            if until <= time.monotonic():
                try:
                    found = self.latest(name)
                except SchemaError:
                    found = None
                if len(self._newest) >= MAX_CACHED:
                    self._newest.clear()
                self._newest[name] = found, time.monotonic() + (MISSING_SECONDS if found is not None else 0.0)
            return found

    def check(self, view: MessageView) -> RegisteredSchema | None:
        """The registered schema of a received message, whose hash is the one that the message says.

        None if the message names none, or one that is not here. Raises SchemaError.
        """
        said = view.schema
        found = self.find(said.schema_name, said.schema_version) if said.schema_name and said.schema_version else None
        if found is not None and said.schema_hash != found.fields["schema_hash"]:
            raise SchemaError(
                f"schema_hash: is not that of {said.schema_name!r} of version {said.schema_version!r} here"
            )
        return found

    def _load_unless_away(self, name: str, version: str) -> RegisteredSchema | None:
        """A registry that does not answer is left alone for a while: each wait for it holds up all messages."""
        until, problem = self._away
        if time.monotonic() < until:
            raise SchemasAwayError(problem)
        try:
            return self._load(name, version)
        except SchemasAwayError as error:
            self._away = time.monotonic() + AWAY_SECONDS, str(error)
            raise

    def _load(self, name: str, version: str) -> RegisteredSchema | None:
        for ending, format_ in FORMAT_OF.items():
            where = f"{self._base}/{name}/{version}{ending}"
            data = _fetch(where) if self.is_remote else _read(where)
            if data is not None:
                fields = {
                    "schema_url": where,
                    "schema_version": version,
                    "schema_format": format_,
                    "schema_hash": schema_hash(data),
                    "schema_name": name,
                    "compatibility_mode": self._mode,
                }
                return RegisteredSchema(parse_schema(format_, data, _message_in(format_, data, name)), fields)
        return None


def _message_in(format_: str, data: bytes, name: str) -> str:
    """The message of a protobuf file that a schema is named after; empty where it has another name, as a topic's."""
    if format_ != "protobuf":
        return ""
    has_message: Callable[[bytes, str], bool] = lazily.load("speed.message.schemas.protobuf").has_message
    return name if has_message(data, name) else ""


def read_schema(path: str) -> Schema:
    """The schema in one file, its format by its ending; SchemaError."""
    return parse_schema(*read_schema_file(path))


def read_schema_file(path: str) -> tuple[str, bytes]:
    """The format of a schema file, by its ending, and what is in it; SchemaError."""
    format_ = FORMAT_OF.get(os.path.splitext(path)[1])
    if format_ is None:
        raise SchemaError(f"{path}: a schema file ends in {', '.join(FORMAT_OF)}")
    data = _read(path)
    if data is None:
        raise SchemaError(f"{path}: there is no such file")
    return format_, data


def _read(path: str) -> bytes | None:
    try:
        fd = opened(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unread(path, error) from None
    with os.fdopen(fd, "rb") as file:
        try:
            return file.read(MAX_SCHEMA_BYTES + 1)
        except OSError as error:
            raise _unread(path, error) from None


class SchemasAwayError(SchemaError):
    """The registry does not answer at all."""


def _unread(path: str, error: OSError) -> SchemaError:
    """What the system keeps from being read may be read later: no message is refused for it."""
    kind = SchemasAwayError if error.errno in FAILING else SchemaError
    return kind(f"{path}: {error.strerror}")


class NoRedirects(HTTPRedirectHandler):
    """A registry answers itself: a redirect would lead where nobody configured."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _fetch(url: str) -> bytes | None:
    opener = build_opener(NoRedirects())
    try:
        with opener.open(Request(url), timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310 - https only, see above
            data: bytes = answer.read(MAX_SCHEMA_BYTES + 1)
            return data
    except HTTPError as error:
        if error.code == 404:
            return None
        answer = f"{url}: the registry answers {error.code}"
        raise (SchemasAwayError(answer) if error.code >= 500 else SchemaError(answer)) from None
    except OSError as error:
        raise SchemasAwayError(f"{url}: the registry does not answer ({type(error).__name__})") from None
