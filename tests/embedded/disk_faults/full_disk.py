"""Fills a store on a disk of a few megabytes and then drains it. Prints the results that a queue manager would get.

Run as a program on the faulty disk.
"""

import sys
from pathlib import Path

from mqflow.embedded.storage import ballast as reserve
from mqflow.embedded.storage.durable_store import DurableStore
from mqflow.embedded.storage.store import Change, MessageAdded, MessageRemoved, QueueDefined
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.errors import MQIError
from tests.embedded.storage.stored_messages import DEFINITIONS, OTHER_QUEUE, message, opened, say, serials, write

BODY = bytes(20_000)


def main(folder: str, others: str, ballast: str, free_bytes_min: str) -> None:
    """Fill and drain the store. `others` is the part of the disk that another program takes when half of the disk is full."""
    reserve.BALLAST_BYTES = int(ballast)  # the control test has no ballast (reserved space)
    with opened(Path(folder), free_bytes_min=int(free_bytes_min)) as (store, _):
        assert write(store, DEFINITIONS) is None
        there = _fill(store, Path(folder), int(others))
        say("stored", len(there))
        say("move", _answer(store, [MessageRemoved(there[0]), MessageAdded(message(10_000, BODY, queue=OTHER_QUEUE))]))
        refused = [serial for serial in there if _answer(store, [MessageRemoved(serial)]) != "done"]
        say("not removed", len(refused))
        (Path(folder) / "somebody else's").unlink()
        say("after", _answer(store, [MessageAdded(message(20_000, BODY))]))
        say("define", _answer(store, [QueueDefined(QueueAttributes(name="AFTER"))]))
    with opened(Path(folder)) as (_, snapshot):
        say("left", serials(snapshot))


def _fill(store: DurableStore, folder: Path, others: int) -> list[int]:
    """Put messages until the store refuses one. Half-way, another program fills the rest of the disk."""
    there: list[int] = []
    for serial in range(1, 10_000):
        if serial == 100:
            _take_what_is_left(folder / "somebody else's", others)
        answer = _answer(store, [MessageAdded(message(serial, BODY))])
        if answer != "done":
            say("put", answer)
            return there
        there.append(serial)
    raise AssertionError("the disk was never full")


def _take_what_is_left(path: Path, at_most: int) -> None:
    with path.open("wb", buffering=0) as file:
        taken = 0
        for piece in (65536, 4096, 512, 1):
            try:
                while taken + piece <= at_most:
                    taken += file.write(bytes(piece))
            except OSError:
                continue


def _answer(store: DurableStore, changes: list[Change]) -> str:
    error = write(store, changes)
    if error is None:
        return "done"
    return str(int(error.reason)) if isinstance(error, MQIError) else type(error).__name__


if __name__ == "__main__":
    main(*sys.argv[1:])
