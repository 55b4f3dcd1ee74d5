"""A command's connection over outages: got again by the ladder, to the queue manager it was on, until the command is to end.

For commands that work without an event loop; applications have `runtime.connection.supervisor`. What an outage is, how long
to wait and which queue manager will do is said by `policy`.
"""

from collections.abc import Callable
from typing import Final

from mqflow.many_verbs import disconnect_without_commit, inquire_queue_manager
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.reconnect.delays import next_delay_s
from mqflow.policy.reconnect.ledger import Reached, admit
from mqflow.policy.reconnect.mode import ReconnectMode
from mqflow.policy.reconnect.reason_classes import Class, classify
from mqflow.runtime.connection.supervisor import Reconnection
from mqflow.verbs import Connection
from mqflow.world import World

__all__ = ("Link",)


class Link:
    """One connection at a time."""

    def __init__(
        self,
        connect: Callable[[], Connection],
        how: Reconnection,
        *,
        world: World,
        pause: Callable[[float], bool],
    ) -> None:
        """Connect. `pause` waits so many seconds, and returns whether to go on. Raises the `MQIError` of the connect."""
        self._connect = connect
        self._how = how
        self._world = world
        self._pause = pause
        #: The one to work on now.
        self.connection = connect()
        self._first: Final = Reached(self.connection.queue_manager_name, _identifier(self.connection))

    def again(self, error: MQIError) -> bool:
        """Have another connection in place of the one that ended with this error; False where the command is to end instead.

        Raises the error itself where it is no outage, or reconnecting is switched off; 2556 when the limit is over, 2546 where
        another queue manager answers, and what no retry can change.
        """
        mode = self._how.mode()
        if classify(int(error.reason)) is not Class.RECONNECT or mode is ReconnectMode.NO:
            raise error
        self.leave()
        lost_at = self._world.clock.monotonic()
        attempt = 0
        while True:
            attempt += 1
            if not self._pause(self._delay_s(attempt, lost_at, error)):
                return False
            try:
                self.connection = self._connect()
                now = Reached(self.connection.queue_manager_name, _identifier(self.connection))
            except MQIError as failure:
                if classify(int(failure.reason)) is Class.CONFIGURATION:
                    raise
                self.leave()
                continue
            refused = admit(mode, self._first, now)
            if refused is not None:
                raise refused
            return True

    def leave(self) -> None:
        """Back out what is open and disconnect; quiet where the connection is gone already."""
        disconnect_without_commit(self.connection)

    def _delay_s(self, attempt: int, lost_at: float, error: MQIError) -> float:
        lost_for_s, limit_s = self._world.clock.monotonic() - lost_at, self._how.limit_s
        ladder = self._how.delays
        delay_s = next_delay_s(attempt, self._world.random.random(), ladder=ladder, lost_for_s=lost_for_s, limit_s=limit_s)
        if delay_s is None:
            said = f"The connection was lost {lost_for_s:.0f} s ago, and the limit for getting it back is {limit_s:g} s"
            raise error_for(Reason.RECONNECT_TIMED_OUT, "MQCONNX", queue_manager=self._first.name, detail=said) from error
        return delay_s


def _identifier(connection: Connection) -> str:
    """Return the QMID; nothing where it may not be inquired: the name has to do then."""
    try:
        return inquire_queue_manager(connection).identifier
    except MQIError as error:
        if classify(int(error.reason)) is Class.RECONNECT:
            raise
        return ""
