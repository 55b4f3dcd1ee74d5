"""A consumer as a process of its own: puts durable messages, handles them, prints when the first was handled and its memory."""

import sys
import time
from pathlib import Path

import anyio
from msgspec import Struct

import mqflow

QUEUE = "SYSTEM.DEFAULT.LOCAL.QUEUE"


class Order(Struct):
    """The payload."""

    id: int


async def main(folder: str, messages: int) -> None:
    """Run until so many messages were handled."""
    app = mqflow.App(f"embedded:{folder}?qmgr=BENCH")
    handled, first_at = 0, 0.0
    over = anyio.Event()

    @app.listener(QUEUE, backout=mqflow.Backout(threshold=3, queue="SYSTEM.DEAD.LETTER.QUEUE"))
    async def handle(_: Order) -> None:
        nonlocal handled, first_at
        handled += 1
        if handled == 1:
            first_at = time.time()
        if handled == messages:
            over.set()

    async with app.running():
        for number in range(messages):
            await app.put(QUEUE, Order(number), persistent=True)
        await over.wait()
        sys.stdout.write(f'{{"first_message_at": {first_at!r}, "rss_kb": {rss_kb()}}}')


def rss_kb() -> int:
    """Return the memory this process has now."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1])


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], int(sys.argv[2]))
