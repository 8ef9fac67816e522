"""Messages in Kafka, NATS, Redis, PostgreSQL, S3 and SQS (bridges.md). Programs use ``speed.messages``.

``open_backend`` gives one backend; its library is imported then.
"""

from __future__ import annotations

from importlib import import_module

from speed.backends.address import Address, parse_address
from speed.backends.backend import MAX_MESSAGE_BYTES, Backend
from speed.errors import ConfigurationError

_MODULES = {
    "kafka": ("confluent_kafka", "speed.backends.kafka", "KafkaBackend"),
    "nats": ("nats", "speed.backends.nats", "NatsBackend"),
    "redis": ("redis", "speed.backends.redis", "RedisBackend"),
    "postgres": ("asyncpg", "speed.backends.postgres", "PostgresBackend"),
    "s3": ("boto3", "speed.backends.s3", "S3Backend"),
    "sqs": ("boto3", "speed.backends.sqs", "SqsBackend"),
}


def open_backend(address: Address | str, max_message_bytes: int = MAX_MESSAGE_BYTES) -> Backend:
    """The backend of an address; it connects when it is first used.

    ``max_message_bytes`` bounds what is published. ConfigurationError for an address that is none, and for a library
    that is not installed.
    """
    parsed = parse_address(address) if isinstance(address, str) else address
    library, module, name = _MODULES[parsed.backend]
    try:
        import_module(library)
    except ImportError:
        raise ConfigurationError(f"{parsed.backend} needs its library: install speed-ipc[{parsed.backend}]") from None
    backend: Backend = getattr(import_module(module), name)(parsed, max_message_bytes)
    return backend


__all__ = ["open_backend"]
