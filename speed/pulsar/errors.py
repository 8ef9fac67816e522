"""What can go wrong with a Pulsar.

PulsarError
├── PulsarConnectionError   it cannot be reached, or closed the connection
├── PulsarRefusedError      it refuses what was asked
├── PulsarTimeoutError      it did not answer in time
└── UnreadableError         a received message cannot be opened
"""

from __future__ import annotations

from typing import Any

from speed.errors import SpeedError


class PulsarError(SpeedError):
    """Base of what a Pulsar, or a message from it, does wrong."""

    code = "PULSAR"


class PulsarConnectionError(PulsarError):
    """The server cannot be reached, or closed the connection. What was being published may be kept or not."""

    code = "PULSAR_CONNECTION"


class PulsarRefusedError(PulsarError):
    """The server refuses a connection or a message; the text holds its status or its reason."""

    code = "PULSAR_REFUSED"


class PulsarTimeoutError(PulsarError, TimeoutError):
    """The server did not answer in time. What was being published may be kept or not."""

    code = "PULSAR_TIMEOUT"


class UnreadableError(PulsarError):
    """A received message cannot be decrypted, uncompressed or split; ``__cause__`` says why.

    ``message`` is the message as it came, so that it can be acknowledged or refused.
    """

    code = "PULSAR_UNREADABLE"
    message: Any = None
