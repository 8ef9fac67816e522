"""The Python of Spark's workers, where they run on the driver's machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from speed.errors import ConfigurationError

_SECONDS = 60.0
"""For an interpreter to start and import pyarrow; one that takes longer is left to Spark."""


def check_interpreter(master: str, python: str) -> None:
    """Say before a job what the workers of a local master lack: Spark's own error does not say where, nor what to do.

    Workers run ``python``, by default the ``python3`` of the PATH. In a program that was started by its environment's
    interpreter without activating it, that is another one.

    Raises ConfigurationError.
    """
    found = shutil.which(python)
    if not master.startswith("local") or found is None or _is_this(found):
        return
    try:
        run = subprocess.run([found, "-c", "import pyarrow"], check=False, capture_output=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return
    if run.returncode != 0:
        raise ConfigurationError(
            f"the Python of Spark's workers, {found}, cannot import pyarrow: set PYSPARK_PYTHON to one that can, "
            f"such as {sys.executable}, before the session starts"
        )


def _is_this(python: str) -> bool:
    """Whether it lies beside the interpreter that runs: links of a virtual environment are not followed."""
    return os.path.dirname(os.path.abspath(python)) == os.path.dirname(os.path.abspath(sys.executable))
