"""What a message proves, hides and says beyond its envelope (registry_spec/messages.md, M-16 to M-32).

Pure: bytes, keys and times are passed in; randomness of keys and nonces comes from OpenSSL, by ``cryptography``.
"""
