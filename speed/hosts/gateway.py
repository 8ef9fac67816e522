"""The gateway of a root: what its nodes say to other hosts goes out, and what other hosts say comes in."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from speed.backends.address import Address
from speed.core import counters
from speed.core.log import logger
from speed.engine.tracing import LogLimiter
from speed.errors import WireError
from speed.hosts import HostGrants
from speed.hosts.link import LIFE_BYTES, HostLink, PairSeal
from speed.hosts.nats import NatsConnection
from speed.hosts.services import OPERATIONS, InboundRequests, OutboundRequests, ProxyNodes
from speed.wire.envelope import EnvelopeType, parse_header
from speed.wire.limits import AAD_BYTES, TAG_BYTES
from speed.wire.names import SUBJECT, host_id
from speed.wire.seal import Keyring, random_bytes

if TYPE_CHECKING:
    from speed.node.node import Node

log = logger("speed.hosts")

GREET_SECONDS = 2.0
"""Between two greetings."""
END_SECONDS = 3.0


class HostGateway:
    """One host among others. It listens once ``start`` is called."""

    def __init__(
        self,
        name: str,
        address: Address,
        keyrings: Mapping[str, Keyring],
        grants: HostGrants,
        node: Node,
        stand_ins: ProxyNodes,
        max_calls: int,
    ) -> None:
        """``keyrings``: for each other host the keys of the pair. ``node`` is the gateway's own. ConfigurationError."""
        self.name = name
        self.grants = grants
        self._id = host_id(name)
        self._counts: Counter[str] = Counter()
        self._limiter = LogLimiter()
        self._wake = threading.Event()
        """There is something to greet about: a connection, or the end."""
        self._broker = NatsConnection(address, SUBJECT + name, self._arrived, self._wake.set)
        life = random_bytes(LIFE_BYTES)
        self.links = {
            other: HostLink(other, PairSeal(ring, name, other), self._broker, life, self.count)
            for other, ring in keyrings.items()
        }
        self._by_id = {link.other_id: link for link in self.links.values()}
        self._stand_ins = stand_ins
        self._inbound = InboundRequests(name, lambda: self.grants, stand_ins, max_calls, self.count)
        self._stop = threading.Event()
        self._greeting = threading.Thread(target=self._greet, name="speed-hosts-greet", daemon=True)
        self._outbound = OutboundRequests(name, self.links, lambda: self.grants)
        for operation in OPERATIONS:
            node.register(operation, self._outbound)
        node.register("list", self.listed)

    def start(self) -> None:
        """Connect, and greet the other hosts."""
        self._broker.start()
        self._greeting.start()

    def close(self) -> None:
        """End; what is under way is withdrawn."""
        self._stop.set()
        self._wake.set()
        self._inbound.close()
        self._broker.close()
        self._greeting.join(END_SECONDS)
        self._stand_ins.close()

    def count(self, name: str) -> None:
        """Count one more."""
        self._counts[name] += 1

    def _greet(self) -> None:
        while not self._stop.is_set():
            for link in self.links.values():
                link.tick()
            self._wake.wait(GREET_SECONDS)
            self._wake.clear()

    # --- what comes ---

    def _arrived(self, envelope: bytes) -> None:
        """Something came on the subject of this host; anybody may have sent it."""
        try:
            self._take(envelope)
        except WireError as error:
            self.count(counters.HOSTS_REFUSED_REPLAYED if error.reason == "BAD_SEQUENCE" else counters.HOSTS_REFUSED)
            self._limiter.warn(log, f"refused {error.reason}", "refused what came from the NATS server: %s", error)
        except Exception as error:  # whatever it is: others are still heard
            self._limiter.failed(log, "hearing other hosts", error)

    def _take(self, envelope: bytes) -> None:
        header = parse_header(envelope)
        link = self._by_id.get(header.source)
        if link is None:
            raise WireError("WRONG_SOURCE", "it names no host that is known here")
        if header.target != self._id:
            raise WireError("WRONG_TARGET", "it is for another host")
        if len(envelope) != AAD_BYTES + header.payload_bytes + TAG_BYTES:
            raise WireError("TRUNCATED", "it has another length than it says")
        if header.type == EnvelopeType.DISCOVERY:
            link.greeted(header, envelope)
        elif header.type == EnvelopeType.SPC_REQUEST:
            self._inbound.take(link, link.opened(header, envelope))
        elif header.type == EnvelopeType.SPC_RESPONSE:
            link.complete(link.opened(header, envelope))
        else:
            raise WireError("BAD_TYPE", f"no host sends type {header.type}")

    # --- what is told ---

    def listed(self) -> dict[str, Any]:
        """The hosts and how they are, for `speed hosts`."""
        hosts = [
            {
                "host": link.name,
                "up": link.is_up,
                "roundTripMs": round(link.round_trip * 1000, 3),
                "waiting": link.in_flight,
                "keyId": link.key_id,
            }
            for link in self.links.values()
        ]
        return {
            "name": self.name,
            "broker": self._broker.trouble or "connected",
            "serving": len(self._inbound),
            "hosts": hosts,
            "counters": dict(self._counts),
        }
