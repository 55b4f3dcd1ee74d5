"""Makes a thread of a session a worker thread of anyio, so that a plain handler on it can call `anyio.from_thread`.

anyio and trio keep the data of such a thread in thread-local variables that are not public. Only this module uses them.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import anyio
from anyio.lowlevel import EventLoopToken, current_token

__all__ = ("WorkerThread",)


class WorkerThread:
    """The place on the event loop that a thread belongs to. It is made on the event loop, in a task."""

    def __init__(self, scope: anyio.CancelScope) -> None:
        self._scope: Final = scope
        self._token: Final[EventLoopToken] = current_token()
        # Event loops of asyncio, uvloop included, have this method. The token of trio does not have it.
        is_asyncio = hasattr(self._token.native_token, "call_soon_threadsafe")
        self._trio: Any = None if is_asyncio else sys.modules["trio._threads"].PARENT_TASK_DATA
        self._cancelled: list[Any] = [None]

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Make the calling thread a worker thread inside this context. If `scope` is cancelled, `check_cancelled` raises."""
        from anyio import from_thread  # noqa: PLC0415 - 1 ms, and few handlers are plain functions

        ours: Any = vars(from_thread)["threadlocals"]
        ours.current_token = self._token
        if self._trio is None:
            ours.current_cancel_scope = self._scope
        else:
            self._trio.token, self._trio.abandon_on_cancel = self._token.native_token, True
            self._trio.cancel_register, self._trio.task_register = self._cancelled, [None]
        try:
            yield
        finally:
            if self._trio is None:
                del ours.current_cancel_scope
            else:
                del self._trio.token, self._trio.abandon_on_cancel, self._trio.cancel_register, self._trio.task_register
            del ours.current_token

    def cancel(self, cancellation: BaseException) -> None:
        """Let `check_cancelled` raise this cancellation on the thread. On asyncio it checks the scope and needs no call."""

        def raise_cancelled() -> None:
            raise cancellation

        self._cancelled[0] = raise_cancelled
