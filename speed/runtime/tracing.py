"""The trace context of the work at hand: set around services and handlers, read by calls and sends (rule S-13)."""

from __future__ import annotations

from contextvars import ContextVar

current_traceparent: ContextVar[str | None] = ContextVar("speed_traceparent", default=None)
