"""How pip builds SPEED: wheels as scikit-build-core does, an editable installation beside its sources.

``speed/_native….so`` is then compiled in ``build/cpp``, the directory of ``scripts/cpp``: the library is compiled once
for all, and only what changed is compiled again. As a program, this compiles the engine for the Python that runs it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
IS_WANTED = os.environ.get("SPEED_NATIVE") != "0"
BUILD = ROOT / "build" / "cpp"
MISSING = """
*** The native engine of SPEED was not built: see above what is missing. Nodes run in pure Python, with the same files
*** and verbs, and slower. The engine needs a C++20 compiler, the headers of Python, libsodium, sqlite3, msgpack-cxx and
*** nlohmann-json; with OpenSSL 3 it seals faster. SPEED_NATIVE=0 says that it is not wanted.
"""


def compile_engine() -> bool:
    """Compile the engine into ``speed/`` if it is wanted; whether it was done. What is missing is said once."""
    if not IS_WANTED:
        return False
    try:
        for command in commands():
            subprocess.run(command, cwd=ROOT, check=True, stdout=sys.stderr)
    except (OSError, subprocess.CalledProcessError) as error:
        print(error, MISSING, file=sys.stderr)
        return False
    return True


def commands() -> list[list[str]]:
    """Configure, compile, put in place."""
    # Who has built the C++ node here chose what its directory makes; for the engine alone the least will do.
    least = [] if (BUILD / "CMakeCache.txt").exists() else ["-DSPEED_TESTS=OFF", "-DSPEED_MESSAGES=OFF"]
    configure = ["cmake", "-G", "Ninja", "-S", "bindings/cpp", "-B", str(BUILD), f"-DSPEED_PYTHON={sys.executable}"]
    configure += ["-DCMAKE_BUILD_TYPE=RelWithDebInfo"]  # as scripts/cpp does, in the same directory
    jobs = os.environ.get("SPEED_JOBS", "2")
    return [
        [*configure, "--log-level=WARNING", *least],
        ["cmake", "--build", str(BUILD), "--target", "speed_native", "--parallel", jobs],
        ["cmake", "--install", str(BUILD), "--component", "native", "--prefix", str(ROOT)],
    ]


if __name__ == "__main__":
    sys.exit(not compile_engine() and IS_WANTED)

from scikit_build_core import build as _standard  # noqa: E402 -- a program needs none of it
from scikit_build_core.build import (  # noqa: E402
    build_sdist,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
)

get_requires_for_build_editable = get_requires_for_build_wheel  # CMake too, though we start it ourselves


def build_wheel(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """With the engine inside, or a wheel of pure Python where it cannot be built."""
    name = _standard.build_wheel(wheel_directory, config_settings, metadata_directory)
    if IS_WANTED and name.endswith("-none-any.whl"):
        print(MISSING, file=sys.stderr)
    return name


def build_editable(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """The installation points at this directory; the engine lies in it."""
    compile_engine()
    return _standard.build_editable(wheel_directory, config_settings, metadata_directory)


__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
]
