"""The audit log. It has a line of JSON before each change, and a line with the result after it. Each line is synced to disk."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from mqflow.app.errors import ConfigurationError
from mqflow.cli.text.json_lines import json_line
from mqflow.world import Clock

__all__ = ("AuditLog",)


class AuditLog:
    """Appends lines to a file that only its owner can read."""

    def __init__(self, path: Path, clock: Clock, place: str = "") -> None:
        """Open the file, or create it. If that fails, raise `ConfigurationError`, so that no change is possible without a log.

        `place` is the name of an included application, which has its own queue manager. Each line contains this name.
        """
        self.path: Final = path
        self._place: Final = {"queue_manager": place} if place else {}
        self._clock: Final = clock
        try:
            self._file: Final = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError as error:
            raise ConfigurationError(
                f"The audit log {path} cannot be written: {error.strerror}. Name another with --audit."
            ) from error

    def write(self, **facts: Any) -> None:  # Any: values that JSON can have
        """Write a line with the time (UTC) and the facts. Raises `OSError` if the line could not be written to the disk."""
        at = datetime.fromtimestamp(self._clock.wall(), UTC)
        line = self._line_end() + json_line({"at": at, **self._place, **facts}) + b"\n"
        if os.write(self._file, line) != len(line):
            raise OSError(f"The audit log {self.path} took only a part of a line.")
        os.fsync(self._file)

    def _line_end(self) -> bytes:
        """Return a line end if the file ends with a part of a line, because the disk was full or the machine crashed."""
        size = os.fstat(self._file).st_size
        return b"" if not size or os.pread(self._file, 1, size - 1) == b"\n" else b"\n"
