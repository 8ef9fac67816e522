"""Where keys come from, by URI: files, Vault, AWS KMS, Kubernetes. A provider fetches, and keeps nothing (M-26).

``file:///etc/speed/orders.json``       a private file; one record or a list of them
``k8s:///var/run/secrets/orders.json``  the same as a mounted secret, with a warning
``k8s://NAMESPACE/NAME?key_field=FIELD`` a secret by its name (``speed.message.providers``), with a warning
``env://ORDERS_KEYS``                   the same text in the environment
``vault://secret/orders``               KV version 2 of Vault (``speed.message.providers``)
``awskms:///etc/speed/orders.json``     a file whose secrets AWS KMS wrapped (``speed.message.providers``)

The secret's data is one key record, or has a member ``keys``: a list of records, or such a list as JSON text.
Options: ``address`` (default ``$VAULT_ADDR``), ``namespace``, ``auth`` = ``token`` (``$VAULT_TOKEN``), ``approle``
(``$VAULT_ROLE_ID``, ``$VAULT_SECRET_ID``) or ``kubernetes`` (``role``, and the pod's service account token).

The file at PATH holds key records with ``wrapped`` in the place of ``secret``: Base64 of KMS's ciphertext. KMS unwraps
it only in the same encryption context: the key's id and algorithm, and what ``context=name:value,name:value`` adds.
Further options: ``region``, ``endpoint``. Credentials are found as boto3 finds them.

Further options: ``server`` (default ``https://kubernetes.default.svc``), ``token`` and ``ca``, which are files. By
default they are those that Kubernetes mounts for the pod's account, which must be allowed to ``get`` the secret.
"""

from __future__ import annotations

import binascii
import errno
import json
import os
import ssl
import stat
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any, Protocol
from urllib.error import HTTPError
from urllib.parse import ParseResult, parse_qs, quote, unquote, urlparse
from urllib.request import HTTPSHandler, Request, build_opener

from speed.core.log import logger
from speed.errors import ConfigurationError
from speed.fs.open import opened
from speed.message.errors import KeyRefusedError, KeyUnavailableError
from speed.message.keys import MAX_SET_KEYS, MessageKey, check_key_id, generate_key, key_of_record
from speed.message.schemas.registry import NoRedirects
from speed.wire import lazily

# Where keys come from, by URI: a provider fetches one set of keys, and keeps nothing.

log = logger("speed.trust")

MAX_SET_BYTES = 1 << 20

Unwrap = Callable[[dict[str, Any]], dict[str, Any]]
"""Makes a key record of one that a provider wrapped."""


class KeyProvider(Protocol):
    """``fetch`` returns the keys of one set; KeyUnavailableError or KeyRefusedError says what is wrong with which."""

    def fetch(self) -> tuple[MessageKey, ...]: ...


def provider_of(uri: str) -> KeyProvider:
    """The provider of a URI; ConfigurationError for a scheme or an option that does not exist."""
    parsed = urlparse(uri)
    make = _SCHEMES.get(parsed.scheme)
    if make is None:
        raise ConfigurationError(f"no key provider for {parsed.scheme!r}://; there are {', '.join(_SCHEMES)}")
    return make(parsed)


class FileProvider:
    """A file of this user or root, which nobody else may write, and with secrets in it nobody else may read.

    ``read`` makes keys of its content; it is given the path for what it says.
    """

    def __init__(self, path: str, read: Callable[[bytes, str], tuple[MessageKey, ...]] | None = None) -> None:
        self._path, self._read = path, read or parse_set

    def fetch(self) -> tuple[MessageKey, ...]:
        text, mode = read_file(self._path, os.O_NOFOLLOW)
        keys = self._read(text, self._path)
        if mode & 0o022 or (mode & 0o077 and any(key.secret is not None for key in keys)):
            raise KeyRefusedError(f"key set {self._path}: others may read or write it: chmod 600 {self._path}")
        return keys


