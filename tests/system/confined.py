"""Commands on filesystems of their own, and without the rights of root: by namespaces and capabilities of Linux.

Where the machine refuses them, the command fails and says so, and with it the test.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.system.commands import PATIENCE, Command, Result

IS_ROOT = os.geteuid() == 0
MOUNTING = ["unshare", "--mount", *["--user", "--map-root-user"] * (not IS_ROOT)]
PLAIN_USER = ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner", "--inh-caps=-all"] if IS_ROOT else []
"""Modes of files hold for root only without these capabilities."""


def on_a_mount(run: Command, place: Path, options: str, script: str) -> Result:
    """What a shell script prints with a tmpfs of its own at ``place``."""
    place.mkdir(exist_ok=True)
    mounted = f"set -e; mount -t tmpfs -o mode=0700,{options} none {place}; {script}"
    return _run(run, [*MOUNTING, "sh", "-c", mounted])


def as_plain_user(run: Command, *words: str) -> Result:
    """A command of `speed` to which modes of files apply."""
    return _run(run, [*PLAIN_USER, *run.command(*words)])


def _run(run: Command, words: list[str]) -> Result:
    return Result(
        subprocess.run(words, env=run.environment, capture_output=True, text=True, check=False, timeout=PATIENCE)
    )
