"""``speed envelope inspect|check|migrate``: what is in a message, and whether messages can be read (M-36)."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import click

from speed.cli.migrate import migrate
from speed.cli.output import print_rows, print_value
from speed.cli.shown import registry_of, schemas_option, shown_payload
from speed.message.old_forms import OldMessage, is_envelope, recognise, why_no_envelope
from speed.wire.limits import MAX_PAYLOAD_BYTES
from speed.wire.message import MessageView
from speed.wire.message.outline import outline

_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_MAX_BYTES = MAX_PAYLOAD_BYTES
_METADATA = (
    *("message_id", "topic", "namespace", "published_at_ms", "content_type", "content_encoding", "priority"),
    *("ttl_seconds", "correlation_id", "causality_parent", "uncompressed_bytes"),
)
_SECURITY = (
    *("publisher_id", "publisher_team", "signature_algorithm", "signature_key_id", "contains_pii"),
    "data_classification",
)
_WOULD_LACK = {"message_id": "a message id", "topic": "a topic", "published_at_ms": "a time"}
"""What an old message need not have, and an envelope must: who takes it over gives it one."""


class Found(NamedTuple):
    """What one message of a file is: an ``envelope``, an old form, or ``unknown``; and what there is to say of it."""

    place: str
    form: str
    said: str


@click.group("envelope")
def envelope_command() -> None:
    """Look into messages that lie in files, and migrate those of backends."""


envelope_command.add_command(migrate)


@envelope_command.command("inspect")
@click.argument("file", type=click.File("rb"))
@schemas_option
@_json_option
@click.pass_context
def inspect(context: click.Context, file: BinaryIO, schemas: str | None, as_json: bool) -> None:
    """Print what the message in FILE (- for standard input) says of itself, and its payload.

    The file holds the bytes of one envelope, or one message in an older form. Personal data is masked; tokens and
    signatures are never printed. Exit status 1 for what is neither.
    """
    data = _bytes_of(file)
    if not is_envelope(data):
        _inspect_other(context, data, as_json)
        return
    view = MessageView(data)
    told = _told(view)
    told["payload"] = shown_payload(view, registry_of(schemas))
    print_value(told, as_json)


@envelope_command.command("check")
@click.argument("file", type=click.File("rb"))
@_json_option
@click.pass_context
def check(context: click.Context, file: BinaryIO, as_json: bool) -> None:
    """Say of each message in FILE whether it is an envelope, an older form that can be taken over, or neither.

    The file holds one envelope, or one message a line: JSON of an older form, or an envelope in Base64. Exit status 0
    if all of them can be read, 1 if not.
    """
    found = list(_checked(_bytes_of(file)))
    if as_json:
        print_value([one._asdict() for one in found], True)
    else:
        print_rows(["message", "form", "remark"], found, empty="there is no message")
    context.exit(1 if not found or any(one.form == "unknown" for one in found) else 0)


def _bytes_of(file: BinaryIO) -> bytes:
    data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise click.UsageError(f"the file is larger than {_MAX_BYTES} bytes: split it")
    return data


def _inspect_other(context: click.Context, data: bytes, as_json: bool) -> None:
    old = recognise(data)
    if old is not None:
        print_value(_of_old(old), as_json)
        return
    print_value({"form": "unknown", "why": why_no_envelope(data), "parts": outline(data)}, as_json)
    context.exit(1)


def _told(view: MessageView) -> dict[str, Any]:
    """Everything but the payload's content; of bytes their number."""
    security = view.security
    told: dict[str, Any] = {"form": "envelope", "bytes": view.size, "payload_bytes": len(view.payload_bytes)}
    told["metadata"] = {name: getattr(view, name) for name in _METADATA}
    told["type_url"] = view.type_url
    told["security"] = {name: getattr(security, name) for name in _SECURITY if security.HasField(name)}
    told["security"]["signature_bytes"] = len(security.signature)
    if view.is_encrypted:
        ids = [one.key_id for one in security.encryption.recipients] or [security.encryption.key_id]
        told["security"]["encryption"] = {"algorithm": security.encryption.algorithm, "recipients": ids}
    told["observability"] = {"traceparent": view.traceparent, "labels": view.labels, "baggage": view.baggage}
    told["schema"] = {found.name: _plain(value) for found, value in view.schema.ListFields()}
    told["extensions"] = {name: f"{len(value)} bytes" for name, value in view.extensions.items()}
    return told


def _plain(value: Any) -> Any:
    return value if isinstance(value, str) else list(value)


def _of_old(old: OldMessage) -> dict[str, Any]:
    """Of the payload only its kind: no schema says here what of it is personal."""
    kind = f"{len(old.payload)} bytes" if isinstance(old.payload, bytes) else type(old.payload).__name__
    extensions = {name: f"{len(value)} bytes" for name, value in old.metadata.get("extensions", {}).items()}
    metadata = {name: value for name, value in old.metadata.items() if name != "extensions"}
    return {"form": old.form, "payload": kind, "metadata": metadata, "schema": old.schema, "extensions": extensions}


def _checked(data: bytes) -> Iterator[Found]:
    if is_envelope(data):
        yield _judged("1", data)
        return
    whole = recognise(data)
    if whole is not None:
        yield Found("1", whole.form, _remark(whole))
        return
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            yield _judged(str(number), _decoded(line))


def _judged(place: str, data: bytes) -> Found:
    if is_envelope(data):
        return Found(place, "envelope", MessageView(data).message_id)
    old = recognise(data)
    return Found(place, "unknown", why_no_envelope(data) or "") if old is None else Found(place, old.form, _remark(old))


def _decoded(line: bytes) -> bytes:
    """The bytes of an envelope in Base64; any other line as it is."""
    try:
        return base64.b64decode(line, validate=True)
    except ValueError:
        return line


def _remark(old: OldMessage) -> str:
    missing = [name for field, name in _WOULD_LACK.items() if field not in old.metadata]
    return f"can be taken over; it needs {', '.join(missing)}"
