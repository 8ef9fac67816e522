"""Keys that AWS KMS wrapped: ``awskms:///PATH?key=ALIAS``, by ``boto3`` (M-26).

The file at PATH holds key records with ``wrapped`` in the place of ``secret``: Base64 of KMS's ciphertext. KMS unwraps
it only in the same encryption context: the key's id and algorithm, and what ``context=name:value,name:value`` adds.
Further options: ``region``, ``endpoint``. Credentials are found as boto3 finds them.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any
from urllib.parse import ParseResult

from speed.errors import ConfigurationError
from speed.message.errors import KeyRefusedError, KeyUnavailableError
from speed.message.keys import MessageKey, check_key_id, generate_key
from speed.trust.providers import KeyProvider, options_of, parse_set, path_of, read_file

_OPTIONS = frozenset({"key", "region", "endpoint", "context"})
_REFUSALS = frozenset(
    {"AccessDeniedException", "InvalidCiphertextException", "IncorrectKeyException", "DisabledException"}
)


class KmsProvider:
    """One file of wrapped keys, and the KMS key that wraps them."""

    def __init__(self, path: str, options: dict[str, str]) -> None:
        try:
            import boto3
            import botocore
        except ImportError:
            raise ConfigurationError("awskms:// needs boto3: install speed-ipc[aws]") from None
        if "key" not in options:
            raise ConfigurationError("awskms:// needs key=ALIAS-OR-ARN of the KMS key")
        self._path, self._master = path, options["key"]
        self._context = _context(options.get("context", ""))
        self._errors = botocore.exceptions
        config = botocore.config.Config(connect_timeout=5, read_timeout=10, retries={"max_attempts": 2})
        self._client: Any = boto3.client(
            "kms", region_name=options.get("region"), endpoint_url=options.get("endpoint"), config=config
        )

    def fetch(self) -> tuple[MessageKey, ...]:
        text, _ = read_file(self._path, 0)
        return parse_set(text, self._path, self._unwrapped)

    def make(self, key_id: str, algorithm: str, **bounds: Any) -> dict[str, Any]:
        """A new record to be put into the file. A secret of 32 bytes is a data key that KMS made and kept to itself."""
        record = generate_key(key_id, algorithm, **bounds).to_record()
        context = self._bound_to(record)
        if len(b64decode(record["secret"])) == 32:
            made = self._ask(
                "generate_data_key_without_plaintext", key_id, EncryptionContext=context, KeySpec="AES_256"
            )
        else:
            plain = b64decode(record["secret"])
            made = self._ask("encrypt", key_id, EncryptionContext=context, Plaintext=plain)
        del record["secret"]
        return {**record, "wrapped": b64encode(made["CiphertextBlob"]).decode()}

    def _unwrapped(self, record: dict[str, Any]) -> dict[str, Any]:
        if "wrapped" not in record:
            return record
        key_id = check_key_id(record.get("id", ""))
        try:
            blob = b64decode(record["wrapped"], validate=True)
        except (ValueError, TypeError):
            raise KeyRefusedError(f"key {key_id!r}: wrapped is not Base64") from None
        answer = self._ask("decrypt", key_id, EncryptionContext=self._bound_to(record), CiphertextBlob=blob)
        rest = {name: value for name, value in record.items() if name != "wrapped"}
        return {**rest, "secret": b64encode(answer["Plaintext"]).decode()}

    def _bound_to(self, record: dict[str, Any]) -> dict[str, str]:
        return {**self._context, "speed-key-id": record["id"], "speed-algorithm": str(record.get("algorithm"))}

    def _ask(self, operation: str, key_id: str, **arguments: Any) -> dict[str, Any]:
        """One request; an error names our key id and KMS's reason, never a ciphertext."""
        try:
            answer: dict[str, Any] = getattr(self._client, operation)(KeyId=self._master, **arguments)
        except self._errors.ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            kind = KeyRefusedError if code in _REFUSALS else KeyUnavailableError
            raise kind(f"key {key_id!r}: KMS says {code} under {self._master}") from None
        except self._errors.BotoCoreError as error:
            raise KeyUnavailableError(f"key {key_id!r}: KMS does not answer ({type(error).__name__})") from None
        return answer


def provider_of(uri: ParseResult) -> KeyProvider:
    return KmsProvider(path_of(uri), options_of(uri, _OPTIONS))


def _context(text: str) -> dict[str, str]:
    pairs = [pair.partition(":") for pair in text.split(",") if pair]
    if not all(name and colon for name, colon, _ in pairs):
        raise ConfigurationError("awskms://: context is name:value,name:value")
    return {name: value for name, _, value in pairs}
