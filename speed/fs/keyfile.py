"""Reading and writing key files, where root and key are looked for (W-14), and keys that change (W-20)."""

from __future__ import annotations

import os
import secrets
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from speed.errors import KeyFileError, WireError
from speed.fs.identity import try_lock
from speed.fs.open import (
    ensure_directory,
    is_groups,
    open_directory,
    opened,
    replace_file,
    sync_directory,
    unlink_quietly,
    write_all,
)
from speed.fs.root import (
    UntrustedPathError,
    ensure_observers,
    followed,
    is_group_root,
    is_private,
    prepare_root,
    share_root,
)
from speed.wire import names
from speed.wire.identities import (
    STATEMENT_BYTES,
    KnownIdentity,
    NodeIdentity,
    Statement,
    format_identity_file,
    parse_identity_file,
    read_statement,
)
from speed.wire.limits import KEY_BYTES
from speed.wire.seal import Keyring, format_key_file, parse_key_file

LOCK_SECONDS = 10.0
"""How long a change of the file by another process is waited for."""
_MAX_BYTES = 4096
_MAX_KNOWN_BYTES = 1 << 20


def default_root() -> str:
    """``$SPEED_ROOT``, else a directory of this user that ends with the session or boot."""
    configured = os.environ.get("SPEED_ROOT")
    if configured:
        return configured
    session = os.environ.get("XDG_RUNTIME_DIR")
    if session and is_private(session):
        return names.child_path(session, "speed")
    return names.child_path("/dev/shm" if os.path.isdir("/dev/shm") else "/tmp", f"speed-{os.geteuid()}")


def default_key(root: str) -> str:
    """``$SPEED_KEY``, else the credential ``speed.key`` that systemd gave this process, else ``<root>/speed.key``."""
    configured = os.environ.get("SPEED_KEY")
    if configured:
        return configured
    credentials = os.environ.get("CREDENTIALS_DIRECTORY")
    given = names.default_key_path(credentials) if credentials else ""
    return given if given and os.path.lexists(given) else names.default_key_path(root)


def read_keys(path: str) -> tuple[bytes, ...]:
    """The keys in the file at ``path``; KeyFileError says what is wrong with it and what to do."""
    return parse_key_file(_secret_text(path, _check_private))


def read_identity(path: str) -> NodeIdentity:
    """The identity in the file at ``path``, which nobody else may read (I-2); KeyFileError as above."""

    def check(fd: int, path: str, _: str) -> None:
        _check_private(fd, path, "")
        if os.fstat(fd).st_mode & 0o040:
            raise KeyFileError(f"a group can read {path}, and an identity is of one node: run `chmod 600 {path}`")

    return parse_identity_file(_secret_text(path, check))


