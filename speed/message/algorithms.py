"""What the contract knows of protection: algorithms (M-17, M-19, M-24), FIPS 140-3, who may see what (M-28).

A test holds the tables to ``registry_spec/algorithms.json``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from speed.errors import ConfigurationError
from speed.message.errors import ClearanceError, NotEncryptedError, UnknownAlgorithmError, WeakAlgorithmError
from speed.message.view import MessageView
from speed.wire import lazily

SYMMETRIC, ASYMMETRIC, POST_QUANTUM, HYBRID = 1, 2, 3, 4
AES, CHACHA = "aes-256-gcm", "chacha20-poly1305"
ED25519, HMAC = "ed25519", "hmac-sha256"

IV_BYTES: Final = 12
TAG_BYTES: Final = 16
DATA_KEY_BYTES: Final = 32
WRAPPED_KEY_BYTES: Final = DATA_KEY_BYTES + TAG_BYTES
MAX_RECIPIENTS: Final = 64
MIN_RSA_BITS: Final = 3072
MAX_KEY_ID_BYTES: Final = 128
MAX_KEY_USES: Final = 1 << 32
MAX_BATCH_PAYLOADS: Final = 65536
FUTURE_TOLERANCE_MS: Final = 300_000


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One row. Lengths in bytes; 0 for none, None where the key's own structure says it."""

    name: str
    type: int
    """EncryptionType of the contract; 0 for signatures."""
    cipher: str
    output: int
    """Length of the encapsulated key, or of the signature."""
    secret: int | None
    public: int | None
    strict: bool
    """Whether NIST approves it (``fips_mode="strict"``)."""

    @property
    def is_symmetric(self) -> bool:
        """Whether one key both makes and reads."""
        return self.public == 0

    @property
    def is_signature(self) -> bool:
        return self.type == 0


ALGORITHMS: Final = {
    row.name: row
    for row in (
        Algorithm(AES, SYMMETRIC, AES, 32, 32, 0, strict=True),
        Algorithm(CHACHA, SYMMETRIC, CHACHA, 32, 32, 0, strict=False),
        Algorithm("rsa-oaep-3072", ASYMMETRIC, AES, 384, None, None, strict=True),
        Algorithm("rsa-oaep-4096", ASYMMETRIC, AES, 512, None, None, strict=True),
        Algorithm("x25519-chacha20-poly1305", ASYMMETRIC, CHACHA, 32, 32, 32, strict=False),
        Algorithm("ml-kem-768", POST_QUANTUM, AES, 1088, 64, 1184, strict=True),
        Algorithm("ml-kem-1024", POST_QUANTUM, AES, 1568, 64, 1568, strict=True),
        Algorithm("x25519-ml-kem-1024", HYBRID, AES, 1600, 96, 1600, strict=True),
        Algorithm("x-wing", HYBRID, AES, 1120, 32, 1216, strict=False),
        Algorithm(ED25519, 0, "", 64, 32, 32, strict=True),
        Algorithm(HMAC, 0, "", 32, 32, 0, strict=True),
    )
}
ALIASES: Final = {
    "kyber768": "ml-kem-768",
    "kyber1024": "ml-kem-1024",
    "x25519-kyber1024": "x25519-ml-kem-1024",
    "rsa4096-kyber768": "x25519-ml-kem-1024",
}
REFUSED: Final = frozenset(
    [
        *("aes-128-gcm", "rsa-oaep-1024", "rsa-oaep-2048", "rsa-2048", "rsa-oaep-sha1", "rsa-pkcs1"),
        *("3des", "des", "rc4", "md5", "sha-1", "hmac-md5", "hmac-sha1"),
    ]
)
FIPS_MODES: Final = ("off", "rfc", "strict")


def algorithm_of(name: str, fips_mode: str = "off") -> Algorithm:
    """The algorithm called ``name``, or by an alias of it.

    Raises WeakAlgorithmError and UnknownAlgorithmError (M-24). All algorithms here are in the table of ``rfc``.
    """
    wanted = name.lower() if name.isascii() else name  # of other alphabets, some letters have lower ones in ASCII
    if wanted in REFUSED:
        raise WeakAlgorithmError(
            f"{wanted} is deprecated or too weak, and no setting allows it: use x-wing, aes-256-gcm or ed25519"
        )
    found = ALGORITHMS.get(ALIASES.get(wanted, wanted))
    if found is None:
        raise UnknownAlgorithmError(f"no algorithm is called {name[:64]!r}; there are {', '.join(ALGORITHMS)}")
    if fips_mode == "strict" and not found.strict:
        raise WeakAlgorithmError(f"{found.name} is not approved by NIST, and fips_mode is strict")
    return found


def check_signature_algorithm(security: Any, fips_mode: str = "off") -> None:
    """What a SecurityContext says it is signed with, whoever looks at the signature (M-24)."""
    if security.signature_algorithm:
        algorithm_of(security.signature_algorithm, fips_mode)


# What can be known of FIPS 140-3 from inside a program (M-24): two things that are not one.


class FipsReport(NamedTuple):
    """``provider_enabled`` is what OpenSSL says; ``module_validated`` is never known from here."""

    mode: str
    provider_enabled: bool | None
    module_validated: str
    openssl: str
    allowed: tuple[str, ...]


def check_fips_mode(mode: str) -> str:
    """``mode`` if it exists; ConfigurationError otherwise."""
    if mode not in FIPS_MODES:
        raise ConfigurationError(f"fips_mode is {mode!r}; use one of {', '.join(FIPS_MODES)}")
    return mode


def fips_report(mode: str) -> FipsReport:
    """What ``mode`` allows here, and what the library says of itself."""
    with lazily.guard:
        from cryptography.hazmat.backends.openssl.backend import backend

    allowed = tuple(name for name, row in ALGORITHMS.items() if row.strict or mode != "strict")
    return FipsReport(
        check_fips_mode(mode),
        getattr(backend, "_fips_enabled", None),
        "not known from here: compare the module's build with its certificate of the CMVP",
        backend.openssl_version_text(),
        allowed,
    )


# Who may see what: classification and clearance (M-28).

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
