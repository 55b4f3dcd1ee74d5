"""Lives in child processes, each ended by SIGKILL at a chosen step: before or after a call of the MQI."""

import os
import signal
from collections.abc import Callable
from typing import Any

from mqflow.verbs import Connection

__all__ = ("Death", "in_a_child", "mortal")


class Death:
    """Kills the process after so many steps: before and after each call. It prints the last step if `says`."""

    def __init__(self, steps: int, *, says: bool = False) -> None:
        self._left = steps
        self._says = says

    def step(self, place: str) -> None:
        self._left -= 1
        if not self._left:
            if self._says:
                os.write(1, f"at {place}\n".encode())
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with a step before and a step after it."""

        def call(*args: Any, **options: Any) -> Any:
            self.step(f"before {name}")
            result = function(*args, **options)
            self.step(f"after {name}")
            return result

        return call


class _Mortal:
    def __init__(self, inner: Connection, death: Death) -> None:
        self._inner = inner
        self._death = death

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return self._death.around(name, found) if callable(found) else found


def mortal(connection: Connection, death: Death) -> Connection:
    """Return a connection whose process dies before or after one of its calls."""
    found: Any = _Mortal(connection, death)  # Any: it passes every verb on
    return found  # type: ignore[no-any-return]


def in_a_child(work: Callable[[], object]) -> bool:
    """Run one life in a child process, and return whether it ended normally. Any end but that and SIGKILL is an error.

    The parent process must not open the store.
    """
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitpid(pid, 0)[1]
    assert os.waitstatus_to_exitcode(status) in {0, -signal.SIGKILL}
    return status == 0
