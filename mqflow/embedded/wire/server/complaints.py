"""Log lines about peers that break the protocol. Their number in each minute is limited.

This module knows no socket.
"""

import logging
from typing import Final

from mqflow.world import World

__all__ = ("LINES_A_MINUTE", "Complaints")

LINES_A_MINUTE: Final = 10
_MINUTE_S: Final = 60.0
_logger: Final = logging.getLogger("mqflow")


class Complaints:
    """Logs and counts complaints about peers. Any thread can call this object."""

    def __init__(self, world: World) -> None:
        self._clock = world.clock
        self._guard = world.runner.lock()
        self._minute_began = world.clock.monotonic()
        self._lines = 0
        self._left_out = 0
        #: The sentences of `once` that are in the log.
        self._said: set[str] = set()
        #: The number of all complaints, with those that were left out of the log.
        self.count: int = 0

    def once(self, sentence: str) -> None:
        """Complain, unless the log already has this sentence. The caller must not let peers choose many different sentences."""
        if sentence not in self._said and self._logged(sentence):
            self._said.add(sentence)

    def __call__(self, sentence: str) -> None:
        """Count the complaint. Log it unless this minute's limit of lines is reached.

        The first line after that minute says how many lines were left out.
        """
        self._logged(sentence)

    def _logged(self, sentence: str) -> bool:
        with self._guard:
            now = self._clock.monotonic()
            self.count += 1
            if now - self._minute_began >= _MINUTE_S:
                if self._left_out:
                    sentence = f"{sentence} ({self._left_out} more lines of this kind were left out before.)"
                self._minute_began, self._lines, self._left_out = now, 0, 0
            if self._lines == LINES_A_MINUTE:
                self._left_out += 1
                return False
            self._lines += 1
            number = self.count
        _logger.warning("%s This is number %d since the start.", sentence, number)
        return True
