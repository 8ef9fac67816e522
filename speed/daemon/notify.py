"""The systemd notification protocol (sd_notify), without libsystemd."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping


class ServiceNotifier:
    """Tells the service manager about this process; silent where there is none."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        """Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID of ``environment`` (default: the process's)."""
        env = os.environ if environment is None else environment
        self._address = env.get("NOTIFY_SOCKET", "")
        self.watchdog_seconds = self._watchdog(env)

    @staticmethod
    def _watchdog(env: Mapping[str, str]) -> float | None:
        """Seconds between two signs of life: half of what the manager allows; None when it expects none."""
        usec, pid = env.get("WATCHDOG_USEC", ""), env.get("WATCHDOG_PID", "")
        if not usec.isdigit() or not int(usec) or (pid and pid != str(os.getpid())):
            return None
        return int(usec) / 2e6

    def ready(self, status: str) -> None:
        """Start-up is over."""
        self._send(f"READY=1\nSTATUS={status}\nMAINPID={os.getpid()}")

    def reloading(self) -> None:
        """A reload begins; ``ready`` ends it."""
        self._send("RELOADING=1")

    def stopping(self) -> None:
        """Shutdown begins."""
        self._send("STOPPING=1")

    def alive(self) -> None:
        """A sign of life for the watchdog."""
        self._send("WATCHDOG=1")

    def _send(self, text: str) -> None:
        if not self._address:
            return
        # A leading @ means the abstract namespace, whose addresses begin with a zero byte.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.setblocking(False)
                sock.sendto(text.encode(), address)
        except OSError:
            pass  # a manager that cannot be reached must not stop the service
