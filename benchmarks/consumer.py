"""A consumer in its own process: puts durable messages, handles them, and prints the time of each phase and its memory."""

import sys
import time

phases: dict[str, tuple[float, float]] = {"the interpreter is up": (time.time(), time.process_time())}

from pathlib import Path  # noqa: E402 - the import is a part of the measurement

import anyio  # noqa: E402 - as above
from msgspec import Struct, json  # noqa: E402 - as above

import mqflow  # noqa: E402 - as above

QUEUE = "SYSTEM.DEFAULT.LOCAL.QUEUE"


class Order(Struct):
    """The payload."""

    id: int


def reached(phase: str) -> None:
    """Record the time when a phase ends; later calls for the same phase change nothing."""
    phases.setdefault(phase, (time.time(), time.process_time()))


async def main(folder: str, messages: int) -> None:
    """Run until the given number of messages is handled."""
    app = mqflow.App(f"embedded:{folder}?qmgr=BENCH")
    reached("mqflow is imported")
    handled = 0
    over = anyio.Event()

    @app.listener(QUEUE, backout=mqflow.Backout(threshold=3, queue="SYSTEM.DEAD.LETTER.QUEUE"))
    async def handle(_: Order) -> None:
        nonlocal handled
        reached("the first message is handled")
        handled += 1
        if handled == messages:
            over.set()

    app.on_start(lambda: reached("a new data folder is open"))
    async with app.running():
        reached("the listener listens")
        for number in range(messages):
            await app.put(QUEUE, Order(number), persistent=True)
        await over.wait()
        sys.stdout.buffer.write(json.encode({"phases": phases, "rss_kb": rss_kb()}))


def rss_kb() -> int:
    """Return the present memory of this process, in kB."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1])


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], int(sys.argv[2]))
