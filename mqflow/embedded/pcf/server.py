"""The command server: gets commands from SYSTEM.ADMIN.COMMAND.QUEUE, and lets `replies` carry them out.

The command server waits like any application, and has a thread only while the queue has commands. The thread is necessary
because a command waits for the disk. A command can also arrive on the store's thread, which must never wait for the disk.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from mqflow.embedded.administration.interface import Administration
from mqflow.embedded.calls import get as getting
from mqflow.embedded.calls.wait import wait
from mqflow.embedded.catalogue.system_objects import COMMAND_QUEUE
from mqflow.embedded.connection import EmbeddedConnection
from mqflow.embedded.rules.get_plan import plan_get
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.objects import ObjectHandle
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import GetOptions
from mqflow.world import Runner, Running

__all__ = ("APPLICATION", "CommandServer")

APPLICATION: Final = "mqflow command server"

_GET: Final = GetOptions(options=GetOption.SYNCPOINT)
_OPEN: Final = OpenOption.INPUT_SHARED | OpenOption.SAVE_ALL_CONTEXT


class CommandServer:
    """The command server of one queue manager. A quiesce does not wait for the end of the server's connection."""

    def __init__(
        self,
        state: QueueManagerState,
        administration_of: Callable[[str], Administration],
        connection: EmbeddedConnection,
        runner: Runner,
    ) -> None:
        self._state = state
        self._administration_of = administration_of
        self._connection = connection
        self._runner = runner
        self._handle: ObjectHandle | None = None
        self._thread: Running | None = None
        #: The number of commands on the queue before the last get.
        self._found = 0

    def start(self) -> None:
        """Begin to wait for commands. If the queue already has commands, start the thread now."""
        if self._state.queues.get(COMMAND_QUEUE) is not None:
            self._state.system_connections.add(self._connection.state)
            self._handle = self._connection.open(COMMAND_QUEUE, _OPEN)
            if not self._is_idle():
                self._wake()

    def join(self) -> None:
        """Wait until the present command is complete. The caller must not hold the queue manager's lock."""
        if self._thread is not None:
            self._thread.join()

    def _wake(self) -> None:
        """Start the thread, and nothing else, because the caller holds the queue manager's lock."""
        if not self._state.stopped:
            self._thread = self._runner.start(self._work, f"mqflow command server {self._state.name}")

    def _work(self) -> None:
        while not self._state.stopped:
            try:
                self._carry_out_all()
            except MQIError:
                # For example, the disk is full. The next command also retries the backed-out one; an immediate retry would
                # loop.
                if not self._has_more():
                    return
                continue
            if self._is_idle():
                return

    def _has_more(self) -> bool:
        """Return whether a command has arrived since the last get. If not, register a wait for the next command."""
        with self._state.lock:
            queue = None if self._handle is None else self._handle.queue
            if queue is not None and queue.available > self._found:
                return True
            self._wait()
            return False

    def _is_idle(self) -> bool:
        """Return whether the queue is empty. If it is, register a wait, so that the next command starts the thread again."""
        state, handle = self._state, self._handle
        if handle is None:
            return True
        plan = plan_get(_GET)
        with state.lock:
            if state.stopped:
                return True
            # If gets are inhibited, the ALTER that allows gets wakes all waiters.
            with suppress(Refusal):
                queue = getting.check_get(state, handle, plan)
                if getting.find(state, handle, queue, plan) is not None:
                    return False
            self._wait()
            return True

    def _wait(self) -> None:
        """Wait without a thread. The next message on the queue, or the next ALTER of the queue, starts the thread."""
        state, handle = self._state, self._handle
        with state.lock:
            if not state.stopped and handle is not None and handle.queue is not None:
                wait(handle, handle.queue, plan_get(_GET), self._wake)

    def _carry_out_all(self) -> None:
        from mqflow.embedded.pcf.replies import reply  # noqa: PLC0415 - imports all of PCF and MQSC, which most queue managers never need

        while True:
            queue = None if self._handle is None else self._handle.queue
            self._found = 0 if queue is None else queue.available
            try:
                got = self._connection.get(self._handle, _GET)
            except MQIError as error:
                if error.reason == Reason.OBJECT_CHANGED:
                    self._connection.close(self._handle)
                    self._handle = self._connection.open(COMMAND_QUEUE, _OPEN)
                    continue
                if error.reason in {Reason.GET_INHIBITED, Reason.Q_MGR_QUIESCING}:
                    return
                raise
            if got is None:
                return
            reply(got, self._handle, self._connection, self._state, self._administration_of)
            # Commit after the responses: after a crash before the commit, the command runs again and still gets its responses.
            self._connection.commit()
