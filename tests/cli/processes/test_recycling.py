"""A process that reaches a limit drains and ends, and a new one takes its place: no message fails, none is handled twice."""

import os
import resource
import threading

import anyio
import pytest

from mqflow import Completed, Failed
from mqflow.cli.processes.recycling import Limits, Recycling, first_of
from mqflow.events import Settled
from mqflow.policy.poison.disposition import Outcome, Settlement

MIB = 1_024 * 1_024


def settled(count: int, outcome: Outcome | None = Completed()) -> Settled:  # noqa: B008 - an immutable record
    identifiers = tuple(number.to_bytes(24) for number in range(count))
    return Settled(queue="IN", listener="book", settlement=Settlement.COMMIT, message_ids=identifiers, outcome=outcome)


@pytest.mark.parametrize(
    ("limits", "events", "peak_mib", "why"),
    [
        (Limits(messages=3), [settled(1), settled(1)], 0, ""),
        (Limits(messages=3), [settled(1), settled(2)], 0, "it has handled 3 messages"),
        (Limits(messages=3), [settled(2), settled(2)], 0, "it has handled 4 messages"),
        (Limits(messages=1), [settled(1, Failed(error="ValueError"))], 0, "it has handled 1 message"),
        (Limits(messages=1), [settled(5, None)], 0, ""),  # found poison: no handler ran
        (Limits(memory_mib=100), [settled(1)], 100, ""),
        (Limits(memory_mib=100), [settled(1)], 101, "it has used more than 100 MiB"),
        (Limits(messages=1, memory_mib=1), [settled(1)], 2, "it has handled 1 message"),
    ],
)
def test_the_limit_that_is_reached_is_the_reason(limits: Limits, events: list[Settled], peak_mib: int, why: str) -> None:
    recycling = Recycling(limits, lambda: peak_mib * MIB)

    for event in events:
        recycling(event)

    assert why == recycling.why
    recycling.close()


def test_a_limit_that_another_thread_reaches_ends_the_wait_and_cancels_the_other_waits(backend: str) -> None:
    recycling, cancelled = Recycling(Limits(messages=1)), list[bool]()

    async def for_ever() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(True)

    async def main() -> None:
        thread = threading.Thread(target=recycling, args=(settled(1),))
        thread.start()
        await first_of(recycling.reached, for_ever)
        thread.join()

    anyio.run(main, backend=backend)

    assert ("it has handled 1 message", [True]) == (recycling.why, cancelled)
    recycling.close()


def test_a_limit_that_is_reached_after_the_end_writes_into_no_other_file() -> None:
    recycling = Recycling(Limits(messages=1))
    recycling.close()
    read_end, write_end = os.pipe()  # with the numbers of the closed pipe

    recycling(settled(1))

    os.close(write_end)
    assert ("it has handled 1 message", b"") == (recycling.why, os.read(read_end, 1))
    os.close(read_end)


def test_the_memory_of_a_process_is_its_peak() -> None:
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # on Linux
    below, above = Recycling(Limits(memory_mib=peak_kib // 1_024 - 1)), Recycling(Limits(memory_mib=4 * peak_kib // 1_024))

    for recycling in (below, above):
        recycling(settled(1))
        recycling.close()

    assert [True, False] == [bool(recycling.why) for recycling in (below, above)]
