"""Text from others, made fit for one line of a log or a terminal."""

from __future__ import annotations

MAX_CHARACTERS = 8192


def harmless(text: str, most: int = MAX_CHARACTERS) -> str:
    """``text`` on one line, at most ``most`` characters: what a terminal would obey is shown, not done."""
    text = text[: most + 1]
    shown = text if text.isprintable() else "".join(map(_visible, text))
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def _visible(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()
