"""The shape of ``speed/`` in figures: how many files, how large, and how many are met on the way of one verb."""
