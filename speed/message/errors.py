"""Why a message cannot be protected, or was refused; codes are those of the list ``message`` in ``codes.json``.

MessageError
├── SignatureError  UnsignedError  UntrustedError
├── EncryptionError  NoRecipientKeyError  NotEncryptedError  CompressionError
├── AlgorithmError
│   └── WeakAlgorithmError  UnknownAlgorithmError  NotAvailableError
├── MessageKeyError
│   └── KeyUnavailableError  KeyRefusedError  KeyExhaustedError
└── TokenError  SchemaError  ClearanceError  BatchError  AwayError
"""

from __future__ import annotations

from speed.errors import SpeedError


class MessageError(SpeedError):
    """A message is not as its rules ask. Neither key, token nor payload is ever in the text."""

    code = "MESSAGE"


class SignatureError(MessageError):
    """The signature does not verify, or there are several (M-16, M-17)."""

    code = "BAD_SIGNATURE"


class UnsignedError(MessageError):
    """A signature is required and there is none (M-18)."""

    code = "UNSIGNED"


class UntrustedError(MessageError):
    """The named key is not trusted for this message (M-17)."""

    code = "UNTRUSTED"


class EncryptionError(MessageError):
    """The payload or its data key does not open, or what describes it is malformed (M-20 to M-22)."""

    code = "BAD_ENCRYPTION"


class NoRecipientKeyError(MessageError):
    """The payload is encrypted for others (M-21)."""

    code = "NO_RECIPIENT_KEY"


class NotEncryptedError(MessageError):
    """A confidential or restricted message is not encrypted (M-28)."""

    code = "NOT_ENCRYPTED"


class CompressionError(MessageError):
    """A compressed payload is not what it says, or too large (M-23)."""

    code = "BAD_COMPRESSION"


class AlgorithmError(MessageError):
    """An algorithm cannot be used."""


class WeakAlgorithmError(AlgorithmError):
    """Deprecated, too short, or not allowed by ``fips_mode`` (M-24)."""

    code = "WEAK_ALGORITHM"


class UnknownAlgorithmError(AlgorithmError):
    """No algorithm of the contract has this name (M-24)."""

    code = "UNKNOWN_ALGORITHM"


class NotAvailableError(AlgorithmError):
    """The libraries at hand lack it; the text says which one has it (M-24)."""

    code = "NOT_AVAILABLE"


class MessageKeyError(MessageError):
    """A key cannot be used; the text names its id."""


class KeyUnavailableError(MessageKeyError):
    """There is no such key, or its provider cannot be reached (M-26)."""

    code = "KEY_UNAVAILABLE"


class AwayError(MessageError):
    """What is needed to judge a received message is away for the moment: it is judged later (S-17)."""

    code = "KEY_UNAVAILABLE"


class KeyRefusedError(MessageKeyError):
    """The provider refuses the key, it is malformed, or not for this use (M-26)."""

    code = "KEY_REFUSED"


class KeyExhaustedError(MessageKeyError):
    """The key was used as often as it may be: rotate it (M-26)."""

    code = "KEY_EXHAUSTED"


class TokenError(MessageError):
    """A token does not verify, or is where none may be (M-27)."""

    code = "BAD_TOKEN"


class SchemaError(MessageError):
    """A schema is missing, is another one, or the payload does not fit it (M-29)."""

    code = "BAD_SCHEMA"


class ClearanceError(MessageError):
    """The message is classified above the reader's clearance (M-28)."""

    code = "NOT_CLEARED"


class BatchError(MessageError):
    """A batch lies about its payloads (M-30)."""

    code = "BAD_BATCH"
