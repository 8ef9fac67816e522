"""The public ``Node``: ``speed.Node`` and what it hands out."""
