"""How a process learns that the one that started it is gone, however that ended: its end of a pipe says so.

The operating system closes the other end, even after SIGKILL. Knows pipes; knows nothing of what the processes do.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import click

__all__ = ("lifeline", "lifeline_option", "until_alone")


@contextmanager
def lifeline() -> Iterator[int]:
    """Give the descriptor to hand to processes that are to end with this one (`pass_fds`)."""
    theirs, ours = os.pipe()  # no process inherits `ours`: while another one had it, nothing would be noticed
    try:
        yield theirs
    finally:
        os.close(theirs)
        os.close(ours)


async def until_alone(descriptor: int) -> None:
    """Return when the process that gave the descriptor is gone."""
    os.set_inheritable(descriptor, False)
    while True:
        await anyio.wait_readable(descriptor)
        if not os.read(descriptor, 1):
            return


lifeline_option = click.option("--lifeline", "alone_by", type=int, hidden=True, metavar="DESCRIPTOR")
"""By which a command that this program starts for itself is told the descriptor."""
