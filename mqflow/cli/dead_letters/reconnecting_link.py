"""A connection for a command. After an outage it connects again to the same queue manager, with growing delays.

Commands without an event loop use this file; applications use `runtime.connection.supervisor`. `policy` decides which errors
mean an outage, how long to wait, and which queue manager is accepted.
"""

from collections.abc import Callable
from typing import Final

from mqflow.many_verbs import disconnect_without_commit, inquire_identifier
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.reconnect.delays import next_delay_s
from mqflow.policy.reconnect.ledger import Reached, admit
from mqflow.policy.reconnect.mode import ReconnectMode
from mqflow.policy.reconnect.reason_classes import Class, classify, needs_reconnect
from mqflow.runtime.connection.supervisor import Reconnection
from mqflow.verbs import Connection
from mqflow.world import World

__all__ = ("Link",)


class Link:
    """A connection that is replaced after an outage."""

    def __init__(
        self, connect: Callable[[], Connection], reconnection: Reconnection, *, world: World, pause: Callable[[float], bool]
    ) -> None:
        """Connect. `pause` waits some seconds, and returns whether to continue. Raises the `MQIError` of the connect."""
        self._connect = connect
        self._reconnection = reconnection
        self._world = world
        self._pause = pause
        #: The current connection.
        self.connection: Connection = connect()
        self._first: Final = Reached(self.connection.queue_manager_name, inquire_identifier(self.connection))

    def reconnect(self, error: MQIError) -> bool:
        """Replace the connection that was lost with this error. Return False if the command must end instead.

        Raises `error` if it does not mean an outage, or if reconnecting is switched off. Raises 2556 after the time limit, 2546
        if another queue manager answers, and any error that no retry can change.
        """
        mode = self._reconnection.mode()
        if not needs_reconnect(error) or mode is ReconnectMode.NO:
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
                now = Reached(self.connection.queue_manager_name, inquire_identifier(self.connection))
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
        """Back out an open unit of work, and disconnect. If the connection is lost already, nothing is raised."""
        disconnect_without_commit(self.connection)

    def _delay_s(self, attempt: int, lost_at: float, error: MQIError) -> float:
        lost_for_s, limit_s = self._world.clock.monotonic() - lost_at, self._reconnection.limit_s
        ladder = self._reconnection.delays
        delay_s = next_delay_s(attempt, self._world.random.random(), ladder=ladder, lost_for_s=lost_for_s, limit_s=limit_s)
        if delay_s is None:
            text = f"The connection was lost {lost_for_s:.0f} s ago; the limit for the reconnection is {limit_s:g} s"
            raise error_for(Reason.RECONNECT_TIMED_OUT, "MQCONNX", queue_manager=self._first.name, detail=text) from error
        return delay_s
