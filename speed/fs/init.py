"""A root with its key, made where they are missing: what ``speed init`` does, for programs as well."""

from __future__ import annotations

import os
import secrets

from speed.fs.keyfile import default_key, default_root, ensure_key_file, load_key_file
from speed.fs.root import prepare_root, share_root
from speed.wire.limits import KEY_BYTES


def init_root(root: str | os.PathLike[str] | None = None, key: str | os.PathLike[str] | None = None) -> str:
    """Make a root and its key where they are missing, as ``speed init`` does; the absolute path of the root.

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
    """Make what is missing at these absolute paths, for a group or not: the id of the key, and whether it is new."""
    prepare_root(root)
    if group is not None:
        share_root(root, group)
    made = ensure_key_file(key, (secrets.token_bytes(KEY_BYTES),))
    return load_key_file(key).key_id.hex(), made
