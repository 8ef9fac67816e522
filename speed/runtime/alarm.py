"""What wakes the thread that reads: a deadline that comes earlier than its sleep ends, or a bell that nobody hears."""

from __future__ import annotations

from speed.fs.bell import Bell

SILENT_SECONDS = (0.001, 0.3)
"""First and longest pause between two looks at a process whose bell nobody hears: it may be about to end."""


class Alarm:
    """Shared by the thread that reads, which sleeps until ``due``, and all others, which wake it. Thread-safe.

    Without a bell there is nothing to ring: the thread polls.
    """

    def __init__(self, bell: Bell | None, own_id: bytes) -> None:
        self._bell = bell
        self._own_id = own_id
        self.due = 0.0
        """Until when the thread sleeps, in monotonic seconds; only the thread sets it."""
        self.silent: dict[str, tuple[float, float]] = {}
        """Nodes whose bell has no reader: when each is looked at next, and the pause before that."""

    def wake(self) -> None:
        """End the present sleep."""
        if self._bell is not None:
            self._bell.wake(self._own_id)

    def wake_by(self, deadline: float) -> None:
        """Have the thread awake at ``deadline`` (monotonic seconds), if its present sleep could outlast it."""
        if deadline < self.due:
            self.wake()

    def unheard(self, name: str) -> None:
        """A ring found no reader: if the process of ``name`` is gone, who waits for it is told at once."""
        if name not in self.silent:
            self.silent[name] = (0.0, SILENT_SECONDS[0])
            self.wake()
