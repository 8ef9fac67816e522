"""What may be shown of a payload: personal data is masked, what is encrypted is named (M-28)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

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
    if view.is_encrypted:
        ids = ", ".join(one.key_id for one in security.encryption.recipients) or security.encryption.key_id
        return f"<{len(view.payload_bytes)} bytes, encrypted for {ids}>"
    if view.content_encoding != "none":
        return f"<{len(view.payload_bytes)} bytes of {view.content_encoding}>"
    if not security.contains_pii:
        return view.payload
    from speed.message.sensitivity import masked

    schema = None if schemas is None else schemas.check(view)
    return masked(view.payload, None if schema is None else schema.schema.pii_fields)
