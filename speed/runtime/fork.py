"""Fork rules (R-23): a child never shares a sequence, nonce, descriptor, lock or thread with its parent.

The hook is installed before the first node starts, never at import. In the child it closes the parent's
descriptors and marks its nodes; their methods raise ForkedNodeError. A fork waits for imports at first use.

A program's code that forks on a thread of a node must not return there in the child: that thread would answer, finish
and commit what is the parent's. ``ProgramsCode`` ends the child instead.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from typing import NoReturn, Protocol

from speed.core import log
from speed.wire import lazily


class Forkable(Protocol):
    """What the hook needs of a node."""

    def _after_fork_in_child(self) -> None: ...


CHILD_STATUS = 1
_CHILD_ENDS = b"""\
a process that was forked in a service, handler or callback of a SPEED node returned from it, and ends here: \
end such a process with os._exit
"""


class ProgramsCode:
    """A scope for what a program registered, on a thread of a node: a child that was forked in it ends with it."""

    __slots__ = ("_process",)

    def __enter__(self) -> None:
        self._process = os.getpid()

    def __exit__(self, *_: object) -> None:
        if os.getpid() != self._process:
            end_child()


def end_child() -> NoReturn:
    """Say why, and end this process as ``os._exit`` does: nothing of the parent is flushed, told or released."""
    with contextlib.suppress(OSError):
        os.write(2, _CHILD_ENDS)
    os._exit(CHILD_STATUS)


log.exits_pass = lambda: threading.current_thread() is threading.main_thread()

_nodes: weakref.WeakSet[Forkable] = weakref.WeakSet()
_lock = threading.Lock()
_importing = threading.RLock()
_installed = False


def prepare() -> None:
    """Have forks wait for imports from now on: the first thread of a node may begin one before the node is tracked."""
    global _installed
    with _lock:
        if not _installed and hasattr(os, "register_at_fork"):
            lazily.guard = _importing
            os.register_at_fork(before=_importing.acquire, after_in_parent=_importing.release, after_in_child=_in_child)
            _installed = True


def track(node: Forkable) -> None:
    """Have ``node`` told in every forked child."""
    with _lock:
        _nodes.add(node)


def _in_child() -> None:
    global _lock
    _importing.release()
    _lock = threading.Lock()  # another thread of the parent may have held it
    for node in list(_nodes):
        node._after_fork_in_child()
    _nodes.clear()
