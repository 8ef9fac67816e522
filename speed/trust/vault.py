"""Keys in HashiCorp Vault: ``vault://MOUNT/PATH``, KV version 2, by ``hvac`` (M-26).

The secret's data is one key record, or has a member ``keys``: a list of records, or such a list as JSON text.
Options: ``address`` (default ``$VAULT_ADDR``), ``namespace``, ``auth`` = ``token`` (``$VAULT_TOKEN``), ``approle``
(``$VAULT_ROLE_ID``, ``$VAULT_SECRET_ID``) or ``kubernetes`` (``role``, and the pod's service account token).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any
from urllib.parse import ParseResult, unquote

from speed.errors import ConfigurationError
from speed.message.errors import KeyRefusedError, KeyUnavailableError
from speed.message.keys import MessageKey
from speed.trust.providers import KeyProvider, keys_of, options_of, parse_set, read_file

_OPTIONS = frozenset({"address", "namespace", "auth", "role", "jwt"})
_POD_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105 - where Kubernetes mounts it
_TIMEOUT_SECONDS = 10


class VaultProvider:
    """One secret of one Vault; it logs in at each fetch, so that no token of Vault's is kept."""

    def __init__(self, mount: str, path: str, options: dict[str, str]) -> None:
        try:
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


def provider_of(uri: ParseResult) -> KeyProvider:
    path = unquote(uri.path).strip("/")
    if not uri.netloc or not path:
        raise ConfigurationError("vault:// needs a mount and a path, such as vault://secret/orders")
    return VaultProvider(uri.netloc, path, options_of(uri, _OPTIONS))


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
