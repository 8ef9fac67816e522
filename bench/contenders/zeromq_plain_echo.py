"""The same program without protection."""

from __future__ import annotations

from contenders import zeromq_echo
from contenders.zeromq_echo import Client, serve

zeromq_echo.CURVE = False

__all__ = ["Client", "serve"]
