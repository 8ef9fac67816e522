"""The native engine: ``speed.Node`` on the C++ core, through the extension module ``speed._native``.

Wheels bring it; where it could not be built, nodes run in pure Python. It is used only when it was built from this
version and for this contract.
"""

from __future__ import annotations

import json
from functools import cache

from speed.wire import limits

try:
    import speed._native as _native
except ModuleNotFoundError:
    _missing = "this installation was made without it"
except ImportError as error:
    _missing = str(error)
else:
    _missing = ""


@cache
def why_unusable(version: str) -> str:
    """Why the extension cannot be used with this ``version``, for people; empty if it can."""
    if _missing:
        return _missing
    if _native.version != version:
        return f"it was built from version {_native.version}, this is {version}"
    if not all(hasattr(_native.Engine, method) for method in ("fetch", "withdraw", "on_lost")):
        return "it was built from older sources"
    theirs = json.loads(_native.limits)
    differing = [name for name, value in theirs.items() if getattr(limits, name.upper(), None) != value]
    return f"it was built for another contract: {', '.join(differing)}" if differing else ""
