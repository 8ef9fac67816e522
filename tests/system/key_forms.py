"""How a key would look if it had got somewhere."""

from __future__ import annotations

import base64


def holds_key(text: bytes, key: bytes) -> bool:
    """Whether the key is in it, as it is or in one of the usual forms."""
    forms = [key, key.hex().encode(), key.hex().upper().encode(), base64.b64encode(key), base64.urlsafe_b64encode(key)]
    return any(form in text or form.rstrip(b"=") in text for form in forms)
