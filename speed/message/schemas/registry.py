"""Registries of schemas: by name and version, by namespace (M-29, M-37), and who still uses what is old.

A version never changes once it is read. Nothing is fetched from where a message points: names are looked up here only.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlparse
from urllib.request import HTTPRedirectHandler, Request, build_opener

from speed.core.log import logger
from speed.errors import ConfigurationError, StorageError
from speed.fs.claim import FAILING
from speed.fs.open import opened, replace_private
from speed.message.errors import SchemaError
from speed.message.schemas import (
    DEPRECATED,
    MAX_SCHEMA_BYTES,
    MODES,
    PII,
    Schema,
    is_marked,
    marked_names,
    parse_schema,
    schema_hash,
)
from speed.message.view import MessageView
from speed.wire import lazily
from speed.wire.value import PROTOBUF_TYPE, decode_content

# A registry of schemas: ``NAME/VERSION`` and ``.json``, ``.avsc`` or ``.desc``, in a directory or below a URL.

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
        declared = view.schema
        found = (
            self.find(declared.schema_name, declared.schema_version)
            if declared.schema_name and declared.schema_version
            else None
        )
        if found is not None and declared.schema_hash != found.fields["schema_hash"]:
            raise SchemaError(
                f"schema_hash: is not that of {declared.schema_name!r} of version {declared.schema_version!r} here"
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


# The schemas of one namespace: which one a message gets, and which ones a reader expects (M-37).

Warn = Callable[..., None]
"""``warn(kind, text, *arguments)`` writes one line of a kind in a minute."""


@dataclass(frozen=True, slots=True)
class NamespaceSchemas:
    """The schemas of a namespace: that of a topic has the topic's name. Raises ConfigurationError.

    ``MessageSecurity(namespaces={"orders": NamespaceSchemas(SchemaRegistry("schemas"), version="v2", required=True)})``

    Attributes:
        registry: where they are.
        version: what is written, and expected of others; without it the newest one, which a directory alone can tell.
        required: whether a message without a schema that is here is refused, by the writer and by the reader.
    """

    registry: SchemaRegistry
    version: str | None = None
    required: bool = False

    def __post_init__(self) -> None:
        if self.version is None and self.registry.is_remote:
            raise ConfigurationError(
                "a namespace whose schemas are remote needs `version`: its newest is not known here"
            )

    def of_topic(self, topic: str) -> RegisteredSchema | None:
        """What a message of that topic is described by; SchemaError if it must have one and there is none."""
        version = self.version or self.registry.newest(topic)
        found = None if version is None else self.registry.find(topic, version)
        if found is None and self.required:
            raise SchemaError(f"schema_name: there is no schema for topic {topic!r}, and its namespace requires one")
        return found

    def expected(self, name: str) -> str | None:
        """The version of a schema that messages should have; None if there is none of that name."""
        return self.version or self.registry.newest(name)

    def check(self, view: MessageView, warn: Warn) -> RegisteredSchema | None:
        """The schema of a received message. SchemaError for an unknown name, another hash, or none where one must be.

        Another version than the expected one is warned about; one that is not here is refused where it must be.
        """
        declared = view.schema
        if not declared.schema_name:
            if self.required:
                raise SchemaError(f"schema_name: is absent, and namespace {view.namespace!r} requires a schema")
            return None
        found = self.registry.check(view)
        if found is None and not self._knows(declared.schema_name):
            raise SchemaError(f"schema_name: {declared.schema_name[:64]!r} is unknown in namespace {view.namespace!r}")
        if found is None and self.required:
            raise SchemaError(
                f"schema_version: {declared.schema_version[:64]!r} of {declared.schema_name!r} is not here"
            )
        if declared.schema_version != self.expected(declared.schema_name):
            self._warn(view, declared, warn)
        return found

    def _knows(self, name: str) -> bool:
        expected = self.expected(name)
        return expected is not None and self.registry.find(name, expected) is not None

    def _warn(self, view: MessageView, declared: Any, warn: Warn) -> None:
        warn(
            f"schema {declared.schema_name}",
            "a message of %s has version %r of schema %s, and %r is expected",
            view.publisher_id,
            declared.schema_version[:64],
            declared.schema_name,
            self.expected(declared.schema_name),
        )


MAX_ROWS: Final = 4096
MAX_FILE_BYTES: Final = 8 << 20
OTHERS: Final = "(others)"
WRITE_SECONDS: Final = 5.0
_MAX_TEXT = 128
_MAX_FIELDS = 64
_COUNTED = ("messages", "last_ms")


class Use(NamedTuple):
    """One use of something old: ``field`` is empty where the version itself is old."""

    publisher: str
    consumer: str
    schema: str
    version: str
    field: str


class SchemaUsage:
    """Counts uses of what is deprecated, in a file that `speed message schema usage` lists. Thread-safe.

    The file is private to this user, is written anew at most every five seconds, and when the node is closed; what an
    earlier process counted is counted on. Each process needs a file of its own. Beyond 4,096 kinds of use the rest is
    counted as ``(others)``. Raises StorageError where an existing file cannot be read.

    Args:
        path: the file.
        clock_ms: gives the time in Unix milliseconds.
    """

    def __init__(self, path: str | os.PathLike[str], *, clock_ms: Callable[[], int] | None = None) -> None:
        self._path = os.fspath(path)
        self._clock_ms = clock_ms or _unix_ms
        self._lock = threading.Lock()
        self._rows = dict(read_usage(self._path)) if os.path.lexists(self._path) else {}
        self._written = float("-inf")
        self._is_new = False

    def count(
        self, publisher: str, consumer: str, schema: str, version: str, fields: Iterable[str], *, is_old: bool
    ) -> None:
        """One message that uses ``fields``, which are deprecated, or a version that ``is_old``.

        ``publisher`` and ``consumer`` are nodes; of what is written, the consumer is empty.
        """
        names = [name[:_MAX_TEXT] for name in fields][:_MAX_FIELDS] + ([""] if is_old else [])
        if not names:
            return
        texts = (publisher[:_MAX_TEXT], consumer[:_MAX_TEXT], schema[:_MAX_TEXT], version[:_MAX_TEXT])
        with self._lock:
            for name in names:
                self._count(Use(*texts, name))
            self._is_new = True
            is_due = time.monotonic() - self._written >= WRITE_SECONDS
        if is_due:
            self.flush()

    def rows(self) -> dict[Use, tuple[int, int]]:
        """For each use, the number of messages and the time of the last one (Unix milliseconds)."""
        with self._lock:
            return dict(self._rows)

    def flush(self) -> None:
        """Write the file now. That it cannot be written is logged: what was counted stays, for the next time."""
        with self._lock:
            if not self._is_new:
                return
            text = _text(self._rows)
            self._written, self._is_new = time.monotonic(), False
            try:
                replace_private(self._path, text)
            except OSError as error:
                self._is_new = True
                log.warning("the uses of schemas cannot be written to %s: %s", self._path, error.strerror)

    def _count(self, use: Use) -> None:
        if use not in self._rows and len(self._rows) >= MAX_ROWS:
            use = Use(OTHERS, "", "", "", "")
        messages, _ = self._rows.get(use, (0, 0))
        self._rows[use] = messages + 1, self._clock_ms()

    def __repr__(self) -> str:
        return f"<SchemaUsage {self._path}>"


def read_usage(path: str) -> dict[Use, tuple[int, int]]:
    """What a file of a SchemaUsage holds; StorageError for one that cannot be read or is none."""
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_FILE_BYTES + 1)
        rows: list[Any] = json.loads(text)["uses"] if len(text) <= MAX_FILE_BYTES else [None]
        return {_use(row): (int(row["messages"]), int(row["last_ms"])) for row in rows}
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, RecursionError):
        raise StorageError(f"{path}: does not hold uses of schemas: name the file of a SchemaUsage") from None


def _use(row: Any) -> Use:
    texts = [row[name] for name in Use._fields]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError
    return Use(*texts)


def _text(rows: dict[Use, tuple[int, int]]) -> bytes:
    listed = [{**use._asdict(), **dict(zip(_COUNTED, counted, strict=True))} for use, counted in rows.items()]
    return json.dumps({"uses": listed}).encode()


def _unix_ms() -> int:
    return time.time_ns() // 1_000_000
