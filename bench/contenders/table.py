"""Every contender: its name on the command line, what it can do, and how its two processes are started."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

BUILT = Path(__file__).resolve().parents[2] / "build" / "bench"
NODE_CLASSES = BUILT.parents[1] / "bindings" / "java" / "target"
BUILD = "bench/build"

Command = Callable[..., list[str]]
"""(role, work directory, further words) -> what to execute; the further word of a SPEED program has in it ``disk``
(durable), ``blocking`` (does not poll) or ``unread`` (a server that leaves messages where they are)."""


def python(module: str) -> Command:
    program = [sys.executable, "-m", "contenders.process"]
    return lambda role, work, *kind: [*program, role, module, str(work), *kind]


def built(program: str, *kind: str) -> Command:
    return lambda role, work, *more: [str(BUILT / program), role, str(work), *kind, *more]


def java(library: str) -> Command:
    places = (BUILT / "java/classes", BUILT / "java/lib/*", NODE_CLASSES / "classes", NODE_CLASSES / "lib/*")
    program = ["java", "-cp", os.pathsep.join(map(str, places)), "bench.Contender", library]
    return lambda role, work, *kind: [*program, role, str(work), *kind]


CALLS = frozenset({"small", "large", "loaded", "bytes_16", "kib_4", "kib_64", "mib_16"})
CALL = frozenset({"small", "loaded"})
MANY = frozenset({"pipelined"})
THREADS = MANY | {"pipelined_4", "pipelined_16"}
ALL = CALLS | MANY | {"one_way"}
SPEED = ALL | THREADS
BATCHES = frozenset({"batched"})
"""What a program can do; the kinds of ``peers.py``."""


@dataclass(frozen=True)
class Peer:
    """One library in one language, or two languages that meet: then ``client`` and ``server`` differ."""

    language: str
    title: str
    protection: str
    does: frozenset[str]
    client: Command
    server: Command
    library: str | None = None
    """Python distribution whose version is printed."""

    @property
    def needs(self) -> list[Path]:
        """What must have been built; nothing for Python."""
        programs = {Path(command("client", BUILT)[0]) for command in (self.client, self.server)}
        needed = [program for program in programs if program.is_relative_to(BUILT)]
        if any(program.name == "java" for program in programs):
            needed.append(BUILT / "java/classes/bench/Contender.class")
        return needed

    @property
    def languages(self) -> set[str]:
        """Of both sides."""
        return {_language(command("client", BUILT)[0]) for command in (self.client, self.server)}


def _language(program: str) -> str:
    return "java" if program == "java" else "cpp" if Path(program).is_relative_to(BUILT) else "python"


def _peer(
    language: str,
    title: str,
    protection: str,
    does: frozenset[str],
    command: Command,
    library: str | None = None,
) -> Peer:
    return Peer(language, title, protection, does, command, command, library)


SEALED = "ChaCha20-Poly1305, allow list"
NOTHING = "none (no TLS)"
CURVE = "CURVE (encrypted)"

PEERS: dict[str, Peer] = {
    "connection": _peer("python", "multiprocessing.connection", "HMAC at connect", CALLS, python("connection")),
    "zeromq.plain": _peer("python", "pyzmq REQ/REP ipc", "none", CALLS | {"one_way"}, python("zeromq_plain"), "pyzmq"),
    "zeromq": _peer("python", "pyzmq REQ/REP ipc, CURVE", CURVE, CALLS | {"one_way"}, python("zeromq"), "pyzmq"),
    "grpc": _peer("python", "grpcio unary, unix socket", NOTHING, CALLS | THREADS, python("grpc"), "grpcio"),
    "grpc.tls": _peer(
        "python", "grpcio unary, unix socket, TLS", "TLS, server only", CALLS | THREADS, python("grpc_tls"), "grpcio"
    ),
    "iceoryx2": _peer("python", "iceoryx2 request and response, busy", "none", CALLS, python("iceoryx2"), "iceoryx2"),
    "flight": _peer("python", "Arrow Flight, unix socket", NOTHING, CALLS, python("flight"), "pyarrow"),
    "speed": _peer("python", "SPEED node.call, Python engine", SEALED, SPEED | BATCHES, python("speed"), "speed-ipc"),
    "speed.native": _peer(
        "python", "SPEED node.call, native engine", SEALED, SPEED | BATCHES, python("speed_native"), "speed-ipc"
    ),
    "speed.native.blocking": _peer(
        "python", "SPEED native engine, not polling", SEALED, CALL, python("speed_native_blocking"), "speed-ipc"
    ),
    "limit": _peer("cpp", "the limit: append, ring, read", "none", CALL, built("limit")),
    "limit.polling": _peer("cpp", "the limit, polling", "none", CALL, built("limit", "poll")),
    "zeromq.cpp": _peer("cpp", "libzmq REQ/REP ipc", "none", ALL, built("zeromq_echo", "plain")),
    "curve.cpp": _peer("cpp", "libzmq REQ/REP ipc, CURVE", CURVE, ALL, built("zeromq_echo", "curve")),
    "grpc.cpp": _peer("cpp", "gRPC C++ unary, unix socket", NOTHING, SPEED | BATCHES, built("grpc_echo")),
    "speed.cpp": _peer("cpp", "SPEED C++ to C++", SEALED, SPEED | BATCHES, built("speed_echo")),
    "speed.cpp.blocking": _peer("cpp", "SPEED C++ to C++, not polling", SEALED, CALL, built("speed_echo", "blocking")),
    "grpc.java": _peer("java", "grpc-java unary, unix socket", NOTHING, SPEED, java("grpc")),
    "speed.java": _peer("java", "SPEED Java to Java", SEALED, SPEED | BATCHES, java("speed")),
}

SPEEDS = {"python": ("Python", python("speed")), "cpp": ("C++", built("speed_echo")), "java": ("Java", java("speed"))}


def _pair(one: str, other: str) -> Peer:
    (ours, client), (theirs, server) = SPEEDS[one], SPEEDS[other]
    return Peer("pairs", f"SPEED {ours} to {theirs}", SEALED, frozenset({"small", "large"}), client, server)


PAIRS = {f"speed.{one}-{other}": (one, other) for one in SPEEDS for other in SPEEDS if one != other}
"""Two languages that meet; with the three that are above, all nine."""
PEERS.update({name: _pair(*pair) for name, pair in PAIRS.items()})

LANGUAGES = ("python", "cpp", "java")
NEEDED_BESIDE = {"cpp": ("speed", "speed.python-cpp")}
"""What a language's targets compare with outside of it: Python to C++ stands against Python to Python."""


def names_of(language: str) -> list[str]:
    """The contenders of one language, or of ``all``."""
    beside = NEEDED_BESIDE.get(language, ())
    return [name for name, peer in PEERS.items() if language in {"all", peer.language} or name in beside]


def is_speed(name: str) -> bool:
    return name.split(".", maxsplit=1)[0] == "speed"
