"""Who may see what: classification and clearance (M-28)."""

from __future__ import annotations

from typing import Final

from speed.errors import ConfigurationError
from speed.message.errors import ClearanceError, NotEncryptedError
from speed.wire.message import MessageView

LEVELS: Final = ("public", "internal", "confidential", "restricted")
_ENCRYPTED_FROM: Final = LEVELS.index("confidential")
_INTERNAL: Final = LEVELS.index("internal")


def check_level(level: str | None, what: str = "classification") -> str | None:
    """``level`` if it is one of M-28, or None; ConfigurationError otherwise."""
    if level is not None and level not in LEVELS:
        raise ConfigurationError(f"{what} is {level!r}; use one of {', '.join(LEVELS)}")
    return level


def check_sensitivity(classification: str, is_encrypted: bool) -> None:
    """NotEncryptedError for a confidential or restricted message in the clear; both sides ask this."""
    if _rank(classification) >= _ENCRYPTED_FROM and not is_encrypted:
        raise NotEncryptedError(
            f"data_classification: a {LEVELS[_rank(classification)]} message must be encrypted: give `encrypt_to`"
        )


def check_clearance(view: MessageView, clearance: str | None) -> None:
    """ClearanceError for a message above ``clearance``; None is cleared for all."""
    classification = view.security.data_classification
    if clearance is not None and _rank(classification) > _rank(clearance):
        level = LEVELS[_rank(classification)]
        raise ClearanceError(f"data_classification: is {level}, and this node is cleared for {clearance}")


def is_restricted(view: MessageView) -> bool:
    """Whether a message is of the highest class: who is handed it is written down (M-31)."""
    return _rank(view.security.data_classification) == len(LEVELS) - 1


def _rank(classification: str) -> int:
    """Absent is internal; a text of a later version counts as the highest."""
    if not classification:
        return _INTERNAL
    return LEVELS.index(classification) if classification in LEVELS else len(LEVELS) - 1
