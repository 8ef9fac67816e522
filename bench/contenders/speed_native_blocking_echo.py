"""The native engine where nobody polls: each side sleeps until the bell rings."""

from __future__ import annotations

from contenders import speed_echo
from contenders.speed_echo import Client, serve

speed_echo.ENGINE = "native"
speed_echo.SPIN_SECONDS = 0.0

__all__ = ["Client", "serve"]
