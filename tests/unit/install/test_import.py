"""``import speed`` is quick: what only commands or nodes need is not imported by it."""

from __future__ import annotations

import subprocess
import sys

LATER = (
    "click",
    "rich",
    "structlog",
    "asyncio",
    "sqlite3",
    "msgpack",
    "google.protobuf",
    "cryptography",
    "numpy",
    "speed._native",
)


def python(program: str) -> str:
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return ended.stdout.strip()


def test_importing_speed_imports_no_library() -> None:
    assert python(f"import sys, speed; print([name for name in {LATER!r} if name in sys.modules])") == "[]"


def test_each_public_name_can_be_had() -> None:
    assert python("import speed; print([n for n in speed.__all__ if getattr(speed, n, None) is None])") == "[]"


def test_making_a_node_imports_no_library_of_the_commands() -> None:
    program = "import sys, speed; speed.Node; print([n for n in ('click', 'rich', 'structlog') if n in sys.modules])"
    assert python(program) == "[]"


def test_a_native_node_starts_without_the_python_engine_and_without_asyncio() -> None:
    program = """
import sys, tempfile, speed
root = speed.init_root(tempfile.mkdtemp() + "/root")
with speed.Node("billing", root=root, engine="native"):
    print([name for name in ("asyncio", "speed.engine.python.lanes", "speed.fs.lane_reader") if name in sys.modules])
"""
    assert python(program) == "[]"
