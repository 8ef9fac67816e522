"""``python -m speed.cli`` is ``speed``."""

from speed.cli import main

main()
