"""What may be shown of a payload: personal data is masked, what cannot be read here is named (M-28)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from speed.errors import WireError
from speed.message.errors import MessageError
from speed.wire.content import PROTOBUF_TYPE
from speed.wire.message import MessageView

if TYPE_CHECKING:
    from speed.trust.schemas import SchemaRegistry

schemas_option = click.option(
    "--schemas",
    type=click.Path(exists=True, file_okay=False),
    help="Directory of schemas: of messages with personal data it masks the fields that are, and not all.",
)


def registry_of(directory: str | None) -> SchemaRegistry | None:
    """The schemas that ``--schemas`` names."""
    if directory is None:
        return None
    from speed.trust.schemas import SchemaRegistry

    return SchemaRegistry(directory)


def shown_payload(view: MessageView, schemas: SchemaRegistry | None = None) -> Any:
    """The payload's value, masked as its sensitivity asks; a text in the place of what cannot be read here."""
    security = view.security
    if view.is_encrypted and view.opened_by is None:
        ids = ", ".join(one.key_id for one in security.encryption.recipients) or security.encryption.key_id
        return f"<{len(view.payload_bytes)} bytes, encrypted for {ids}>"
    if view.payload_encoding != "none":
        return f"<{len(view.payload_bytes)} bytes of {view.payload_encoding}>"
    try:
        return _seen(view, schemas) if security.contains_pii or schemas is not None else _value(view)
    except (MessageError, WireError) as error:
        return _named(view, f"cannot be shown: {getattr(error, 'reason', error.code)}")


def _seen(view: MessageView, schemas: SchemaRegistry | None) -> Any:
    """The value as its schema sees it, which knows what is personal, whatever the sender says."""
    from speed.message.schemas.places import MASK, masked

    schema = None if schemas is None else schemas.check(view)
    if schema is None:
        return MASK if view.security.contains_pii else _value(view)
    if not schema.reads(view.content_type):
        return _named(view, "is not what its schema describes")
    return masked(schema.see(view.content_type, view.payload_bytes), schema.schema.places)


def _value(view: MessageView) -> Any:
    """The value where it is one that can be printed."""
    if view.content_type == PROTOBUF_TYPE:
        return _named(view, "its schema is not here")
    return view.payload


def _named(view: MessageView, what: str) -> str:
    is_held = view.size == len(view.data)
    size = len(view.payload_bytes) if is_held else view.size  # what lies in the store is not read to be counted
    return f"<{size} bytes of {view.type_url if is_held and view.type_url else view.content_type}: {what}>"
