"""The same program on the native engine."""

from __future__ import annotations

from contenders import speed_echo
from contenders.speed_echo import Client, serve

speed_echo.ENGINE = "native"

__all__ = ["Client", "serve"]
