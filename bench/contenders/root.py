"""A private communication directory and a key, as a contender's two processes share them."""

from __future__ import annotations

import base64
import os
from pathlib import Path


def make_root(work: Path) -> tuple[Path, Path]:
    """Make a root and a key file under `work` unless they exist; returns both paths."""
    root, key = work / "root", work / "speed.key"
    root.mkdir(mode=0o700, exist_ok=True)
    if not key.exists():
        descriptor = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(b"SPEED-KEY-V1\n\n" + base64.b64encode(os.urandom(32)) + b"\n")
    return root, key
