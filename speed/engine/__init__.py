"""The engines of ``Node``: what both share, the native one, and which one a program gets; ``python`` is the other."""
