"""Connects to a queue manager of IBM MQ. Offers `verbs.QueueManager`."""

from typing import Final, NoReturn

from mqflow.bindings.connect_options import ClientPackageError, ConnectOptions
from mqflow.bindings.connection import BoundConnection
from mqflow.bindings.dialects.base import Dialect
from mqflow.bindings.mqcno import Prepared
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import ObjectType, OpenOption
from mqflow.mqi.reason_codes import CompletionCode, Reason
from mqflow.policy.channels.sources import without_password
from mqflow.verbs import ObjectDescriptor
from mqflow.world import SYSTEM_CLOCK, Clock

__all__ = ("BoundQueueManager", "ProcessTls")

_Q_MGR_NAME: Final = 2015


class ProcessTls:
    """The TLS settings of a process, which are the settings of its first connection with TLS.

    IBM's library sets TLS up only once in a process. The library ignores other settings of a later connection, and answers
    2391.
    """

    def __init__(self) -> None:
        self._in_force: tuple[str, str] | None = None

    def note(self, options: ConnectOptions) -> None:
        """Record the settings of a connection that the library accepted without 2391."""
        if said := _tls_of(options):
            self._in_force = said

    def are_in_force(self, options: ConnectOptions) -> bool:
        """Return whether the process uses these settings."""
        return _tls_of(options) == self._in_force


_THIS_PROCESS: Final = ProcessTls()


class BoundQueueManager:
    """IBM MQ through pymqi or ibmmq. `connect` and the verbs block, so each connection needs a thread of its own."""

    def __init__(
        self,
        dialect: Dialect,
        options: ConnectOptions,
        *,
        clock: Clock = SYSTEM_CLOCK,
        process: ProcessTls = _THIS_PROCESS,
    ) -> None:
        """Take a client package, the options of the connections, and the TLS settings of this process."""
        dialect.check(options)
        self.options: Final = options
        self._dialect: Final = dialect
        self._clock: Final = clock
        self._process: Final = process

    @property
    def name(self) -> str:
        """The name to connect to: empty for the default queue manager, "*GROUP" for any queue manager of a group."""
        return self.options.queue_manager

    @property
    def package(self) -> str:
        """The client package: pymqi or ibmmq."""
        return self._dialect.name

    @property
    def administration(self) -> NoReturn:
        """Raise `ClientPackageError`: IBM MQ has its own tools of administration."""
        raise ClientPackageError(
            f"{self.name or 'This queue manager'} is IBM MQ's: mqflow neither defines nor lists its objects. runmqsc does."
        )

    def connect(self, *, application_name: str = "", user: str = "") -> BoundConnection:
        """Return a new connection (MQCONNX).

        Raises the `MQIError` of the client, and `ClientPackageError` for an unreadable secret.
        """
        with Prepared(self.options, application_name, user) as wanted:
            hconn, completion, reason = self._dialect.connect(wanted)
        if completion == CompletionCode.OK:
            self._process.note(self.options)
        elif not (reason == Reason.SSL_ALREADY_INITIALIZED and self._process.are_in_force(self.options)):
            if completion == CompletionCode.WARNING:  # the caller gets an error, so only this code can end the connection
                self._dialect.disconnect(hconn)
            raise self._not_connected(completion, reason)
        connection = BoundConnection(self._dialect, hconn, self.name, self._clock)
        if not self.name or self.name.startswith("*"):
            connection.queue_manager_name = _reached(connection, self.name)
        return connection

    def close(self) -> None:
        """Do nothing: the adapter keeps nothing between connections."""

    def _not_connected(self, completion: int, reason: int) -> MQIError:
        options = self.options
        if options.channel:
            how = f"by {options.channel} to {options.connection_name or 'no host'}"
        elif options.ccdt_url:
            how = f"by the CCDT {without_password(options.ccdt_url)}"
        else:
            how = "as IBM's client finds it (local bindings, MQSERVER, mqclient.ini)"
        error = error_for(reason, "MQCONNX", self.name, detail=f"{self.package}, {how}")
        error.completion = CompletionCode.WARNING if completion == CompletionCode.WARNING else CompletionCode.FAILED
        return error


def _tls_of(options: ConnectOptions) -> tuple[str, str] | None:
    """Return the settings of the MQSCO, or None for a connection without an MQSCO."""
    said = options.key_repository, options.certificate_label
    return said if any(said) else None


def _reached(connection: BoundConnection, asked: str) -> str:
    """Return the name of the queue manager that was reached. If the user must not inquire it (2035), return the wanted name."""
    try:
        handle = connection.open(ObjectDescriptor(object_type=ObjectType.Q_MGR), OpenOption.INQUIRE)
        try:
            return str(connection.inquire(handle, (_Q_MGR_NAME,)).values[_Q_MGR_NAME]).rstrip()
        finally:
            connection.close(handle)
    except MQIError:
        return asked
