"""How many examples a property test tries: a part in chosen tests, all in a whole run (``SPEED_EXAMPLES=all``).

Any other value is a part, for a step of a whole run to which a part is enough.
"""

from __future__ import annotations

import os

PART = 5


def examples(number: int) -> int:
    """How many of ``number`` are tried now."""
    return number if os.environ.get("SPEED_EXAMPLES") == "all" else number // PART
