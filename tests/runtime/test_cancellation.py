"""A foreign cancellation ends no task of mqflow, and a cancel scope ends it at once."""

import asyncio

import anyio
import pytest
from anyio.lowlevel import checkpoint

from mqflow.runtime.cancellation import is_cancelled_from_within, raise_unless_foreign, remove_cancellation, undisturbed

WAITS_MAX = 9


def cancel_twice() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    task.cancel()


class Waits:
    """Waits until the scope around the caller ends them, and cancels the own task at first. Too many waits are an error."""

    def __init__(self, *, cancels: int) -> None:
        self.cancels, self.count = cancels, 0

    async def __call__(self) -> str:
        self.count += 1
        assert self.count <= WAITS_MAX
        if self.count <= self.cancels:
            cancel_twice()
        await checkpoint()
        return f"after {self.count}"


@pytest.mark.parametrize("cancels", [0, 1, 3])
def test_a_wait_begins_again_after_each_foreign_cancellation(cancels: int) -> None:
    async def main() -> tuple[str, bool]:
        return await undisturbed(Waits(cancels=cancels)), is_cancelled_from_within()

    assert (f"after {cancels + 1}", False) == asyncio.run(main())


def test_a_wait_ends_with_the_scope_around_it_and_does_not_begin_again(backend: str) -> None:
    waits = Waits(cancels=0)

    async def main() -> bool:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await undisturbed(waits)
        return scope.cancelled_caught

    assert (True, 1) == (anyio.run(main, backend=backend), waits.count)


def test_a_foreign_cancellation_is_counted_until_it_is_removed_and_does_not_reach_the_next_wait() -> None:
    async def main() -> list[bool]:
        found = [is_cancelled_from_within(), await remove_cancellation()]
        cancel_twice()
        found += [is_cancelled_from_within(), await remove_cancellation(), is_cancelled_from_within()]
        await checkpoint()
        try:
            cancel_twice()
            await checkpoint()
        except asyncio.CancelledError:  # delivered, and still counted
            found += [is_cancelled_from_within(), await remove_cancellation(), is_cancelled_from_within()]
        await raise_unless_foreign()
        return found

    assert [False, False, True, True, False, True, False, False] == asyncio.run(main())


def test_trio_counts_no_cancellation() -> None:
    async def main() -> list[bool]:
        await raise_unless_foreign()
        return [is_cancelled_from_within(), await remove_cancellation()]

    assert [False, False] == anyio.run(main, backend="trio")
