"""Every contender: its name on the command line, what it can do, and how its two processes are started."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

BUILT = Path(__file__).resolve().parents[3] / "build" / "bench"
NODE_CLASSES = BUILT.parents[1] / "bindings" / "java" / "target"
BUILD = "scripts/bench/build"

Command = Callable[[str, Path], list[str]]
"""(role, work directory) -> what to execute."""


def python(module: str) -> Command:
    return lambda role, work: [sys.executable, "-m", "contenders.process", role, module, str(work)]


def built(program: str, *kind: str) -> Command:
    return lambda role, work: [str(BUILT / program), role, str(work), *kind]


def java(library: str) -> Command:
    places = (BUILT / "java/classes", BUILT / "java/lib/*", NODE_CLASSES / "classes", NODE_CLASSES / "lib/*")
    path = os.pathsep.join(map(str, places))
    return lambda role, work: ["java", "-cp", path, "bench.Contender", library, role, str(work)]


CALLS = frozenset({"small", "large"})
ALL = CALLS | {"pipelined", "one_way"}


@dataclass(frozen=True)
class Peer:
    """One library in one language; ``client`` and ``server`` differ only where two languages meet."""

    language: str
    title: str
    protection: str
    does: frozenset[str]
    client: Command
    server: Command
    library: str | None = None
    """Python distribution whose version is printed."""

    @property
    def needs(self) -> Path | None:
        """What must have been built; None for Python."""
        for command in (self.client, self.server):
            program = Path(command("client", BUILT)[0])
            if program.is_relative_to(BUILT):
                return program
            if program.name == "java":
                return BUILT / "java/classes/bench/Contender.class"
        return None


def _peer(
    language: str, title: str, protection: str, does: frozenset[str], command: Command, library: str | None = None
) -> Peer:
    return Peer(language, title, protection, does, command, command, library)


SEALED = "ChaCha20-Poly1305, allow list"
NOTHING = "none (no TLS)"
CURVE = "CURVE (encrypted)"

PEERS: dict[str, Peer] = {
    "connection": _peer("python", "multiprocessing.connection", "HMAC at connect", CALLS, python("connection")),
    "zeromq": _peer("python", "pyzmq REQ/REP ipc, CURVE", CURVE, CALLS | {"one_way"}, python("zeromq"), "pyzmq"),
    "grpc": _peer("python", "grpcio unary, unix socket", NOTHING, CALLS | {"pipelined"}, python("grpc"), "grpcio"),
    "pyro": _peer("python", "Pyro5, unix socket", "none", CALLS, python("pyro"), "Pyro5"),
    "rpyc": _peer("python", "RPyC, unix socket", "none", CALLS, python("rpyc"), "rpyc"),
    "speed": _peer("python", "SPEED node.call, Python engine", SEALED, ALL, python("speed"), "speed-ipc"),
    "speed.native": _peer("python", "SPEED node.call, native engine", SEALED, ALL, python("speed_native"), "speed-ipc"),
    "limit": _peer("cpp", "the limit: append, ring, read", "none", frozenset({"small"}), built("limit")),
    "limit.polling": _peer("cpp", "the limit, polling", "none", frozenset({"small"}), built("limit", "poll")),
    "zeromq.cpp": _peer("cpp", "libzmq REQ/REP ipc", "none", ALL, built("zeromq_echo", "plain")),
    "curve.cpp": _peer("cpp", "libzmq REQ/REP ipc, CURVE", CURVE, ALL, built("zeromq_echo", "curve")),
    "grpc.cpp": _peer("cpp", "gRPC C++ unary, unix socket", NOTHING, ALL | {"batched"}, built("grpc_echo")),
    "speed.cpp": _peer("cpp", "SPEED C++ to C++", SEALED, ALL | {"batched"}, built("speed_echo")),
    "speed.python-cpp": Peer("cpp", "SPEED Python to C++", SEALED, ALL, python("speed"), built("speed_echo")),
    "grpc.java": _peer("java", "grpc-java unary, unix socket", NOTHING, ALL, java("grpc")),
    "speed.java": _peer("java", "SPEED Java to Java", SEALED, ALL, java("speed")),
}

LANGUAGES = ("python", "cpp", "java")
NEEDED_BESIDE = {"cpp": ("speed",)}
"""What a language's targets compare with outside of it: Python to C++ stands against Python to Python."""


def names_of(language: str) -> list[str]:
    """The contenders of one language, or of ``all``."""
    beside = NEEDED_BESIDE.get(language, ())
    return [name for name, peer in PEERS.items() if language in {"all", peer.language} or name in beside]


def is_speed(name: str) -> bool:
    return name.split(".", maxsplit=1)[0] == "speed"
