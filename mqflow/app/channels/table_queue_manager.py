"""A queue manager, or a group of them, from a channel table. Each connect tries all candidates in turn.

The supervisor waits between two connects. So each connect reads the table first, and tries every candidate before the next
wait. The function `dial` makes the connections.
"""

import threading
from collections.abc import Callable
from typing import NoReturn, Protocol

from msgspec import Struct

from mqflow.app.channels.source_reader import Tables
from mqflow.app.errors import ConfigurationError
from mqflow.many_verbs import disconnect_without_commit, inquire_identifier
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.channels.candidates import (
    Candidate,
    ConnectFailed,
    Preference,
    after_failure,
    after_pass,
    after_reading,
    candidates,
    connect_name,
    nothing_matches,
)
from mqflow.policy.channels.table import Channel
from mqflow.policy.reconnect.ledger import Reached, admit
from mqflow.policy.reconnect.mode import DefaultReconnect, ReconnectMode
from mqflow.verbs import Connection
from mqflow.world import Random

__all__ = ("Dial", "TableQueueManager", "Tried")


class Dial(Protocol):
    """Connects to one address."""

    def __call__(self, attempt: Candidate, *, application_name: str, user: str) -> Connection:
        """Return a connection. Raises `MQIError`. The call must have a time limit, because a stopped server may not answer."""
        ...


class Tried(Struct, frozen=True):
    """An attempt to connect, with its error; None if it succeeded."""

    attempt: Candidate
    error: MQIError | None


class TableQueueManager:
    """The queue manager, or the group, that a name means in a channel table. Several threads can connect at the same time."""

    def __init__(
        self,
        name: str,
        tables: Tables,
        dial: Dial,
        *,
        random: Random,
        host: str = "",
        mode: ReconnectMode | Callable[[DefaultReconnect], ReconnectMode] = ReconnectMode.Q_MGR,
        notify: Callable[[Tried], None] = lambda _: None,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Take a name ("QM1", "*GROUP", "*"), the tables, and the function that makes connections.

        All connections must reach the same queue manager as the first one, except with `ReconnectMode.ANY`. With that mode,
        each connection can reach another queue manager, and a message from one cannot be requeued on another. Use it only if
        the connections of a program are independent. The mode can depend on the channel's DEFRECON.

        `notify` receives every attempt, on the thread of the attempt. `warn` receives a sentence when the table cannot be read
        any more. Equal sentences in a row come only once.
        """
        self._name = name
        self._tables = tables
        self._dial = dial
        self._random = random
        self._host = host
        self._mode = mode
        self.notify = notify
        #: The DEFRECON of the channel of the last connection.
        self.default_reconnect: DefaultReconnect = DefaultReconnect.NO
        #: True if a queue manager of this name has ever answered. Only then are lost connections reconnected.
        self.reached: bool = False
        self._warn = warn
        #: The last warning; empty once the table can be read again.
        self._last_warning = ""
        self._lock = threading.Lock()
        self._preference: Preference | None = None
        self._first: Reached | None = None

    @property
    def name(self) -> str:
        """The name to connect to: a queue manager, ``*GROUP`` or ``*``."""
        return self._name

    @property
    def administration(self) -> NoReturn:
        """Always raises `ConfigurationError`, because mqflow does not administer IBM MQ."""
        raise ConfigurationError(
            f"{self._name or 'A queue manager'} comes from a channel table, and mqflow cannot administer it."
        )

    def close(self) -> None:
        """Do nothing, because this object holds no connection."""

    def connect(self, *, application_name: str = "", user: str = "") -> Connection:
        """Return a connection to the first candidate that answers.

        Raises `MQIError` 2058 if no entry matches, and the error of `after_pass` if no candidate answers. Raises
        `ChannelTableError` if the table could never be read.
        """
        preference = self._read()
        attempts = candidates(preference, self._name, random=self._random.random, host=self._host)
        if not attempts:
            raise nothing_matches(preference.table, self._name)
        failed: list[ConnectFailed] = []
        for number, attempt in enumerate(attempts):
            try:
                connection = self._try(attempt, application_name, user)
            except MQIError as error:
                self.notify(Tried(attempt, error))
                failed.append(ConnectFailed(attempt, error))
                if attempt.channel not in {later.channel for later in attempts[number + 1 :]}:
                    self._entry_failed(attempt.channel)
            else:
                self.notify(Tried(attempt, None))
                return connection
        raise after_pass(self._name, failed)

    def _read(self) -> Preference:
        with self._lock:
            latest = self._tables.read()
            now = Preference(table=latest.table)
            self._preference = now if self._preference is None else after_reading(self._preference, latest.table)
            preference = self._preference
            is_new, self._last_warning = latest.problem != self._last_warning, latest.problem
        if latest.problem and is_new:
            self._warn(latest.problem)
        return preference

    def _entry_failed(self, channel: Channel) -> None:
        with self._lock:
            if self._preference is not None and channel in self._preference.table.channels:
                self._preference = after_failure(self._preference, channel)

    def _try(self, attempt: Candidate, application_name: str, user: str) -> Connection:
        connection = self._dial(attempt, application_name=application_name, user=user)
        try:
            self._check(connection, attempt.channel)
        except MQIError:
            disconnect_without_commit(connection)
            raise
        self.default_reconnect = attempt.channel.default_reconnect
        return connection

    def _check(self, connection: Connection, channel: Channel) -> None:
        """Raise 2058 if the connected queue manager has a wrong name.

        Unless the mode is `ReconnectMode.ANY`, raise 2546 if it is not the queue manager that the first connection reached.
        """
        reached = connection.queue_manager_name
        if connect_name(self._name).refuses(reached):
            detail = f"The queue manager there is called {reached}"
            raise error_for(Reason.Q_MGR_NAME_ERROR, "MQCONNX", queue_manager=self._name, detail=detail)
        self.reached = True
        mode = self._mode(channel.default_reconnect) if callable(self._mode) else self._mode
        if mode is ReconnectMode.ANY:
            return
        now = Reached(reached, inquire_identifier(connection))
        with self._lock:
            if self._first is None:
                self._first = now
            error = admit(ReconnectMode.Q_MGR, self._first, now)
        if error is not None:
            raise error
