"""The application of `benchmarks.workers`: one listener with a handler that only counts, and writes the count to a file.

The first call of the handler waits until the file `go` exists. So the measurement does not include the start of any process.
"""

import mmap
import os
import struct
import time
from pathlib import Path
from typing import Final

import anyio

from benchmarks.orders import Order
from mqflow import App

__all__ = ("COUNT", "GO", "QUEUE", "SUFFIX", "UNIT_VARIABLE", "app")

QUEUE: Final = "ORDERS.IN"
GO: Final = "go"
SUFFIX: Final = ".count"
#: The number of messages that a process has handled after `go`, and the time of the last one by the monotonic clock.
COUNT: Final = struct.Struct("=Qd")
UNIT_VARIABLE: Final = "BENCHMARK_UNIT_OF_WORK"

app: Final = App()
_handled = 0
_counts: mmap.mmap | None = None


@app.listener(QUEUE, unit_of_work=int(os.environ.get(UNIT_VARIABLE, "1")))
async def handle(order: Order) -> None:
    """Count the message."""
    global _handled  # noqa: PLW0603 - one process, one count
    assert order.id
    counts = await _ready() if _counts is None else _counts
    _handled += 1
    COUNT.pack_into(counts, 0, _handled, time.monotonic())


async def _ready() -> mmap.mmap:
    """Make the file of this process, and wait for the file `go`."""
    global _counts  # noqa: PLW0603 - as above
    _counts = _count_file(Path(f"{os.getpid()}{SUFFIX}"))
    go = anyio.Path(GO)
    while not await go.exists():  # noqa: ASYNC110 - another process makes the file
        await anyio.sleep(0.005)
    return _counts


def _count_file(path: Path) -> mmap.mmap:
    new = path.with_suffix(".new")
    new.write_bytes(bytes(COUNT.size))
    new.rename(path)  # the measuring process reads each file with the right name
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), COUNT.size)
