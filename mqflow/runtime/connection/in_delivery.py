"""Whether the one who asks is in the midst of a delivery: a handler, or what it has started, while its unit of work is open.

Said by the worker, once; asked by who would wait for a connection meanwhile. Knows no session and no message.
"""

from contextvars import ContextVar
from typing import Final, Protocol

__all__ = ("HoldsUnitOfWork", "delivers", "in_delivery")


class HoldsUnitOfWork(Protocol):
    """A worker."""

    @property
    def under_way(self) -> bool:
        """Whether it holds a unit of work just now."""
        ...


_WORKER: Final[ContextVar[tuple[object, HoldsUnitOfWork] | None]] = ContextVar("mqflow_worker", default=None)


def delivers(application: object, worker: HoldsUnitOfWork) -> None:
    """Say that what runs in this task from now on, and what it starts, is the work of this worker of the application."""
    _WORKER.set((application, worker))


def in_delivery(application: object) -> bool:
    """Return whether this runs within a unit of work of a delivery of this application; another one's does not count."""
    said = _WORKER.get()
    return said is not None and said[0] is application and said[1].under_way
