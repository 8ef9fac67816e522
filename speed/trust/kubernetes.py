"""Keys in a secret of Kubernetes: ``k8s://NAMESPACE/NAME?key_field=FIELD``, by the API server of the pod (M-26).

Further options: ``server`` (default ``https://kubernetes.default.svc``), ``token`` and ``ca``, which are files. By
default they are those that Kubernetes mounts for the pod's account, which must be allowed to ``get`` the secret.
"""

from __future__ import annotations

import binascii
import json
import ssl
from base64 import b64decode
from typing import Any
from urllib.error import HTTPError
from urllib.parse import ParseResult, quote, unquote, urlparse
from urllib.request import HTTPSHandler, Request, build_opener

from speed.core.log import logger
from speed.errors import ConfigurationError
from speed.message.errors import KeyRefusedError, KeyUnavailableError
from speed.message.keys import MessageKey
from speed.trust.providers import MAX_SET_BYTES, KeyProvider, options_of, parse_set, read_file
from speed.trust.schemas import NoRedirects

log = logger("speed.trust")

_OPTIONS = frozenset({"key_field", "server", "token", "ca"})
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_SERVER = "https://kubernetes.default.svc"
_TIMEOUT_SECONDS = 10


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
        asked = Request(self._server + path, headers=headers)  # noqa: S310 - https, see above
        try:
            trusted = ssl.create_default_context(cafile=self._options.get("ca", f"{_ACCOUNT}/ca.crt"))
            opener = build_opener(NoRedirects(), HTTPSHandler(context=trusted))
            with opener.open(asked, timeout=_TIMEOUT_SECONDS) as answer:
                found = json.loads(answer.read(2 * MAX_SET_BYTES))
        except HTTPError as error:
            if error.code in (401, 403):
                raise KeyRefusedError(f"key set {where}: Kubernetes refuses it to this account: allow `get`") from None
            raise KeyUnavailableError(f"key set {where}: Kubernetes answers {error.code}") from None
        except (OSError, ValueError) as error:
            raise KeyUnavailableError(f"key set {where}: Kubernetes does not answer ({type(error).__name__})") from None
        return found if isinstance(found, dict) else {}


def provider_of(uri: ParseResult) -> KeyProvider:
    name = unquote(uri.path).strip("/")
    if not name or "/" in name:
        raise ConfigurationError(
            "k8s:// needs a namespace and a name, such as k8s://prism-system/keys?key_field=orders"
        )
    return KubernetesProvider(unquote(uri.netloc), name, options_of(uri, _OPTIONS))
