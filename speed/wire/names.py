"""Names, node ids and every path SPEED uses (W-1 to W-3, L-1, R-1), also across hosts (H-1, H-2, H-9)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256

from speed.errors import InvalidNameError
from speed.wire.limits import GENERATION_BITS, MAX_NAME_BYTES, MAX_SLOTS, MAX_TOPIC_BYTES, NODE_ID_NAMESPACE_HEX

REGISTRY = "speed_registry"
KEY_FILE = "speed.key"
JOURNAL = "journal"
TOPICS = "topics"
NEW_SUFFIX = ".new"
RESERVED_NAMES = frozenset({REGISTRY, KEY_FILE, KEY_FILE + NEW_SUFFIX, JOURNAL, TOPICS, "bell", "inbox", "quarantine"})
CLAIMS = ".claims"
STATEMENTS = ".identities"
OBSERVERS = ".observers"
FLOOR = "floor"
TEMPORARY_PREFIX = ".tmp-"
JOURNAL_LOCK = "journal.lock"
JOURNAL_DESCRIPTION = "description"
JOURNAL_END = "end"
JOURNAL_REMOVED = "removed"
SEGMENT_INDEX = "index.sqlite"

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*", re.ASCII)
_TOPIC = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", re.ASCII)
_SEGMENT = re.compile(r"(\d{6,8})-(\d{8,10})\.lane", re.ASCII)
_START = re.compile(r"start\.(\d{6,8})", re.ASCII)
_CURSOR = re.compile(r"cursor\.(\d{6,8})", re.ASCII)
_FENCE = re.compile(r"(\d{6,8})\.fence", re.ASCII)
_OPENING = re.compile(r"([0-9]{6,})-([0-9a-f]{16})\.opening")
_FINGERPRINT = re.compile(r"[0-9a-f]{40}")
_SLOT = re.compile(r"(\d{6,8})-(\d{2,3})\.slot", re.ASCII)
_DELIVERIES = re.compile(r"deliveries\.(\d{6,8})", re.ASCII)
_LETTER = re.compile(r"(\d{8,18})\.(letter|retry|trying)", re.ASCII)
_JOURNAL_LANE = re.compile(r"[0-9a-f]{32}", re.ASCII)
_SHARDS = re.compile(r"[0-9a-f]{32}\.shards", re.ASCII)
_VOLUME = re.compile(r"(\d{12,19})\.segment", re.ASCII)
_MAX_GENERATION = (1 << GENERATION_BITS) - 1
_MAX_FILE = (1 << 32) - 1
_NAMESPACE = bytes.fromhex(NODE_ID_NAMESPACE_HEX)
_RULE = "use letters, digits, '_', '-' and single dots between them"


def _checked(name: str, pattern: re.Pattern[str], limit: int, what: str) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidNameError(f"{what} is empty or no text: {_RULE}")
    if len(name) > limit:
        raise InvalidNameError(f"{what} has {len(name)} characters; the limit is {limit}: choose a shorter one")
    if not pattern.fullmatch(name):
        raise InvalidNameError(f"{what} {name!r} is not allowed: {_RULE}")
    return name


@lru_cache(maxsize=4096)
def check_node_name(name: str) -> str:
    """Return ``name`` if it is a node name (W-1); InvalidNameError says why not."""
    if name in RESERVED_NAMES:
        raise InvalidNameError(f"node name {name!r} is that of a file or directory of every root: choose another")
    return _checked(name, _NAME, MAX_NAME_BYTES, "node name")


def is_node_name(name: str) -> bool:
    try:
        check_node_name(name)
    except InvalidNameError:
        return False
    return True


@lru_cache(maxsize=4096)
def check_service_name(name: str) -> str:
    """Return ``name`` if it is a service name (W-1)."""
    return _checked(name, _NAME, MAX_NAME_BYTES, "service name")


def check_topic(topic: str) -> str:
    """Return ``topic`` if events can be published on it (W-2)."""
    return _checked(topic, _TOPIC, MAX_TOPIC_BYTES, "topic")


def check_grant(pattern: str) -> str:
    """Return ``pattern`` if it grants one node or a family ``name.*``; nothing grants everyone (A-2)."""
    if pattern == "*":
        raise InvalidNameError("'*' would allow everyone: name each node, or a family such as 'etl.*'")
    if isinstance(pattern, str) and pattern.endswith(".*"):
        check_node_name(pattern[:-2])
        return pattern
    return check_node_name(pattern)


def is_fingerprint(text: str) -> bool:
    """Whether this is the fingerprint of an identity: 40 lower-case hexadecimal digits; never the name of a host."""
    return _FINGERPRINT.fullmatch(text) is not None


def names_identity(pattern: object) -> bool:
    """Whether a grant is of one identity, ``name@fingerprint`` (I-8)."""
    return isinstance(pattern, str) and "@" in pattern and is_fingerprint(pattern.rpartition("@")[2])


def is_family(target: object) -> bool:
    """Whether a call of ``target`` is for one of a family, ``name.*``, of this root."""
    return isinstance(target, str) and target.endswith(".*")


def is_one_here(target: object) -> bool:
    """Whether ``target`` names one node of this root, if anything: no family, and no node of another host."""
    return not (isinstance(target, str) and (target.endswith(".*") or "@" in target))


def family_of(name: str) -> str:
    """The nodes that share events: of ``pricing.1`` they are ``pricing.*``, of ``pricing`` it alone (S-42)."""
    family, point, _ = name.rpartition(".")
    return f"{family}.*" if point else name


def check_topic_pattern(pattern: str) -> str:
    """Return ``pattern`` if it is a topic, ``topic.*`` or ``*`` (W-2)."""
    if pattern == "*":
        return pattern
    if isinstance(pattern, str) and pattern.endswith(".*"):
        check_topic(pattern[:-2])
        return pattern
    return check_topic(pattern)


def matches(pattern: str, name: str) -> bool:
    """Whether ``pattern`` (exact, ``prefix.*`` or ``*``) covers ``name``."""
    if pattern.endswith(".*"):
        return name.startswith(pattern[:-1]) and len(name) > len(pattern) - 1
    return pattern in (name, "*")


@lru_cache(maxsize=4096)
def node_id(name: str) -> bytes:
    """The 16-byte UUIDv8 of a node name (W-3; RFC 9562, appendix B.2)."""
    digest = bytearray(sha256(_NAMESPACE + name.encode()).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x80
    digest[8] = digest[8] & 0x3F | 0x80
    return bytes(digest)


# --- paths ---


def registry_dir(root: str) -> str:
    return f"{root}/{REGISTRY}"


def entry_name(name: str) -> str:
    return f"{name}.node"


def entry_path(root: str, name: str) -> str:
    return f"{root}/{REGISTRY}/{name}.node"


def claims_dir(root: str) -> str:
    return f"{root}/{REGISTRY}/{CLAIMS}"


def claim_name(name: str, generation: int) -> str:
    return f"{name}.{generation:06d}"


def claim_path(root: str, name: str, generation: int) -> str:
    return f"{claims_dir(root)}/{claim_name(name, generation)}"


def floor_path(root: str) -> str:
    return f"{claims_dir(root)}/{FLOOR}"


def floor_lock(root: str) -> str:
    """Held by whoever raises the floor of generations."""
    return f"{claims_dir(root)}/.{FLOOR}.lock"


def parse_claim(filename: str) -> tuple[str, int] | None:
    """(node name, generation) of a claim's file name, None for anything else."""
    name, _, digits = filename.rpartition(".")
    generation = _generation(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 8 else None
    if generation is None or not is_node_name(name):
        return None
    return name, generation


def parse_entry_file(filename: str) -> str | None:
    """Node name of an entry's file name, None for anything else."""
    name, _, suffix = filename.rpartition(".")
    return name if suffix == "node" and is_node_name(name) else None


def node_dir(root: str, name: str) -> str:
    return f"{root}/{name}"


def bell_path(root: str, name: str) -> str:
    return f"{root}/{name}/bell"


def inbox_dir(root: str, name: str) -> str:
    return f"{root}/{name}/inbox"


def lane_dir(root: str, target: str, source: str) -> str:
    return f"{root}/{target}/inbox/{source}"


def quarantine_dir(root: str, name: str) -> str:
    return f"{root}/{name}/quarantine"


def segments_dir(root: str, name: str) -> str:
    """What a node received in segments (G-14)."""
    return f"{root}/{name}/segments"


def dead_letters_dir(root: str, name: str) -> str:
    """Where a node keeps what it could not handle (S-18)."""
    return f"{node_dir(root, name)}/dead"


def letter_name(number: int, state: str = "letter") -> str:
    """File of a dead letter in one of ``LETTER_STATES``."""
    return f"{number:08d}.{state}"


def parse_letter(filename: str) -> tuple[int, str] | None:
    """Number and state of a dead letter; None for any other file."""
    match = _LETTER.fullmatch(filename)
    if match is None or int(match[1]) == 0 or letter_name(int(match[1]), match[2]) != filename:
        return None
    return int(match[1]), match[2]


def default_key_path(root: str) -> str:
    return f"{root}/{KEY_FILE}"


def replacement_path(path: str) -> str:
    """The temporary file for the next content of a key file."""
    return f"{path}{NEW_SUFFIX}"


def lock_path(path: str) -> str:
    """The lock of a file. No node has such a name."""
    directory, slash, filename = path.rpartition("/")
    return f"{directory}{slash}.{filename}.lock"


def daemon_lock(root: str) -> str:
    """Held by the one speedd of a root. No node has such a name."""
    return f"{root}/.speedd.lock"


def daemon_socket(root: str) -> str:
    """Where the one speedd of a root is asked and told."""
    return f"{root}/.speedd.socket"


def child_path(directory: str, filename: str) -> str:
    """A file name directly under a directory that this module named."""
    return f"{directory}/{filename}"


def temporary_name(token: str) -> str:
    return f"{TEMPORARY_PREFIX}{token}"


def _generation(digits: str) -> int | None:
    """The generation that ``digits`` write in the one accepted way, else None: one file, one number (L-1)."""
    number = int(digits)
    return number if 1 <= number <= _MAX_GENERATION and f"{number:06d}" == digits else None


def lane_file_name(generation: int, file: int) -> str:
    return f"{generation:06d}-{file:08d}.lane"


def parse_lane_file(filename: str) -> tuple[int, int] | None:
    """(generation, file) of a lane file, None for anything else."""
    return _numbered(_SEGMENT.fullmatch(filename), 8, _MAX_FILE)


def slot_name(generation: int, number: int) -> str:
    return f"{generation:06d}-{number:02d}.slot"


def parse_slot(filename: str) -> tuple[int, int] | None:
    """(generation, number) of a slot, None for anything else."""
    return _numbered(_SLOT.fullmatch(filename), 2, MAX_SLOTS)


def _numbered(match: re.Match[str] | None, width: int, limit: int) -> tuple[int, int] | None:
    """A generation and a number of ``width`` digits at least, both written in the one accepted way."""
    if match is None:
        return None
    generation, number = _generation(match[1]), int(match[2])
    if generation is None or not 1 <= number <= limit or f"{number:0{width}d}" != match[2]:
        return None
    return generation, number


def cursor_name(generation: int) -> str:
    return f"cursor.{generation:06d}"


def parse_cursor(filename: str) -> int | None:
    match = _CURSOR.fullmatch(filename)
    return _generation(match[1]) if match else None


def start_name(generation: int) -> str:
    return f"start.{generation:06d}"


def parse_start(filename: str) -> int | None:
    match = _START.fullmatch(filename)
    return _generation(match[1]) if match else None


def deliveries_name(generation: int) -> str:
    return f"deliveries.{generation:06d}"


def parse_deliveries(filename: str) -> int | None:
    match = _DELIVERIES.fullmatch(filename)
    return _generation(match[1]) if match else None


def fence_name(generation: int) -> str:
    return f"{generation:06d}.fence"


def parse_fence(filename: str) -> int | None:
    match = _FENCE.fullmatch(filename)
    return _generation(match[1]) if match else None


def opening_name(generation: int, key_id: bytes) -> str:
    """The file that opens a bound link (I-4)."""
    return f"{generation:06d}-{key_id.hex()}.opening"


def parse_opening(filename: str) -> tuple[int, bytes] | None:
    """Generation and key id."""
    match = _OPENING.fullmatch(filename)
    generation = _generation(match[1]) if match else None
    return None if match is None or generation is None else (generation, bytes.fromhex(match[2]))


def statements_dir(root: str) -> str:
    """Where owners state whose name is whose (I-6)."""
    return f"{root}/{REGISTRY}/{STATEMENTS}"


def statement_path(root: str, name: str) -> str:
    return f"{root}/{REGISTRY}/{STATEMENTS}/{name}"


def observers_path(root: str) -> str:
    return f"{root}/{REGISTRY}/{OBSERVERS}"


def known_path(path: str) -> str:
    """What the node of an identity file remembers of others (I-7)."""
    return f"{path}.known"


def journal_dir(root: str) -> str:
    """Where a journal lies unless another place is named (J-1)."""
    return f"{root}/{JOURNAL}"


def topics_dir(root: str) -> str:
    """Where durable topics lie unless another place is named (D-1)."""
    return f"{root}/{TOPICS}"


def topics_node(daemon: str) -> str:
    """The node that hosts durable topics for the speedd whose node has this name."""
    return f"{daemon}.topics"


def volume_name(first: int) -> str:
    return f"{first:012d}.segment"


def parse_volume(filename: str) -> int | None:
    """First offset of a journal's volume, None for anything else."""
    match = _VOLUME.fullmatch(filename)
    if match is None:
        return None
    first = int(match[1])
    return first if first < 1 << 63 and f"{first:012d}" == match[1] else None


def is_journal_lane(filename: str) -> bool:
    """Whether a name is that of a journal's lane directory."""
    return _JOURNAL_LANE.fullmatch(filename) is not None


def shards_name(payload_id: bytes) -> str:
    """The file that holds the segments of one payload."""
    return f"{payload_id.hex()}.shards"


def is_segment_file(filename: str) -> bool:
    """Whether a name is one that a node gives in its directory of segments."""
    return filename.startswith(SEGMENT_INDEX) or is_shards(filename)


def is_shards(filename: str) -> bool:
    return _SHARDS.fullmatch(filename) is not None


def bridges_node(daemon: str) -> str:
    """The node that publishes events for the bridges of the speedd whose node has this name (B-16)."""
    return f"{daemon}.bridges"


def bridge_name(bridge: str) -> str:
    """What a bridge is called where it keeps its position: its subscription, and its file in the journal (B-14)."""
    return f"bridge.{bridge}"


def journal_node(daemon: str) -> str:
    """The node that records topics for the speedd whose node has this name (J-9)."""
    return f"{daemon}.journal"


GATEWAY = "speedd.hosts"
"""The node of a root that carries to other hosts."""
SUBJECT = "speed.hosts."
"""What a host listens on begins so, and ends with its name."""
MAX_HOST_CHARACTERS = 32
_STAND_IN = "at"


def check_host_name(name: str) -> str:
    """Return ``name`` if it is the name of a host."""
    is_name = isinstance(name, str) and name[:1].isalnum() and name.replace("-", "a").replace("_", "a").isalnum()
    if not is_name or not name.isascii() or len(name) > MAX_HOST_CHARACTERS:
        shown = repr(name)[:80]
        raise InvalidNameError(f"{shown} is no name of a host: use 1 to {MAX_HOST_CHARACTERS} letters, digits, - and _")
    return name


def host_id(name: str) -> bytes:
    """The 16 bytes that envelopes name a host by."""
    return node_id(name)


def split_remote(name: str) -> tuple[str, str]:
    """Node and host of ``node@host``. InvalidNameError."""
    node, _, host = name.partition("@")
    return check_node_name(node), check_host_name(host)


def check_remote_pattern(pattern: str) -> str:
    """Return ``pattern`` if it is ``node@host``, ``family.*@host`` or ``*@host``."""
    node, _, host = pattern.partition("@")
    check_host_name(host)
    if node != "*":
        check_grant(node)
    return pattern


def host_of(pattern: str) -> str:
    """The host that a pattern is about."""
    return pattern.partition("@")[2]


def covers(patterns: Iterable[str], node: str, host: str) -> bool:
    """Whether one of the patterns is about this node of that host."""
    return any(host_of(one) == host and matches(one.partition("@")[0], node) for one in patterns)


def stand_in(node: str, host: str) -> str:
    """The node under which a node of another host acts here. InvalidNameError for a name that is too long for that."""
    return check_node_name(f"{_STAND_IN}.{host}.{node}")


def local_grant(pattern: str) -> str:
    """A grant as nodes of this root know it: ``etl.*@hosta`` is about stand-ins. InvalidNameError."""
    if "@" not in pattern or names_identity(pattern):
        return pattern
    node, _, host = check_remote_pattern(pattern).partition("@")
    return check_grant(f"{_STAND_IN}.{host}.{node}")


def local_grants(patterns: Iterable[str]) -> tuple[str, ...]:
    """The same for several."""
    return tuple(map(local_grant, patterns))
