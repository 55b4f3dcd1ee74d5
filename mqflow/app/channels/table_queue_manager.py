"""A queue manager, or a group of them, that is found in a channel table: connecting is one pass over all candidates.

The supervisor waits between two connects, so the table is read before each pass and every entry of a pass is tried before the
next wait. Knows tables and how to go through them; what a connection is made of is the `dial` that it is given.
"""

import threading
from collections.abc import Callable
from typing import NoReturn, Protocol

from msgspec import Struct

from mqflow.app.channels.read_sources import Tables
from mqflow.app.errors import ConfigurationError
from mqflow.many_verbs import inquire_queue_manager
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.channels.candidates import (
    Candidate,
    Preference,
    after_failure,
    after_reading,
    candidates,
    connect_name,
    nothing_matches,
)
from mqflow.policy.channels.connect_outcome import ConnectFailed, after_pass
from mqflow.policy.channels.table import Channel
from mqflow.policy.reconnect.ledger import Reached, admit
from mqflow.policy.reconnect.mode import DefaultReconnect, ReconnectMode
from mqflow.policy.reconnect.reason_classes import Class, classify
from mqflow.runtime.leaving import leave
from mqflow.verbs import Connection
from mqflow.world import Random

__all__ = ("Dial", "TableQueueManager", "Tried")


class Dial(Protocol):
    """Makes one connection to one address."""

    def __call__(self, attempt: Candidate, *, application_name: str, user: str) -> Connection:
        """Return a connection. Raises `MQIError`; has to bound its handshake, or a stopped server holds up the pass."""
        ...


class Tried(Struct, frozen=True):
    """An attempt was made: which, and with what it failed; None where it succeeded."""

    attempt: Candidate
    error: MQIError | None


def _say_nothing(_: Tried) -> None:
    """Tell nobody."""


def _trouble_unheard(_: str) -> None:
    """Tell nobody."""


class TableQueueManager:
    """What a name in a channel table stands for, as a `QueueManager`. Threads may connect at the same time."""

    def __init__(
        self,
        name: str,
        tables: Tables,
        dial: Dial,
        *,
        random: Random,
        host: str = "",
        mode: ReconnectMode | Callable[[DefaultReconnect], ReconnectMode] = ReconnectMode.Q_MGR,
        tell: Callable[[Tried], None] = _say_nothing,
        trouble: Callable[[str], None] = _trouble_unheard,
    ) -> None:
        """Take a name ("QM1", "*GROUP", "*"), the tables, and what dials.

        With `ReconnectMode.Q_MGR` the first queue manager reached is the only one from then on. With `ReconnectMode.ANY` each
        connection may be to another one, and what was got on one cannot be requeued on another: it is for programs whose
        connections have nothing to do with each other; it may depend on the channel's DEFRECON. `tell` hears every attempt,
        on the thread that makes it, `trouble` a sentence when the table could not be read again, once and not before each pass.
        """
        self._name = name
        self._tables = tables
        self._dial = dial
        self._random = random
        self._host = host
        self._mode = mode
        self.tell = tell
        #: DEFRECON of the channel by which a queue manager was reached last.
        self.default_reconnect = DefaultReconnect.NO
        #: Whether a queue manager of that name ever answered: from then on a lost connection is got again.
        self.reached = False
        self._trouble = trouble
        #: The trouble that was told last; empty once the table could be read again.
        self._told_of = ""
        self._lock = threading.Lock()
        self._preference: Preference | None = None
        self._first: Reached | None = None

    @property
    def name(self) -> str:
        """The name that is connected with."""
        return self._name

    @property
    def administration(self) -> NoReturn:
        """What is reached by a channel is administered where it is."""
        raise ConfigurationError(
            f"{self._name or 'A queue manager'} is found in a channel table, and administered where it is."
        )

    def close(self) -> None:
        """Nothing is held between connections."""

    def connect(self, *, application_name: str = "", user: str = "") -> Connection:
        """Return a connection to the first candidate that can be had.

        Raises 2058 where no entry matches, the error of `after_pass` where none could be had, and `ChannelTableError` while no
        table could be read at all.
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
                self.tell(Tried(attempt, error))
                failed.append(ConnectFailed(attempt, error))
                if attempt.channel not in {later.channel for later in attempts[number + 1 :]}:
                    self._entry_failed(attempt.channel)
            else:
                self.tell(Tried(attempt, None))
                return connection
        raise after_pass(self._name, failed)

    def _read(self) -> Preference:
        with self._lock:
            latest = self._tables.read()
            now = Preference(table=latest.table)
            self._preference = now if self._preference is None else after_reading(self._preference, latest.table)
            preference = self._preference
            news, self._told_of = latest.trouble != self._told_of, latest.trouble
        if latest.trouble and news:
            self._trouble(latest.trouble)
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
            leave(connection)
            raise
        self.default_reconnect = attempt.channel.default_reconnect
        return connection

    def _check(self, connection: Connection, channel: Channel) -> None:
        """Raise where the queue manager reached is not one that will do: of another name (2058), or another one (2546)."""
        reached = connection.queue_manager_name
        if connect_name(self._name).refuses(reached):
            detail = f"The queue manager there is called {reached}"
            raise error_for(Reason.Q_MGR_NAME_ERROR, "MQCONNX", queue_manager=self._name, detail=detail)
        self.reached = True
        mode = self._mode(channel.default_reconnect) if callable(self._mode) else self._mode
        if mode is not ReconnectMode.Q_MGR:
            return
        now = Reached(reached, _identifier(connection))
        with self._lock:
            if self._first is None:
                self._first = now
            error = admit(mode, self._first, now)
        if error is not None:
            raise error


def _identifier(connection: Connection) -> str:
    """Return the QMID; nothing where this user may not inquire it, or nobody knows it: the name has to do then."""
    try:
        return inquire_queue_manager(connection).identifier
    except MQIError as error:
        if classify(int(error.reason)) is Class.RECONNECT:
            raise
        return ""
