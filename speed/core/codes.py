"""Codes of errors that a service answers with: the contract's, and its own (S-19)."""

from __future__ import annotations

import re
from typing import Any

from speed.errors import CALL_ERRORS, ConfigurationError
from speed.wire.harmless import harmless

_PREFIX = "app/"
_OWN = re.compile("[A-Z][A-Z0-9_]{0,63}")
_SHOWN_CHARACTERS = 80
_NODES_OWN = "REPLACED"
"""What a node says of itself: its callers act on it, and no program sees it."""


def is_code(code: Any) -> bool:
    """Whether a service may answer with ``code``."""
    return type(code) is str and code != _NODES_OWN and (code in CALL_ERRORS or _OWN.fullmatch(code) is not None)


def checked_code(code: Any) -> str:
    """``code``, if a service may answer with it. Raises ConfigurationError, which names another."""
    if is_code(code):
        return str(code)
    shown = harmless(repr(code[:_SHOWN_CHARACTERS])) if type(code) is str else f"of type {type(code).__name__}"
    raise ConfigurationError(
        f"error code {shown} cannot be used: take a capital letter, then up to 63 of A-Z, 0-9 and _, or one of SPEED's"
    )


def travelling(code: str) -> str:
    """A checked code as it travels: a service's own never meets one that SPEED adds later."""
    return code if code in CALL_ERRORS else _PREFIX + code


def own_code(travelled: str) -> str | None:
    """The code of a service in what travelled; None for any other."""
    code = travelled.removeprefix(_PREFIX)
    return code if code != travelled and _OWN.fullmatch(code) else None
