"""A thread of ours as a worker thread of anyio: what `anyio.from_thread` finds on it, and that nothing of it stays."""

import sys
import threading
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from mqflow.runtime.connection.worker_thread import WorkerThread

pytestmark = pytest.mark.anyio


def known() -> dict[str, object]:
    """Return everything that anyio and trio know about this thread."""
    ours: Any = vars(anyio.from_thread)["threadlocals"]
    trio: Any = sys.modules.get("trio._threads")
    return {**vars(ours), **(vars(trio.PARENT_TASK_DATA) if trio is not None else {})}


async def test_a_thread_belongs_to_its_event_loop_only_inside_the_context(anyio_backend_name: str) -> None:
    found, loop = list[object](), threading.get_ident()

    def work(place: WorkerThread) -> None:
        for _ in range(2):
            with place.entered():
                found.append(sorted(known()))
                found.append(loop == anyio.from_thread.run_sync(threading.get_ident))
                anyio.from_thread.check_cancelled()
            found.append(known())
        with pytest.raises(ValueError, match="of the handler"), place.entered():
            raise ValueError("of the handler")
        found.append(known())

    with anyio.CancelScope() as scope:
        thread = threading.Thread(target=work, args=(WorkerThread(scope),), daemon=True)
        thread.start()
        await anyio.to_thread.run_sync(thread.join, 10)

    names = {
        "asyncio": ["current_cancel_scope", "current_token"],
        "trio": ["abandon_on_cancel", "cancel_register", "current_token", "task_register", "token"],
    }[anyio_backend_name]
    assert [*[names, True, {}] * 2, {}] == found


async def test_a_cancelled_delivery_is_cancelled_on_its_thread_too(anyio_backend_name: str) -> None:
    found = list[object]()

    def check(place: WorkerThread) -> None:
        with place.entered():
            try:
                anyio.from_thread.check_cancelled()
            except BaseException as error:  # noqa: BLE001 - each event loop has its own class
                found.append(type(error) is cancelled)
            else:
                found.append("goes on")

    cancelled = anyio.get_cancelled_exc_class()
    with anyio.CancelScope() as scope:
        place = WorkerThread(scope)
        for _ in range(2):
            thread = threading.Thread(target=check, args=(place,), daemon=True)
            thread.start()
            thread.join(10)
            try:
                scope.cancel()
                await anyio.lowlevel.checkpoint()
            except cancelled as error:
                place.cancel(error)

    assert ["goes on", True] == found
