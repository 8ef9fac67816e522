"""The three services; each file stands alone and ends in ``register(node)``."""
