"""Durable topics for WebSocket clients: Pulsar's WebSocket API, served by speedd (``[gateway]``).

What parses (``requests``, ``frames``) knows no sockets. ``connection`` holds the bounds of one connection, ``producer``
and ``consumer`` what is said on it, ``server`` who may begin and the thread. ``encryption`` has the keys that the
gateway encrypts and decrypts with. But for ``settings`` nothing here is imported unless a gateway is configured.
"""
