"""What may leave a machine of its configuration and its log: never a secret, and nothing that programs printed."""

from __future__ import annotations

import base64
import json
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from speed.errors import ConfigurationError
from speed.wire.text import harmless

REDACTED = "<redacted>"
MAX_CONFIG_BYTES = 1 << 20
MAX_TAIL_BYTES = 1 << 18
MAX_LOG_LINES = 2000
_SECRET = re.compile(
    "secret|passw|passphrase|token|credential|auth|private|api_?key|access_?key|signature|salt", re.IGNORECASE
)
_PLACE = re.compile(r"(_files?|_path|_dir|_seconds|_bytes)$", re.IGNORECASE)
"""Such a setting tells where a secret lies, or how long something takes; not the secret."""
_ENVIRONMENT = re.compile(r"^(env|environ|environment|headers)$", re.IGNORECASE)
_KEY_FILE = re.compile(r"[\w./~$-]+\.[A-Za-z][\w.-]*|/[\w./-]+")
_USER_INFO = re.compile(r"(?<=://)[^/\s@\"']*@")
_QUERY = re.compile(r"(?<=[?&])([^=&\s\"']+)=[^&\s\"']+")
_ASSIGNED = re.compile(r"(?i)([\w.-]*(?:secret|passw|token|credential|api_?key|access_?key)[\w.-]*\s*[=:]\s*)(\S+)")
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]+")
_OPTION = re.compile(r"^-{1,2}[\w-]+$")


def redacted_text(text: str) -> str:
    """``text`` without users of addresses, values of queries, and what is assigned to the name of a secret."""
    text = _USER_INFO.sub(f"{REDACTED}@", text)
    text = _QUERY.sub(rf"\1={REDACTED}", text)
    text = _BEARER.sub(rf"\1 {REDACTED}", text)
    return _ASSIGNED.sub(rf"\1{REDACTED}", text)


def redacted(value: Any, name: str = "") -> Any:
    """A value of a configuration, by its name and what it looks like; tables and lists with all that is in them."""
    if _is_secret(name, value):
        return REDACTED
    if isinstance(value, dict):
        if _ENVIRONMENT.match(name):
            return dict.fromkeys(value, REDACTED)
        return {key: redacted(one, key) for key, one in value.items()}
    if isinstance(value, list):
        return list(_arguments(value, name))
    return redacted_text(value) if isinstance(value, str) else value


def _is_secret(name: str, value: Any) -> bool:
    if isinstance(value, bool) or _PLACE.search(name):
        return False
    if _SECRET.search(name):
        return True
    return (name == "key" or name.endswith("_key")) and isinstance(value, str) and not _KEY_FILE.fullmatch(value)


def _arguments(values: list[Any], name: str) -> Iterator[Any]:
    """Items of a list; of a command line the argument behind an option that names a secret is one."""
    hides_next = False
    for one in values:
        yield REDACTED if hides_next else redacted(one, name)
        hides_next = isinstance(one, str) and bool(_OPTION.match(one)) and bool(_SECRET.search(one))


def configuration(path: str) -> Any:
    """A TOML file without its secrets. ConfigurationError for one that is no such file; OSError."""
    data = _read(path, MAX_CONFIG_BYTES, os.O_RDONLY)
    try:
        return redacted(tomllib.loads(data.decode()))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError):  # whose texts may quote the file
        raise ConfigurationError(f"{path} is no TOML") from None


def log_tail(path: str) -> list[str]:
    """The last lines of a log of speedd, without what its processes printed. OSError."""
    data = _read(path, MAX_TAIL_BYTES, os.O_RDONLY | os.O_NOFOLLOW)
    lines = data.decode("utf-8", "replace").splitlines()[-MAX_LOG_LINES:]
    return list(_own_lines(lines))


def _read(path: str, most: int, flags: int) -> bytes:
    """The last bytes of a regular file. OSError."""
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise FileNotFoundError(2, "no regular file", path)
        file.seek(max(0, status.st_size - most))
        return file.read(most)


def _own_lines(lines: Iterable[str]) -> Iterator[str]:
    """Records of speedd itself: what is no record may be what anybody printed."""
    left_out = 0
    for line in lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict) or record.get("event", "output") == "output":
            left_out += 1
            continue
        yield harmless(redacted_text(line))
    if left_out:
        yield f"({left_out} lines that are not of speedd itself are left out)"


def forms_of(keys: Iterable[bytes]) -> list[bytes]:
    """How a key may stand in a text: as bytes, in hexadecimal digits, in Base64."""
    forms: list[bytes] = []
    for key in keys:
        forms += [key, key.hex().encode(), key.hex().upper().encode()]
        forms += [base64.b64encode(key).rstrip(b"="), base64.urlsafe_b64encode(key).rstrip(b"=")]
    return forms
