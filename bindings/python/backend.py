"""How pip builds SPEED: wheels as scikit-build-core does, an editable installation beside its sources.

``speed/_native….so`` is then compiled in ``build/cpp``, the directory of ``scripts/cpp``: the library is compiled once
for all, and only what changed is compiled again. As a program, this compiles the engine for the Python that runs it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
IS_WANTED = os.environ.get("SPEED_NATIVE") != "0"
BUILD = ROOT / "build" / "cpp"
FOUND_ANEW = ("Python", "FIND_PACKAGE_MESSAGE_DETAILS_Python", "nanobind_", "NB_")
"""What CMake keeps of a Python and of nanobind begins so."""
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
    if IS_WANTED:
        say("compiling the native engine: minutes the first time, SPEED_NATIVE=0 leaves it out")
        keep_objects(config_settings or {})
    name = _standard.build_wheel(wheel_directory, config_settings, metadata_directory)
    if IS_WANTED and name.endswith("-none-any.whl"):
        print(MISSING, file=sys.stderr)
    return name


def say(text: str) -> None:
    """One line on the terminal: pip shows nothing of what a build prints."""
    try:
        with open("/dev/tty", "w", encoding="utf-8") as terminal:
            terminal.write(f"speed-ipc: {text}\n")
    except OSError:
        print(text, file=sys.stderr)


def keep_objects(settings: dict[str, Any]) -> None:
    """Have the build find what the one before compiled, though pip gives each a new environment.

    scikit-build-core empties a build directory that another copy of it made, and what is compiled names the place of
    nanobind: so nanobind gets a place that stays, and the directory of a build by the same version is taken over.
    """
    import nanobind
    import scikit_build_core

    place = ROOT / "build" / f"nanobind-{nanobind.__version__}"
    if not place.is_dir():
        with tempfile.TemporaryDirectory(dir=_made(place.parent)) as partial:
            shutil.copytree(Path(nanobind.__file__).parent, f"{partial}/nanobind")
            with contextlib.suppress(OSError):  # another build was quicker
                os.rename(f"{partial}/nanobind", place)
    os.environ["SPEED_NANOBIND"] = str(place)
    asked = settings.get("build-dir", "build/wheel/*")
    for directory in ROOT.glob(str(asked)) if not os.path.isabs(asked) else [Path(asked)]:
        _take_over(directory, Path(scikit_build_core.__file__).resolve().parent, scikit_build_core.__version__)


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _take_over(directory: Path, package: Path, version: str) -> None:
    """Say that this scikit-build-core made the directory; CMake looks for Python and nanobind anew."""
    said, cache = directory / ".skbuild-info.json", directory / "CMakeCache.txt"
    try:
        info = json.loads(said.read_text("utf-8"))
        if info["skbuild_version"] != version or info["skbuild_path"] == str(package):
            return
        lines = cache.read_text("utf-8").splitlines(keepends=True)
    except (OSError, ValueError, KeyError):
        return
    kept = (line for line in lines if not line.lstrip("_").startswith(("//", *FOUND_ANEW)))  # comments need an entry
    cache.write_text("".join(kept), "utf-8")
    said.write_text(json.dumps({**info, "skbuild_path": str(package)}), "utf-8")


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
