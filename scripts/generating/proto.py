"""Regenerate speed/message/message_pb2.py from registry_spec/proto/message.proto.

usage: python scripts/generating/proto.py [OUTPUT_DIR]        default: speed/message

Needs grpcio-tools 1.63.x (protoc 26.1, the oldest whose code the supported protobuf runtimes
load), in an environment of its own: python -m venv V && V/bin/pip install grpcio-tools==1.63.0,
then V/bin/python scripts/generating/proto.py.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
PROTO = HERE / "registry_spec" / "proto"
# Descriptor pools are shared by a whole process and refuse two files of one name: "message.proto" alone would
# clash with an application's own.
VIRTUAL = "speed/message/v1"
PREFIX = "# mypy: ignore-errors\n# ruff: noqa\n"


def main() -> int:
    """Run protoc, then mark the file as generated for the checkers. Returns protoc's exit status."""
    from importlib.resources import files

    from grpc_tools import protoc

    target = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "speed" / "message"
    well_known = str(files("grpc_tools") / "_proto")
    with tempfile.TemporaryDirectory() as scratch:
        paths = [f"-I{VIRTUAL}={PROTO}", f"-I{well_known}", f"--python_out={scratch}"]
        status = protoc.main(["protoc", *paths, f"{VIRTUAL}/message.proto"])
        if status == 0:
            generated = Path(scratch) / VIRTUAL / "message_pb2.py"
            (target / "message_pb2.py").write_text(PREFIX + generated.read_text())
    return int(status)


if __name__ == "__main__":
    raise SystemExit(main())