def _secret_text(path: str, check: Callable[[int, str, str], None], limit: int = _MAX_BYTES) -> bytes:
    try:
        place = followed(path)
        fd = opened(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except UntrustedPathError as error:
        raise KeyFileError(error.with_cure("use a key file of your own, elsewhere")) from None
    except FileNotFoundError:
        raise KeyFileError(f"there is no key file {path}: make one with `speed root init` or `speed key new`") from None
    except OSError as error:
        raise KeyFileError(f"cannot read the key file {path}: {error.strerror}") from None
    try:
        check(fd, path, os.path.dirname(place))
        text = os.read(fd, limit + 1)
    except OSError as error:
        raise KeyFileError(f"cannot read the key file {path}: {error.strerror}") from None
    finally:
        os.close(fd)
    if len(text) > limit:
        raise KeyFileError(f"{path} is too large for a key file: make one with `speed key new`")
    return text


def load_key_file(path: str) -> Keyring:
    """The keyring of the file at ``path``."""
    return Keyring(read_keys(path))


def _check_private(fd: int, path: str, directory: str) -> None:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise KeyFileError(f"{path} is no regular file: name the file that `speed root init` or `speed key new` made")
    if status.st_uid not in (os.geteuid(), 0):
        raise KeyFileError(f"{path} belongs to another user (uid {status.st_uid}): use a key file of your own")
    if status.st_mode & 0o037 or (status.st_mode & 0o040 and not _is_own_group(status, directory)):
        raise KeyFileError(f"others can reach {path}: run `chmod 600 {path}`, and rotate the key if they may have")


def _is_own_group(status: os.stat_result, directory: str) -> bool:
    """Whether this user is in the group of a file. Root chose the readers of its own group, and a root's."""
    if status.st_uid == status.st_gid == 0 or status.st_gid in (os.getegid(), *os.getgroups()):
        return True
    return os.geteuid() == 0 and is_groups(directory) and os.stat(directory).st_gid == status.st_gid


def write_key_file(path: str, keys: tuple[bytes, ...], *, replace: bool = False) -> None:
    """Write a private key file; KeyFileError if there is one already and ``replace`` is not said."""
    if replace:
        with alone_with(path) as target:
            _put(target, format_key_file(keys))
    elif not ensure_key_file(path, keys):
        raise KeyFileError(f"{path} exists already: keep it, or `speed key rotate`")


def ensure_key_file(path: str, keys: tuple[bytes, ...]) -> bool:
    """Write a private key file unless there is one; whether it was written."""
    return _ensure(path, format_key_file(keys))


def _ensure(path: str, text: bytes) -> bool:
    if os.path.lexists(path):
        return False
    with alone_with(path) as target:
        if os.path.lexists(path):
            return False
        _put(target, text)
        return True


def write_identity(path: str, identity: NodeIdentity) -> None:
    """Write a new private identity file; KeyFileError if there is a file already."""
    if not _ensure(path, format_identity_file(identity)):
        raise KeyFileError(f"{path} exists already: keep it, or `speed key identity renew`")


def change_identity(path: str, change: Callable[[NodeIdentity], NodeIdentity]) -> NodeIdentity:
    """Replace an identity by what ``change`` makes of it, and return that."""
    with alone_with(path) as target:
        changed = change(read_identity(path))
        _put(target, format_identity_file(changed))
    return changed


def change_key_file(path: str, change: Callable[[tuple[bytes, ...]], tuple[bytes, ...]]) -> None:
    """Replace the keys by what ``change`` makes of them; nothing is changed by others in between."""
    with alone_with(path) as target:
        _put(target, format_key_file(change(read_keys(path))))


@contextmanager
def alone_with(path: str) -> Iterator[str]:
    """The file that ``path`` leads to, while no other process changes it."""
    target = os.path.realpath(path)
    try:
        lock = try_lock(names.lock_path(target), LOCK_SECONDS)
    except OSError as error:
        raise KeyFileError(f"cannot write {path}: {error.strerror}: make room, or name another place") from None
    if lock is None:
        raise KeyFileError(f"another process changes {path}: try again when it is done")
    try:
        yield target
    finally:
        lock.release()


def _give_rights(fd: int, path: str) -> None:
    """Those of the file before: a group goes on reading it. A first one in the root of a group is its group's."""
    try:
        before = os.stat(path)
    except FileNotFoundError:
        if is_group_root(os.path.dirname(path)):
            os.fchmod(fd, 0o640)
        return
    if before.st_mode & 0o040:
        os.fchown(fd, -1, before.st_gid)
        os.fchmod(fd, 0o640)


def _put(path: str, text: bytes) -> None:
    """Write beside and rename: the file is whole at every moment. What a killed process left is taken away."""
    temporary = names.replacement_path(path)
    unlink_quietly(temporary)
    try:
        fd = opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            _give_rights(fd, path)
            write_all(fd, text)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, path)
        sync_directory(os.path.dirname(path))
    except OSError as error:
        unlink_quietly(temporary)
        raise KeyFileError(f"cannot write {path}: {error.strerror}: make room, or name another place") from None


# The key file of a running node: looked at again, and its keys taken, while the node goes on (W-20).

PAUSE_SECONDS = 1.0
"""Between two looks that others can bring about: a stranger names as many keys as it likes."""


class KeySource:
    """A key file, and the keyring that follows it. Thread-safe. KeyFileError if the file is not sound at first."""

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)
        self._lock = threading.Lock()
        self._next = 0.0
        self.keyring = load_key_file(self._path)
        self.keyring.look = self.look_soon

    def look(self) -> KeyFileError | None:
        """Take the keys that are in the file now; what is wrong with it, if the keys of before go on."""
        with self._lock:
            self._next = monotonic() + PAUSE_SECONDS
            try:
                self.keyring.take(read_keys(self._path))
            except KeyFileError as error:
                return error
        return None

    def look_soon(self) -> None:
        """The same, unless somebody looked just before."""
        if monotonic() >= self._next:
            self.look()


