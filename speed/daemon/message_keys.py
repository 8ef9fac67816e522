"""The keys of declared encryption: the next one is added to their file when it is due."""

from __future__ import annotations

from typing import Any

from speed.errors import SpeedError
from speed.message.declared import EncryptionSettings

LOOK_SECONDS = 600.0
_FILE = "file://"


class MessageKeyRotation:
    """Looks at the file of keys now and then; does nothing where no rotation is declared."""

    def __init__(self, settings: EncryptionSettings | None, log: Any) -> None:
        self._rotation = settings.key_rotation if settings is not None and settings.key_rotation.enabled else None
        self._path = "" if settings is None or self._rotation is None else settings.uri.removeprefix(_FILE)
        self._log = log
        self._next = float("-inf")

    def look(self, now: float) -> None:
        """Rotate if it is due; ``now`` in monotonic seconds. What fails is logged, and tried again at the next look."""
        if self._rotation is None or now < self._next:
            return
        self._next = now + LOOK_SECONDS
        from speed.trust.rotating import rotate_file

        try:
            fresh = rotate_file(self._path, self._rotation.period_ms, self._rotation.overlap_ms)
        except (SpeedError, OSError) as error:
            self._log.error("message_key_not_rotated", file=self._path, reason=str(error))
            return
        if fresh is not None:
            self._log.info("message_key_rotated", file=self._path, key_id=fresh.id)
