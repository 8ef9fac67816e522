"""Durable topics for WebSocket clients: Pulsar's WebSocket API, served by speedd (``[gateway]``).

What parses (``addresses``, ``parameters``, ``message_ids``, ``frames``, ``encryption``) knows no sockets.
``connection`` holds the bounds of one connection, ``producer``, ``consumer`` and ``reader`` what is said on it, ``app``
who may begin, ``door`` who comes in at all, ``server`` the thread. ``held_keys`` has the keys that the gateway encrypts
and decrypts with, which ``opener`` does for consumers and readers. But for ``settings`` nothing here is imported unless
a gateway is configured.
"""
