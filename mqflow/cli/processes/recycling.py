"""The limits of one process: a number of messages, and an amount of memory. At a limit, the process drains and ends.

Then a new process takes its place, so a library that leaks memory does no harm. This file starts and ends no process.
"""

import os
import resource
import sys
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
from msgspec import Struct

from mqflow.events import Event, Settled

__all__ = ("Limits", "Recycling", "first_of")

_KIB: Final = 1_024
_PEAK_UNIT: Final = 1 if sys.platform == "darwin" else _KIB
"""The number of bytes in a unit of `ru_maxrss`. macOS counts in bytes, other systems in KiB."""


class Limits(Struct, frozen=True, kw_only=True):
    """The limits. None means that there is no limit."""

    #: The largest number of messages whose unit of work has ended.
    messages: int | None = None
    #: The largest amount of memory that the process may have used at any time, in MiB.
    memory_mib: int | None = None

    def __bool__(self) -> bool:
        return self.messages is not None or self.memory_mib is not None

    def options(self) -> list[str]:
        """Return these limits as options of `mqflow run`."""
        given = (("--recycle-after", self.messages), ("--recycle-above", self.memory_mib))
        return [part for name, limit in given if limit is not None for part in (name, str(limit))]


class Recycling:
    """A hook that counts the messages whose unit of work has ended, and checks the memory."""

    wants: Final = (Settled,)

    def __init__(self, limits: Limits, peak_bytes: Callable[[], int] | None = None) -> None:
        self._limits: Final = limits
        self._peak_bytes: Final = peak_bytes or _peak_bytes
        self.messages: int = 0
        #: The reason why the process ends; empty before a limit is reached.
        self.why: str = ""
        # Any thread can report an event, and a pipe can wake the event loop from any thread.
        self._read_end, self._write_end = os.pipe()

    def __call__(self, event: Event) -> None:
        """Count the messages of the event, and check the memory."""
        if not isinstance(event, Settled) or event.outcome is None or self.why:
            return
        self.messages += len(event.message_ids)
        limits = self._limits
        if limits.messages is not None and self.messages >= limits.messages:
            self.why = f"it has handled {self.messages:,} message{'' if self.messages == 1 else 's'}"
        elif limits.memory_mib is not None and self._peak_bytes() > limits.memory_mib * _KIB * _KIB:
            self.why = f"it has used more than {limits.memory_mib:,} MiB"
        if self.why and self._write_end >= 0:
            os.write(self._write_end, b"!")

    async def reached(self) -> None:
        """Wait until a limit is reached."""
        await anyio.wait_readable(self._read_end)

    def close(self) -> None:
        """Close the pipe. A thread can report a later event: another file can then have the number of the pipe."""
        write_end, self._write_end = self._write_end, -1
        os.close(self._read_end)
        os.close(write_end)


async def first_of(*waits: Callable[[], Awaitable[None]]) -> None:
    """Wait until the first of these waits returns. Then cancel the others."""
    async with anyio.create_task_group() as group:

        async def wait(each: Callable[[], Awaitable[None]]) -> None:
            await each()
            group.cancel_scope.cancel()

        for each in waits:
            group.start_soon(wait, each)


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _PEAK_UNIT
