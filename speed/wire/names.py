"""Names, node ids and every path below a root; no other module builds a path (rules W-2 to W-7)."""

from __future__ import annotations

import hashlib
import re

from speed.errors import InvalidNameError
from speed.wire.limits import GENERATION_BITS, MAX_NAME_BYTES, MAX_TOPIC_BYTES, NODE_ID_NAMESPACE_HEX

RESERVED_NAMES = frozenset({"speed_registry", "bell", "inbox", "quarantine"})
TEMPORARY_PREFIX = ".tmp-"
REGISTRY_DIRECTORY = "speed_registry"
CLAIMS_DIRECTORY = ".claims"
ENTRY_SUFFIX = ".node"

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", re.ASCII)
_TOPIC = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*", re.ASCII)
_SEGMENT = re.compile(r"([0-9]{6,8})-([0-9]{8,10})\.lane", re.ASCII)
_CURSOR = re.compile(r"cursor\.([0-9]{6,8})", re.ASCII)
_FENCE = re.compile(r"([0-9]{6,8})\.fence", re.ASCII)
_CLAIM = re.compile(r"(.+)\.([0-9]{6,8})", re.ASCII)
_NAMESPACE = bytes.fromhex(NODE_ID_NAMESPACE_HEX)
_MAX_GENERATION = (1 << GENERATION_BITS) - 1
_MAX_SEGMENT = (1 << 32) - 1


def _checked(kind: str, text: str) -> str:
    if not isinstance(text, str):
        raise InvalidNameError(f"{kind} must be a str, not {type(text).__name__}")
    if not 1 <= len(text) <= MAX_NAME_BYTES:
        raise InvalidNameError(f"{kind} must have 1 to {MAX_NAME_BYTES} characters, got {len(text)}")
    if not _NAME.fullmatch(text) or ".." in text or text.endswith("."):
        raise InvalidNameError(
            f"{kind} {text!r} may hold A-Z a-z 0-9 _ . - only, starts with a letter, digit or _, "
            "holds no '..' and does not end with '.'"
        )
    return text


def check_node_name(name: str) -> str:
    """Return ``name`` if it is a node name (rule W-2), else raise InvalidNameError."""
    _checked("node name", name)
    if name in RESERVED_NAMES:
        raise InvalidNameError(f"node name {name!r} is reserved; choose another")
    return name


def check_service_name(name: str) -> str:
    """Return ``name`` if it is a service name (rule W-3), else raise InvalidNameError."""
    return _checked("service name", name)


def check_topic(topic: str) -> str:
    """Return ``topic`` if it is a topic (rule W-4), else raise InvalidNameError."""
    if not isinstance(topic, str):
        raise InvalidNameError(f"topic must be a str, not {type(topic).__name__}")
    if len(topic) > MAX_TOPIC_BYTES or not _TOPIC.fullmatch(topic):
        raise InvalidNameError(
            f"topic {topic[:300]!r} must be parts of A-Z a-z 0-9 _ - joined by '.', "
            f"at most {MAX_TOPIC_BYTES} characters"
        )
    return topic


def check_grant(pattern: str) -> str:
    """Return ``pattern`` if it is a grant: a node name or ``<name>.*`` (rule W-5), else raise."""
    if pattern == "*":
        raise InvalidNameError(
            "grant '*' is refused: nobody is granted by default; name the nodes or a family"
        )
    if isinstance(pattern, str) and pattern.endswith(".*"):
        check_node_name(pattern[:-2])
        return pattern
    return check_node_name(pattern)


def check_topic_pattern(pattern: str) -> str:
    """Return ``pattern`` if it is a topic, ``<topic>.*`` or ``*`` (rule W-4), else raise."""
    if pattern == "*":
        return pattern
    if isinstance(pattern, str) and pattern.endswith(".*"):
        check_topic(pattern[:-2])
        return pattern
    return check_topic(pattern)


def matches(pattern: str, name: str) -> bool:
    """Tell whether a checked grant or topic pattern covers ``name`` (rules W-4, W-5)."""
    if pattern == name or pattern == "*":
        return True
    return pattern.endswith(".*") and len(name) >= len(pattern) and name.startswith(pattern[:-1])