class IdentitySource:
    """An identity file, and the identity that follows it. Thread-safe. KeyFileError if it is not sound at first."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.now = read_identity(self.path)
        """Another object once its exchange keys or owners are others."""

    def look(self) -> KeyFileError | None:
        """Take what is in the file now; what is wrong with it, if what was read before goes on.

        Another seed is another identity, which takes another life of the node.
        """
        try:
            found = read_identity(self.path)
        except KeyFileError as error:
            return error
        if found.fingerprint != self.now.fingerprint:
            return KeyFileError(f"{self.path} has another identity: start the node anew for it")
        if (found.exchanges, found.owners) != (self.now.exchanges, self.now.owners):
            self.now = found
        return None


# What a node with an identity knows of others: what owners state, and what it remembers (I-6, I-7).

MAX_KNOWN = 4096
"""Names that are remembered; a name beyond is not accepted at first use."""
_KNOWN_LINE = "SPEED-KNOWN-V1"


def statement_of(root: str, name: str, owners: tuple[str, ...]) -> Statement | None:
    """What one of these owners states of a name; None for nothing, or for what none of them signed."""
    try:
        fd = opened(names.statement_path(root, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return read_statement(os.read(fd, STATEMENT_BYTES + 1), names.node_id(name), owners)
    except (OSError, WireError):
        return None
    finally:
        os.close(fd)


def write_statement(root: str, name: str, statement: bytes) -> None:
    """Put a statement of an owner in its place. OSError."""
    directory = names.statements_dir(root)
    ensure_directory(directory)
    fd = open_directory(directory)
    try:
        os.close(replace_file(name, statement, fd))
    finally:
        os.close(fd)


class KnownIdentities:
    """Names and their identities, in a file beside that of the own one. Thread-safe. KeyFileError.

    Lines of ``name fingerprint issued``, and ``revoked`` behind those that are.
    """

    def __init__(self, path: str) -> None:
        self.path = names.known_path(path)
        self._lock = threading.Lock()
        self._known = self._read() if os.path.lexists(self.path) else {}

    def _read(self) -> dict[str, KnownIdentity]:
        text = _secret_text(self.path, _check_private, _MAX_KNOWN_BYTES).decode("ascii", "replace")
        first, *lines = text.splitlines()
        try:
            rows = [_known_row(line) for line in lines if line]
        except ValueError:
            rows, first = [], ""
        if first != _KNOWN_LINE:
            raise KeyFileError(f"{self.path} was damaged: restore it, or remove it to meet all nodes anew")
        return dict(rows)

    def of(self, name: str) -> KnownIdentity | None:
        return self._known.get(name)

    def all(self) -> dict[str, KnownIdentity]:
        return dict(self._known)

    def remember(self, name: str, known: KnownIdentity) -> bool:
        """On disk when this returns; False if too many are known already."""
        with self._lock:
            if name not in self._known and len(self._known) >= MAX_KNOWN:
                return False
            if self._known.get(name) != known:
                self._write({**self._known, name: known})
            return True

    def forget(self, name: str) -> bool:
        """Whether the name was known."""
        with self._lock:
            if name not in self._known:
                return False
            self._write({other: one for other, one in self._known.items() if other != name})
            return True

    def _write(self, known: dict[str, KnownIdentity]) -> None:
        rows = [f"{name} {one.fingerprint} {one.issued}{' revoked' * one.is_revoked}" for name, one in known.items()]
        with alone_with(self.path) as target:
            _put(target, ("\n".join([_KNOWN_LINE, *rows]) + "\n").encode())
        self._known = known


def _known_row(line: str) -> tuple[str, KnownIdentity]:
    """ValueError."""
    name, fingerprint, issued, *revoked = line.split(" ")
    if not (names.is_node_name(name) and names.is_fingerprint(fingerprint) and revoked in ([], ["revoked"])):
        raise ValueError(line)
    return name, KnownIdentity(fingerprint, int(issued), bool(revoked))


def init_root(root: str | os.PathLike[str] | None = None, key: str | os.PathLike[str] | None = None) -> str:
    """Make a root and its key where they are missing, as ``speed root init`` does; the absolute path of the root.

    Safe to call again, and from many processes at once: what is there is checked and kept.

    Args:
        root: the directory; default ``$SPEED_ROOT``, else a directory of this user. Nodes are given the same one.
        key: the key file; default ``$SPEED_KEY``, else ``<root>/speed.key``.

    Raises:
        RootError: the directory cannot be made, or others than this user can change it.
        KeyFileError: the key file cannot be written, is damaged, or others can reach it.

    Both are on disk when this returns. Thread-safe.

    Example:
        >>> root = speed.init_root("/dev/shm/shop")
        >>> billing = speed.Node("billing", root=root)
    """
    path = os.path.abspath(os.fspath(root) if root is not None else default_root())
    make_root(path, os.path.abspath(os.fspath(key) if key is not None else default_key(path)))
    return path


def make_root(root: str, key: str, group: int | None = None) -> tuple[str, bool]:
    """Make what is missing at these absolute paths, for a group or not: the id of the key, and whether it is new.

    Who owns the root also lets speedd and the operator's commands look at all nodes, unless something else is said.
    """
    prepare_root(root)
    if group is not None:
        share_root(root, group)
    ensure_observers(root)
    made = ensure_key_file(key, (secrets.token_bytes(KEY_BYTES),))
    return load_key_file(key).key_id.hex(), made
