"""Real servers of backends, for tests and trials: each with all its files in a directory of its own."""

from __future__ import annotations

from scripts.servers.kafka import Kafka
from scripts.servers.moto import Moto, MotoSqs
from scripts.servers.nats import Nats
from scripts.servers.postgres import Postgres
from scripts.servers.prometheus import Prometheus
from scripts.servers.pulsar import Pulsar
from scripts.servers.redis import FlushingRedis, Redis
from scripts.servers.server import Server

KINDS: dict[str, type[Server]] = {one.name: one for one in (Kafka, Nats, Redis, Postgres, Moto, MotoSqs)}
"""Those that ``speed.messages`` has a backend for."""

__all__ = [
    "KINDS",
    "FlushingRedis",
    "Kafka",
    "Moto",
    "MotoSqs",
    "Nats",
    "Postgres",
    "Prometheus",
    "Pulsar",
    "Redis",
    "Server",
]