def node_id(name: str) -> bytes:
    """Return the 16-byte id of a node name: a UUIDv8 of RFC 9562 B.2 (rule W-6)."""
    digest = bytearray(hashlib.sha256(_NAMESPACE + name.encode()).digest()[:16])
    digest[6] = (digest[6] & 0x0F) | 0x80
    digest[8] = (digest[8] & 0x3F) | 0x80
    return bytes(digest)


def registry_dir(root: str) -> str:
    """Return the directory of all entries."""
    return f"{root}/{REGISTRY_DIRECTORY}"


def entry_path(root: str, name: str) -> str:
    """Return the path of a node's entry."""
    return f"{root}/{REGISTRY_DIRECTORY}/{name}{ENTRY_SUFFIX}"


def claims_dir(root: str) -> str:
    """Return the directory of all claims."""
    return f"{root}/{REGISTRY_DIRECTORY}/{CLAIMS_DIRECTORY}"


def node_dir(root: str, name: str) -> str:
    """Return a node's own directory."""
    return f"{root}/{name}"


def bell_path(root: str, name: str) -> str:
    """Return the path of a node's bell."""
    return f"{root}/{name}/bell"


def inbox_dir(root: str, name: str) -> str:
    """Return the directory that holds the lanes to ``name``."""
    return f"{root}/{name}/inbox"


def lane_dir(root: str, target: str, source: str) -> str:
    """Return the directory of the lane source -> target."""
    return f"{root}/{target}/inbox/{source}"


def quarantine_dir(root: str, name: str) -> str:
    """Return the directory for what a node had to set aside."""
    return f"{root}/{name}/quarantine"


def claim_name(name: str, generation: int) -> str:
    """Return the file name of a claim inside ``claims_dir``."""
    return f"{name}.{generation:06d}"


def segment_name(generation: int, segment: int) -> str:
    """Return the file name of a lane segment of a sender's generation."""
    return f"{generation:06d}-{segment:08d}.lane"


def cursor_name(generation: int) -> str:
    """Return the file name of the cursor of a receiver's generation."""
    return f"cursor.{generation:06d}"


def fence_name(generation: int) -> str:
    """Return the file name of the fence that a sender's new generation sets."""
    return f"{generation:06d}.fence"


def _generation(digits: str) -> int | None:
    """Return the number if it is a generation written in the one accepted way (no extra zeros)."""
    number = int(digits)
    return number if 1 <= number <= _MAX_GENERATION and f"{number:06d}" == digits else None


def parse_claim(filename: str) -> tuple[str, int] | None:
    """Return (name, generation) of a claim's file name, or None."""
    found = _CLAIM.fullmatch(filename)
    generation = _generation(found[2]) if found else None
    if found is None or generation is None or not is_node_name(found[1]):
        return None
    return found[1], generation


def parse_segment(filename: str) -> tuple[int, int] | None:
    """Return (generation, segment) of a segment's file name, or None."""
    found = _SEGMENT.fullmatch(filename)
    if found is None:
        return None
    generation, segment = _generation(found[1]), int(found[2])
    if generation is None or not 1 <= segment <= _MAX_SEGMENT or f"{segment:08d}" != found[2]:
        return None
    return generation, segment


def parse_cursor(filename: str) -> int | None:
    """Return the receiver's generation of a cursor's file name, or None."""
    found = _CURSOR.fullmatch(filename)
    return _generation(found[1]) if found else None


def parse_fence(filename: str) -> int | None:
    """Return the new generation of a fence's file name, or None."""
    found = _FENCE.fullmatch(filename)
    return _generation(found[1]) if found else None


def parse_entry_file(filename: str) -> str | None:
    """Return the node name of an entry's file name, or None."""
    name = filename[: -len(ENTRY_SUFFIX)]
    return name if filename.endswith(ENTRY_SUFFIX) and is_node_name(name) else None


def is_node_name(name: str) -> bool:
    """Tell whether ``name`` is a node name (rule W-2)."""
    try:
        check_node_name(name)
    except InvalidNameError:
        return False
    return True
