"""Restarts tasks of listeners and services.

If a task ends although nothing stopped it, this is an incident, and the task starts again. The cause of an incident is a defect
of mqflow or of a plugin, or code of the application that cancels tasks of mqflow. A lost connection or a refused call is not an
incident; the listener itself reacts to it.
"""

import traceback
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
from msgspec import Struct

from mqflow.events import ConsumerFailed
from mqflow.mqi.errors import MQIError
from mqflow.policy.poison import redelivery_delay
from mqflow.policy.poison.redelivery_delay import Pace
from mqflow.runtime.cancellation import raise_unless_foreign, undisturbed
from mqflow.runtime.hooks import Broadcast
from mqflow.world import World

__all__ = ("EndedEarlyError", "Restarts", "Task")

_PACE: Final = Pace(first_s=1.0, max_s=60.0)
_STABLE_S: Final = 60.0
"""If a task has run this many seconds before an incident, the incident counts as the first in a row."""


class EndedEarlyError(Exception):
    """A task of a listener or service returned although nothing had stopped it."""


class Task(Struct, frozen=True, kw_only=True):
    """A task that must run until its application stops."""

    #: The name of the task, for people.
    name: str
    queue: str = ""
    #: Runs the task. Returns if the task has ended well, and raises `MQIError` if the application must end.
    run: Callable[[], Awaitable[None]]
    #: Returns true if the task has worked before. If not, its exception ends the application, which then cannot start.
    has_run: Callable[[], bool]
    #: Called after an incident, before the pause, to record that the task's objects are not open.
    lacks: Callable[[], None]
    stopping: anyio.Event


class Restarts:
    """Restarts the tasks of one application, and counts the incidents."""

    def __init__(self, broadcast: Broadcast, world: World) -> None:
        self._broadcast: Final = broadcast
        self._world: Final = world
        #: The number of incidents so far.
        self.incidents: int = 0

    async def keep(self, task: Task) -> None:
        """Run the task until it has ended well, or was stopped during a pause. After an incident, pause, and run it again.

        Raises the cancellation of a cancel scope around the caller, and the errors that must end the application.
        """
        failures = 0
        while True:
            began = self._world.clock.monotonic()
            try:
                await task.run()
                break
            except BaseException as error:  # noqa: BLE001 - an unknown error must not end a consumer
                await _raise_unless_incident(error, task)
                incident = error
            failures = 1 if self._world.clock.monotonic() - began >= _STABLE_S else failures + 1
            pause_s = redelivery_delay.pause_s(_PACE, failures, self._world.random.random())
            self._report(incident, task, failures, pause_s)
            if await _stops_within(pause_s, task.stopping):
                break

    def _report(self, incident: BaseException, task: Task, failures: int, pause_s: float) -> None:
        self.incidents += 1
        task.lacks()
        self._broadcast(
            ConsumerFailed(
                consumer=task.name,
                queue=task.queue,
                error="".join(traceback.format_exception_only(incident)).strip(),
                traceback="".join(traceback.format_exception(incident)),
                failures=failures,
                restarts_in_s=pause_s,
            )
        )


async def _raise_unless_incident(error: BaseException, task: Task) -> None:
    await raise_unless_foreign()
    group = error if isinstance(error, BaseExceptionGroup) else BaseExceptionGroup("", [error])
    if group.subgroup((MQIError, KeyboardInterrupt, GeneratorExit)) is not None:
        raise error
    # Code of the application can cancel a task at any time, even during its start. This alone does not prevent the start.
    if not task.has_run() and not isinstance(error, anyio.get_cancelled_exc_class()):
        raise error


async def _stops_within(pause_s: float, stopping: anyio.Event) -> bool:
    """Wait until the pause is over or the task must stop. Return whether the task must stop."""
    with anyio.move_on_after(pause_s):
        await undisturbed(stopping.wait)
    return stopping.is_set()
