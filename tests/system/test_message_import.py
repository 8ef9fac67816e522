"""What importing the message module costs a program that sends no messages."""

from __future__ import annotations

import subprocess
import sys

PROBE = """
import sys, speed.message.view, speed.message.writing
print(sorted({"google.protobuf", "json"} & set(sys.modules)))
"""


def test_importing_the_module_does_not_load_protobuf() -> None:
    """It is loaded at first use: a program that only calls services never pays for protobuf."""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
