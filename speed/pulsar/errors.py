"""What can go wrong with a Pulsar; codes, bases and texts are those of ``registry_spec/codes.json``.

PulsarError
├── PulsarConnectionError
├── PulsarRefusedError
├── PulsarTimeoutError
└── UnreadableError
"""

from __future__ import annotations

from typing import Any

from speed.errors import SpeedError

# generated from registry_spec/codes.json by scripts/generate


class PulsarError(SpeedError):
    """A Pulsar, or a message from it, is not as its protocol says."""

    code = "PULSAR"


class PulsarConnectionError(PulsarError):
    """The server cannot be reached, or ended the connection.

    What was being published may be kept or not.
    """

    code = "PULSAR_CONNECTION"


class PulsarRefusedError(PulsarError):
    """The server refuses a connection or a message; the text holds its status or its reason."""

    code = "PULSAR_REFUSED"


class PulsarTimeoutError(PulsarError, TimeoutError):
    """The server did not answer in time, or did not read what was sent.

    What was being published may be kept or not.
    """

    code = "PULSAR_TIMEOUT"


# end of what is generated


class UnreadableError(PulsarError):
    """A received message cannot be decrypted, uncompressed or split; ``__cause__`` says why.

    ``message`` is the message as it came, so that it can be acknowledged or refused.
    """

    code = "PULSAR_UNREADABLE"
    message: Any = None
