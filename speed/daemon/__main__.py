"""``python -m speed.daemon`` is ``speedd``."""

from speed.daemon import main

main()
