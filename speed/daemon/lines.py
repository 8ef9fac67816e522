"""Lines from the bytes of a pipe, fit for a log."""

from __future__ import annotations

from speed.wire.harmless import harmless

MAX_LINE_CHARACTERS = 8192


class LineSplitter:
    """Turns the bytes of a pipe into lines; a line without an end is cut at a bound."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        """Complete lines in ``data`` together with what was left over before."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_LINE_CHARACTERS:
            lines.append(self._rest)
            self._rest = b""
        return [self._text(line) for line in lines if line.strip()]

    def end(self) -> list[str]:
        """The last line when the pipe closed."""
        return self.feed(b"\n")

    @staticmethod
    def _text(line: bytes) -> str:
        return harmless(line.decode("utf-8", "replace").rstrip("\r"), MAX_LINE_CHARACTERS - 1)