class MountedSecretProvider:
    """A secret that Kubernetes mounts: links of root's, readable in the pod."""

    def __init__(self, path: str) -> None:
        self._path = path
        log.warning("%s: Kubernetes keeps secrets in Base64, not encrypted by itself; use vault:// or awskms://", path)

    def fetch(self) -> tuple[MessageKey, ...]:
        return parse_set(read_file(self._path, 0)[0], self._path)


class EnvironmentProvider:
    """A variable of this process; every child and every reader of /proc of this user sees it too."""

    def __init__(self, name: str) -> None:
        self._name = name

    def fetch(self) -> tuple[MessageKey, ...]:
        text = os.environ.get(self._name)
        if text is None:
            raise KeyUnavailableError(f"key set env://{self._name}: there is no such variable")
        return parse_set(text.encode(), f"env://{self._name}")


def read_file(path: str, flags: int) -> tuple[bytes, int]:
    """Content and mode of a regular file of this user or root; KeyUnavailableError, KeyRefusedError."""
    try:
        fd = opened(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    except OSError as error:
        raise _unreadable(path, error) from None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_uid not in (os.geteuid(), 0):
            raise KeyRefusedError(f"key set {path}: is no regular file of this user")
        text = os.read(fd, MAX_SET_BYTES + 1)
    except OSError as error:
        raise _unreadable(path, error) from None
    finally:
        os.close(fd)
    return text, status.st_mode


def _unreadable(path: str, error: OSError) -> KeyUnavailableError | KeyRefusedError:
    if error.errno in (errno.EACCES, errno.EPERM, errno.ELOOP):
        return KeyRefusedError(f"key set {path}: {error.strerror}")
    return KeyUnavailableError(f"key set {path}: {error.strerror}")


def parse_set(text: bytes, where: str, unwrap: Unwrap | None = None) -> tuple[MessageKey, ...]:
    """The keys of a JSON text; ``unwrap`` makes a record of one that a provider wrapped."""
    if len(text) > MAX_SET_BYTES:
        raise KeyRefusedError(f"key set {where}: is larger than {MAX_SET_BYTES} bytes")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise KeyRefusedError(f"key set {where}: is not JSON") from None
    return keys_of(found, where, unwrap)


def keys_of(found: Any, where: str, unwrap: Unwrap | None = None) -> tuple[MessageKey, ...]:
    """The keys of one record or a list of records."""
    records = found if isinstance(found, list) else [found]
    if not 0 < len(records) <= MAX_SET_KEYS or not all(isinstance(record, dict) for record in records):
        raise KeyRefusedError(f"key set {where}: is no record nor a list of 1 to {MAX_SET_KEYS}")
    keys = tuple(key_of_record(record if unwrap is None else unwrap(record)) for record in records)
    if len({key.id for key in keys}) != len(keys):
        raise KeyRefusedError(f"key set {where}: a key id stands there twice")
    return keys


def options_of(uri: ParseResult, known: frozenset[str]) -> dict[str, str]:
    """The query of a URI; ConfigurationError for what is unknown or stands twice."""
    found = parse_qs(uri.query, keep_blank_values=True)
    unknown = found.keys() - known
    if unknown or any(len(values) > 1 for values in found.values()):
        wrong = min(unknown) if unknown else "an option twice"
        raise ConfigurationError(f"{uri.scheme}://: does not take {wrong!r}; there are {', '.join(sorted(known))}")
    return {name: values[0] for name, values in found.items()}


def path_of(uri: ParseResult) -> str:
    """The absolute path that a URI names."""
    if uri.netloc or not uri.path.startswith("/"):
        raise ConfigurationError(f"{uri.scheme}:// needs an absolute path, such as {uri.scheme}:///etc/speed/keys.json")
    return unquote(uri.path)


# Keys in HashiCorp Vault: ``vault://MOUNT/PATH``, KV version 2, by ``hvac`` (M-26).

_VAULT_OPTIONS = frozenset({"address", "namespace", "auth", "role", "jwt"})
_POD_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105 - where Kubernetes mounts it
_TIMEOUT_SECONDS = 10


class VaultProvider:
    """One secret of one Vault; it logs in at each fetch, so that no token of Vault's is kept."""

    def __init__(self, mount: str, path: str, options: dict[str, str]) -> None:
        try:
            with lazily.guard:
                import hvac
        except ImportError:
            raise ConfigurationError("vault:// needs hvac: install speed-ipc[vault]") from None
        self._hvac = hvac
        self._mount, self._path, self._options = mount, path, options
        self._log_in = _LOG_IN.get(options.get("auth", "token"))
        if self._log_in is None:
            raise ConfigurationError(f"vault://: auth is {options['auth']!r}; use one of {', '.join(_LOG_IN)}")

    def fetch(self) -> tuple[MessageKey, ...]:
        where = f"vault://{self._mount}/{self._path}"
        assert self._log_in is not None
        try:
            client = self._hvac.Client(
                url=self._options.get("address"), namespace=self._options.get("namespace"), timeout=_TIMEOUT_SECONDS
            )
            self._log_in(client, self._options)
            answer = client.secrets.kv.v2.read_secret_version(
                path=self._path, mount_point=self._mount, raise_on_deleted_version=True
            )
        except self._hvac.exceptions.InvalidPath:
            raise KeyUnavailableError(f"key set {where}: there is no such secret, or it was deleted") from None
        except (self._hvac.exceptions.Forbidden, self._hvac.exceptions.Unauthorized):
            raise KeyRefusedError(f"key set {where}: Vault refuses it to this identity: see its policy") from None
        except (self._hvac.exceptions.VaultError, OSError, ValueError) as error:  # requests' errors are OSErrors
            raise KeyUnavailableError(f"key set {where}: Vault does not answer ({type(error).__name__})") from None
        return _keys(answer["data"]["data"], where)


def vault_provider(uri: ParseResult) -> KeyProvider:
    path = unquote(uri.path).strip("/")
    if not uri.netloc or not path:
        raise ConfigurationError("vault:// needs a mount and a path, such as vault://secret/orders")
    return VaultProvider(uri.netloc, path, options_of(uri, _VAULT_OPTIONS))


def _keys(data: dict[str, Any], where: str) -> tuple[MessageKey, ...]:
    found = data.get("keys", data)
    if isinstance(found, str):
        return parse_set(found.encode(), where)
    return keys_of(found, where)


def _by_token(client: Any, options: dict[str, str]) -> None:
    if not client.token:
        raise KeyRefusedError("vault://: there is no token: set VAULT_TOKEN")


def _by_approle(client: Any, options: dict[str, str]) -> None:
    role, secret = os.environ.get("VAULT_ROLE_ID"), os.environ.get("VAULT_SECRET_ID")
    if not role or not secret:
        raise KeyRefusedError("vault://: auth=approle needs VAULT_ROLE_ID and VAULT_SECRET_ID")
    client.auth.approle.login(role_id=role, secret_id=secret)


def _by_kubernetes(client: Any, options: dict[str, str]) -> None:
    if "role" not in options:
        raise ConfigurationError("vault://: auth=kubernetes needs role=NAME")
    token, _ = read_file(options.get("jwt", _POD_TOKEN), 0)
    client.auth.kubernetes.login(role=options["role"], jwt=token.decode())


_LOG_IN: dict[str, Callable[[Any, dict[str, str]], None]] = {
    "token": _by_token,
    "approle": _by_approle,
    "kubernetes": _by_kubernetes,
}


# Keys that AWS KMS wrapped: ``awskms:///PATH?key=ALIAS``, by ``boto3`` (M-26).

_KMS_OPTIONS = frozenset({"key", "region", "endpoint", "context"})
_REFUSALS = frozenset(
    {"AccessDeniedException", "InvalidCiphertextException", "IncorrectKeyException", "DisabledException"}
)


class KmsProvider:
    """One file of wrapped keys, and the KMS key that wraps them."""

    def __init__(self, path: str, options: dict[str, str]) -> None:
        try:
            with lazily.guard:
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


def kms_provider(uri: ParseResult) -> KeyProvider:
    return KmsProvider(path_of(uri), options_of(uri, _KMS_OPTIONS))


def _context(text: str) -> dict[str, str]:
    pairs = [pair.partition(":") for pair in text.split(",") if pair]
    if not all(name and colon for name, colon, _ in pairs):
        raise ConfigurationError("awskms://: context is name:value,name:value")
    return {name: value for name, _, value in pairs}


_KUBERNETES_OPTIONS = frozenset({"key_field", "server", "token", "ca"})
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_SERVER = "https://kubernetes.default.svc"


class KubernetesProvider:
    """One field of one secret; the pod's token is read at each fetch, since Kubernetes changes it."""

    def __init__(self, namespace: str, name: str, options: dict[str, str]) -> None:
        if "key_field" not in options:
            raise ConfigurationError("k8s://NAMESPACE/NAME needs key_field=FIELD of the secret")
        self._server = options.get("server", _SERVER).rstrip("/")
        if urlparse(self._server).scheme != "https":
            raise ConfigurationError("k8s://: the server must be an https URL: it gives out keys")
        self._namespace, self._name, self._options = namespace, name, options
        log.warning(
            "k8s://%s/%s: Kubernetes keeps secrets in Base64, not encrypted by itself; use vault:// or awskms://",
            namespace,
            name,
        )

    def fetch(self) -> tuple[MessageKey, ...]:
        where = f"k8s://{self._namespace}/{self._name}"
        data = self._ask(where).get("data")
        field_ = self._options["key_field"]
        if not isinstance(data, dict) or not isinstance(data.get(field_), str):
            raise KeyUnavailableError(f"key set {where}: the secret has no field {field_!r}")
        try:
            return parse_set(b64decode(data[field_], validate=True), where)
        except binascii.Error:
            raise KeyRefusedError(f"key set {where}: field {field_!r} is not Base64") from None

    def _ask(self, where: str) -> dict[str, Any]:
        path = f"/api/v1/namespaces/{quote(self._namespace, safe='')}/secrets/{quote(self._name, safe='')}"
        token, _ = read_file(self._options.get("token", f"{_ACCOUNT}/token"), 0)
        headers = {"Authorization": f"Bearer {token.decode().strip()}"}
        request = Request(self._server + path, headers=headers)  # noqa: S310 - https, see above
        try:
            trusted = ssl.create_default_context(cafile=self._options.get("ca", f"{_ACCOUNT}/ca.crt"))
            opener = build_opener(NoRedirects(), HTTPSHandler(context=trusted))
            with opener.open(request, timeout=_TIMEOUT_SECONDS) as answer:
                found = json.loads(answer.read(2 * MAX_SET_BYTES))
        except HTTPError as error:
            if error.code in (401, 403):
                raise KeyRefusedError(f"key set {where}: Kubernetes refuses it to this account: allow `get`") from None
            raise KeyUnavailableError(f"key set {where}: Kubernetes answers {error.code}") from None
        except (OSError, ValueError) as error:
            raise KeyUnavailableError(f"key set {where}: Kubernetes does not answer ({type(error).__name__})") from None
        return found if isinstance(found, dict) else {}


def kubernetes_provider(uri: ParseResult) -> KeyProvider:
    name = unquote(uri.path).strip("/")
    if not name or "/" in name:
        raise ConfigurationError(
            "k8s:// needs a namespace and a name, such as k8s://prism-system/keys?key_field=orders"
        )
    return KubernetesProvider(unquote(uri.netloc), name, options_of(uri, _KUBERNETES_OPTIONS))


_SCHEMES: dict[str, Callable[[ParseResult], KeyProvider]] = {
    "file": lambda uri: FileProvider(path_of(uri)),
    "k8s": lambda uri: kubernetes_provider(uri) if uri.netloc else MountedSecretProvider(path_of(uri)),
    "env": lambda uri: EnvironmentProvider(uri.netloc),
    "vault": vault_provider,
    "awskms": kms_provider,
}
