"""A shop over two hosts, joined by a NATS server."""
