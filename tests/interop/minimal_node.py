"""A node written from registry_spec/ alone: the rules that implementers.md marks as core, and nothing of ``speed``.

It has one thread. It answers pings and calls of its services, pings and calls others, and leaves in order. Started as
``python minimal_node.py ROOT NAME ALLOW``, it serves ``add`` and obeys lines of JSON: ``["ping", NODE]``,
``["call", NODE, SERVICE, ARGUMENTS]`` and ``["close"]``; each is answered with one line.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import os
import select
import struct
import sys
import time
from pathlib import Path
from typing import Any

import msgpack
from nacl.bindings import crypto_aead_chacha20poly1305_ietf_decrypt as unseal
from nacl.bindings import crypto_aead_chacha20poly1305_ietf_encrypt as seal

HEADERS = struct.Struct(">BBHIQQQ16s16s8sI12s")  # W-4
CURSOR = struct.Struct(">4sBBHIIIIQQ24x")  # L-14
FENCE = struct.Struct(">4sB3xIIIIQ")  # L-18
TAG, COUNTER_BITS, MOST = 16, 40, 67108864
MESSAGE, REQUEST, RESPONSE, EVENT, HEARTBEAT, ERROR = 1, 2, 3, 4, 6, 7
FLAGS = {1: 3, 2: 2, 3: 6, 4: 3, 5: 4, 6: 4, 7: 4, 8: 4}  # W-6
REPLY = 4
LEASE_MS, HEARTBEAT_MS = 30_000, 5_000


def node_id(name: str) -> bytes:
    """W-3."""
    data = bytearray(hashlib.sha256(bytes.fromhex("53504545442f31206e6f646520696400") + name.encode()).digest()[:16])
    data[6] = data[6] & 0x0F | 0x80
    data[8] = data[8] & 0x3F | 0x80
    return bytes(data)


def hkdf(key: bytes, info: bytes) -> bytes:
    """W-10."""
    return hmac.digest(hmac.digest(bytes(32), key, "sha256"), info + b"\x01", "sha256")


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def unix_ms() -> int:
    return time.time_ns() // 1_000_000


class Remote(Exception):
    """What another node answered: a code of codes.json and a text."""


class Node:
    def __init__(self, root: Path, name: str, allow: list[str], services: dict[str, Any]) -> None:
        self.root, self.name, self.allow, self.services = root, name, allow, services
        self.key = base64.b64decode((root / "speed.key").read_text().split()[1])  # W-14
        self.key_id = hashlib.sha256(b"speed/1 key id" + self.key).digest()[:8]
        self.registry_key = hkdf(self.key, b"speed/1 registry")
        self.id, self.home = node_id(name), root / name
        self.counters: dict[str, int] = {}
        self.lanes: dict[str, list[int]] = {}  # position: generation, segment, offset, last sequence
        self.answers: dict[str, dict[str, Any]] = {}
        self.refused: dict[str, int] = {}
        self.numbers = 0
        for path in (root / "speed_registry", root / "speed_registry/.claims"):
            path.mkdir(mode=0o700, exist_ok=True)
        self.claim()
        self.prepare()
        self.status = "online"
        self.entry: int | None = None
        self.beat()
        if self.claims()[-1][0] != self.generation:
            raise SystemExit("LEASE_LOST")

    # --- the registry: R-1 to R-8 ---

    def signed(self, fields: dict[str, Any]) -> bytes:
        line = json.dumps(fields).encode()
        return line + b"\n" + base64.b64encode(hmac.digest(self.registry_key, line, "sha256")) + b"\n"

    def read_signed(self, path: Path) -> dict[str, Any] | None:
        """R-3: read again while a heartbeat is half written."""
        for _ in range(3):
            with contextlib.suppress(OSError, ValueError, IndexError):
                line, mac = path.read_bytes().split(b"\n")[:2]
                if hmac.compare_digest(mac, base64.b64encode(hmac.digest(self.registry_key, line, "sha256"))):
                    found: dict[str, Any] = json.loads(line)
                    return found
        return None

    def maker(self) -> dict[str, Any]:
        stat = Path("/proc/self/stat").read_bytes()
        return {
            "pid": os.getpid(),
            "pid_start": int(stat.rpartition(b")")[2].split()[19]),
            "pid_namespace": os.readlink("/proc/self/ns/pid"),
            "host": os.uname().nodename,
            "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        }

    def claims(self) -> list[tuple[int, Path]]:
        found = [path for path in (self.root / "speed_registry/.claims").iterdir() if path.name[:-7] == self.name]
        return sorted((int(path.name[-6:]), path) for path in found)

    def claim(self) -> None:
        """R-5, without waiting: what is not free at once is taken."""
        held, floor = self.claims(), self.floor()
        entry = self.read_signed(self.root / f"speed_registry/{self.name}.node")
        self.above, newest = floor, held[-1][0] if held else 0
        if not held and entry is None and self.home.exists():
            raise SystemExit("NAME_TAKEN")  # somebody removed the claims
        if held:
            former = self.read_signed(held[-1][1]) or {}
            self.above = former.get("above", floor)
            is_released = not held[-1][1].stat().st_mode & 0o200
            same = all(former.get(name) == self.maker()[name] for name in ("pid_namespace", "boot_id"))
            if not is_released and not (same and not Path(f"/proc/{former['pid']}").exists()):
                raise SystemExit("NAME_TAKEN")
        self.generation = max(newest, floor, entry["generation"] if entry else 0) + 1
        self.claimed = self.root / f"speed_registry/.claims/{self.name}.{self.generation:06d}"
        told = {**self.maker(), "lease": LEASE_MS, "made_monotonic_ms": now_ms(), "above": self.above}
        fd = os.open(self.claimed, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(fd, self.signed(told))
        os.fsync(fd)
        os.close(fd)
        if self.floor() != floor:
            self.claimed.unlink()
            raise SystemExit("NAME_TAKEN")

    def floor(self) -> int:
        """R-24."""
        try:
            data = (self.root / "speed_registry/.claims/floor").read_bytes()
        except FileNotFoundError:
            return 0
        if not hmac.compare_digest(data[1032:], hmac.digest(self.registry_key, data[:1032], "sha256")[:16]):
            raise SystemExit("INVALID_STATE")
        return struct.unpack_from(">I", data, 8 + 4 * self.id[0])[0]

    def prepare(self) -> None:
        for path in (self.home, self.home / "inbox", self.home / "quarantine"):
            path.mkdir(mode=0o700, exist_ok=True)
        if self.generation > 1:
            for lane in self.root.glob(f"*/inbox/{self.name}"):
                self.fence(lane)
        bell = self.home / "bell"
        if not bell.exists():
            os.mkfifo(bell, 0o600)
        self.bell = os.open(bell, os.O_RDWR | os.O_NONBLOCK)

    def fence(self, lane: Path) -> None:
        """L-18."""
        old = [(*self.segment_of(path), path.stat().st_size) for path in lane.glob("*.lane")]
        last = max((one for one in old if one[0] < self.generation), default=(0, 0, 0))
        body = FENCE.pack(b"SPDF", 1, self.generation, last[0], last[1], 0, last[2])
        self.replace(
            lane / f"{self.generation:06d}.fence", body + self.lane_mac(self.name, lane.parent.parent.name, body)
        )

    def beat(self) -> None:
        """R-2, R-7: written beside and renamed the first time, in place afterwards."""
        me = self.maker()
        fields = {
            "name": self.name,
            "nodeId": self.id.hex(),
            "generation": self.generation,
            "status": self.status,
            "pid": me["pid"],
            "pidStart": me["pid_start"],
            "pidNamespace": me["pid_namespace"],
            "host": me["host"],
            "bootId": me["boot_id"],
            "startupTimestamp": unix_ms(),
            "lastHeartbeat": unix_ms(),
            "heartbeatMonotonicMs": now_ms(),
            "lease": LEASE_MS,
            "heartbeatInterval": HEARTBEAT_MS,
            "fabrics": [],
            "allow": self.allow,
            "subscriptions": [],
            "features": [],
            "language": "minimal",
            "version": "1",
        }
        data = self.signed(fields).ljust(2048)
        path = self.root / f"speed_registry/{self.name}.node"
        if self.entry is None:
            self.replace(path, data)
            self.entry = os.open(path, os.O_RDWR)
        if self.entry is not None and self.beaten() > LEASE_MS:
            raise SystemExit("LEASE_LOST")
        os.pwrite(self.entry, data, 0)
        self.last_beat = now_ms()

    def beaten(self) -> int:
        return now_ms() - getattr(self, "last_beat", now_ms())

    def replace(self, path: Path, data: bytes) -> None:
        beside = path.with_name(f".tmp-{self.name}-{os.getpid()}")
        beside.write_bytes(data)
        beside.chmod(0o600)
        beside.rename(path)

    # --- writing: A-3, L-2 to L-9 ---

    def send(self, target: str, type_: int, flags: int, payload: dict[str, Any]) -> None:
        """An answer needs no grant (S-10); a lane directory is made only after the entry was read."""
        entry = self.read_signed(self.root / f"speed_registry/{target}.node")
        if not flags & REPLY:
            if entry is None or now_ms() - entry["heartbeatMonotonicMs"] > entry["lease"]:
                raise Remote("UNKNOWN_NODE", target)
            families = [f"{'.'.join(self.name.split('.')[:n])}.*" for n in range(1, self.name.count(".") + 1)]
            if not {self.name, *families} & set(entry["allow"]):
                raise Remote("ACCESS_DENIED", target)
        lane = self.root / target / "inbox" / self.name
        lane.mkdir(mode=0o700, exist_ok=True)
        counter = self.counters[target] = self.counters.get(target, 0) + 1
        data, nonce, to = msgpack.packb(payload), os.urandom(12), node_id(target)
        sequence = self.generation << COUNTER_BITS | counter
        head = HEADERS.pack(1, type_, flags, 64, sequence, unix_ms(), len(data), self.id, to, self.key_id, 0, nonce)
        life = entry["generation"] if entry and entry.get("ephemeral") else 0
        envelope = head + seal(data, head, nonce, self.link_key(self.name, target, self.generation, life))
        fd = os.open(lane / f"{self.generation:06d}-00000001.lane", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(fd, envelope)
        os.close(fd)
        with contextlib.suppress(OSError):  # nobody reads the bell: the receiver polls, or is gone
            bell = os.open(self.root / target / "bell", os.O_WRONLY | os.O_NONBLOCK)
            os.write(bell, self.id)
            os.close(bell)

    def link_key(self, source: str, target: str, generation: int, life: int = 0) -> bytes:
        numbers = b"".join(number.to_bytes(8, "big") for number in (generation, life) if number)
        return hkdf(self.key, b"speed/1 link" + node_id(source) + node_id(target) + numbers)

    def lane_mac(self, source: str, target: str, body: bytes) -> bytes:
        key = hkdf(self.key, b"speed/1 lane" + node_id(source) + node_id(target))
        return hmac.digest(key, body, "sha256")[:16]

    # --- reading: L-10 to L-18 ---

    def segment_of(self, path: Path) -> tuple[int, int]:
        generation, segment = path.name.removesuffix(".lane").split("-")
        return int(generation), int(segment)

    def read(self, source: str) -> None:
        """Each envelope is committed before it is handled: then nothing runs twice, and nothing is ever unfinished."""
        lane = self.home / "inbox" / source
        place = self.lanes.get(source) or self.begin(source, lane)
        for path in sorted(lane.glob("*.lane"), key=self.segment_of):
            at = self.segment_of(path)
            if at < tuple(place[:2]):
                path.unlink()  # L-17
                continue
            if at > tuple(place[:2]):
                place[:3] = [*at, 0]
            data = path.read_bytes()
            data = data[: self.before_fence(source, lane, at, len(data))]
            while opened := self.open(source, at[0], data, place[2]):
                type_, flags, sequence, payload, place[2] = opened
                is_new, place[3] = sequence > place[3], max(sequence, place[3])  # L-12
                self.commit(source, lane, place)
                if is_new:
                    self.take(source, type_, flags, sequence, payload)

    def begin(self, source: str, lane: Path) -> list[int]:
        """L-15. A predecessor's unfinished requests had begun; what else it had begun, this node does not take."""
        place = self.lanes[source] = [self.above + 1, 0, 0, 0]
        for path in sorted(lane.glob("cursor.*"), reverse=True):
            data = path.read_bytes()
            count = int.from_bytes(data[6:8], "big")
            end = 64 + 24 * count
            if hmac.compare_digest(data[end : end + 16], self.lane_mac(source, self.name, data[:end])):
                place[:] = CURSOR.unpack_from(data)[6:10]
                break
        self.replace(lane / f"cursor.{self.generation:06d}", self.cursor(source, place))
        for path in lane.glob("cursor.*"):
            if int(path.name[7:]) < self.generation:
                path.unlink()
        return place

    def cursor(self, source: str, place: list[int]) -> bytes:
        body = CURSOR.pack(b"SPDC", 1, 0, 0, self.generation, 0, *place)
        return body + self.lane_mac(source, self.name, body)

    def commit(self, source: str, lane: Path, place: list[int]) -> None:
        fd = os.open(lane / f"cursor.{self.generation:06d}", os.O_WRONLY)
        os.pwrite(fd, self.cursor(source, place), 0)
        is_sealed = not os.fstat(fd).st_mode & 0o200
        os.close(fd)
        if is_sealed:  # L-31
            raise SystemExit("another process has the name")

    def before_fence(self, source: str, lane: Path, at: tuple[int, int], size: int) -> int:
        for path in lane.glob("*.fence"):
            data = path.read_bytes()
            _, _, new, old, segment, _, end = FENCE.unpack_from(data)
            sound = data[32:] == self.lane_mac(source, self.name, data[:32])
            if sound and at[0] < new and at >= (old, segment):
                size = min(size, end if at == (old, segment) else 0)
        return size

    def open(self, source: str, generation: int, data: bytes, at: int) -> tuple[int, int, int, bytes, int] | None:
        """W-5, W-12. At the first damage the lane stands still: finding the next envelope (L-16) is for full nodes."""
        if len(data) < at + HEADERS.size:
            return None
        head = data[at : at + HEADERS.size]
        version, type_, flags, length, sequence, _, size, from_, to, key_id, zero, nonce = HEADERS.unpack(head)
        end = at + HEADERS.size + size + TAG
        is_sound = (version, length, zero, from_, to, key_id) == (1, 64, 0, node_id(source), self.id, self.key_id)
        if not is_sound or type_ not in FLAGS or flags & ~FLAGS[type_] or size > MOST:
            return self.refuse("header")
        if sequence >> COUNTER_BITS != generation or not sequence & (1 << COUNTER_BITS) - 1:
            return self.refuse("BAD_SEQUENCE")
        if len(data) < end:
            return None
        try:
            key = self.link_key(source, self.name, generation)
            return type_, flags, sequence, unseal(data[at + HEADERS.size : end], head, nonce, key), end
        except Exception:
            return self.refuse("BAD_TAG")

    def refuse(self, code: str) -> None:
        self.refused[code] = self.refused.get(code, 0) + 1

    # --- what was read: A-6, S-1 to S-11 ---

    def take(self, source: str, type_: int, flags: int, sequence: int, payload: bytes) -> None:
        is_allowed = source in self.allow or any(a.endswith(".*") and source.startswith(a[:-1]) for a in self.allow)
        if type_ in (MESSAGE, EVENT):
            if flags & 1 and is_allowed:
                why = {"errorCode": "INVALID_ARGUMENTS", "errorMessage": "this node takes no messages"}
                self.send(source, ERROR, REPLY, {**why, "sequence": sequence})
            return None
        try:
            told = msgpack.unpackb(payload)
            request_id = told["requestId"]
        except Exception:
            return self.refuse("BAD_PAYLOAD")
        if type_ == REQUEST:
            self.send(source, RESPONSE, REPLY, {"requestId": request_id, **self.serve(source, told, is_allowed)})
        elif type_ == HEARTBEAT and not flags & REPLY and is_allowed:
            self.send(source, HEARTBEAT, REPLY, {"requestId": request_id})
        elif type_ in (RESPONSE, HEARTBEAT, ERROR) and self.answers.get(request_id) == {"asked": source}:  # S-6
            self.answers[request_id] = told
        return None

    def serve(self, source: str, told: dict[str, Any], is_allowed: bool) -> dict[str, Any]:
        if told["generation"] != self.generation:  # S-8: whatever is granted
            return {"status": "ERROR", "errorCode": "REPLACED", "errorMessage": ""}
        if not is_allowed:
            return {"status": "ERROR", "errorCode": "ACCESS_DENIED", "errorMessage": ""}
        if told["caller"] != source:
            return {"status": "ERROR", "errorCode": "INVALID_ARGUMENTS", "errorMessage": "caller is not the sender"}
        if told["deadline"] <= unix_ms():
            return {"status": "ERROR", "errorCode": "TIMEOUT", "errorMessage": "", "details": {"phase": "queued"}}
        if told["service"] not in self.services:
            return {"status": "ERROR", "errorCode": "SERVICE_NOT_FOUND", "errorMessage": told["service"]}
        try:
            return {"status": "SUCCESS", "result": self.services[told["service"]](**told["arguments"])}
        except Exception as error:
            code = "INVALID_ARGUMENTS" if isinstance(error, TypeError) else "EXECUTION_FAILED"
            return {"status": "ERROR", "errorCode": code, "errorMessage": f"{type(error).__name__}: {error}"}

    # --- what it asks ---

    def ask(self, target: str, type_: int, payload: dict[str, Any]) -> dict[str, Any]:
        self.numbers += 1
        request_id = f"{self.generation}.{self.numbers}"
        self.answers[request_id] = {"asked": target}
        self.send(target, type_, 0, {"requestId": request_id, **payload})
        until = now_ms() + 30_250
        while self.answers[request_id] == {"asked": target}:
            if now_ms() > until:
                raise Remote("TIMEOUT", target)
            self.turn()
        return self.answers.pop(request_id)

    def ping(self, target: str) -> None:
        self.ask(target, HEARTBEAT, {})

    def call(self, target: str, service: str, arguments: dict[str, Any]) -> Any:
        deadline = unix_ms() + 30_000
        while (entry := self.read_signed(self.root / f"speed_registry/{target}.node")) and entry[
            "status"
        ] == "starting":
            if unix_ms() > deadline:
                raise Remote("NODE_STARTING", target)
            self.turn()
        if entry is None:
            raise Remote("UNKNOWN_NODE", target)
        asked = {"service": service, "caller": self.name, "generation": entry["generation"], "deadline": deadline}
        answer = self.ask(target, REQUEST, {**asked, "arguments": arguments})
        if answer.get("status") != "SUCCESS":
            raise Remote(answer["errorCode"], answer.get("errorMessage", ""))
        return answer.get("result")

    # --- its one thread ---

    def turn(self, *others: int) -> list[int]:
        """Wait for a ring at most half a second, read all lanes, renew the lease; which others are readable."""
        ready, _, _ = select.select([self.bell, *others], [], [], 0.5)
        with contextlib.suppress(BlockingIOError):
            os.read(self.bell, 65536)
        for lane in (self.home / "inbox").iterdir():
            self.read(lane.name)
        if self.beaten() >= HEARTBEAT_MS:
            self.beat()
        return [one for one in ready if one != self.bell]

    def close(self) -> None:
        """R-15."""
        self.status = "leaving"
        self.beat()
        self.turn()
        (self.root / f"speed_registry/{self.name}.node").unlink()
        self.claimed.chmod(0o400)
        os.close(self.bell)


def main(root: str, name: str, *allow: str) -> None:
    node = Node(Path(root), name, list(allow), {"add": lambda a, b: a + b})
    print(json.dumps(["ready", node.generation]), flush=True)
    while True:
        if sys.stdin.fileno() not in node.turn(sys.stdin.fileno()):
            continue
        verb, *words = json.loads(sys.stdin.readline() or '["close"]')
        try:
            print(json.dumps(["ok", getattr(node, verb)(*words)]), flush=True)
        except Remote as error:
            print(json.dumps(["error", *error.args]), flush=True)
        if verb == "close":
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
