"""A queue manager of IBM MQ, as one connects to it. Offers `verbs.QueueManager`."""

from typing import Final, NoReturn

from mqflow.ambient import SYSTEM_CLOCK, Clock
from mqflow.bindings.connect_options import ConnectOptions, prepare
from mqflow.bindings.connection import BoundConnection
from mqflow.bindings.dialects import Dialect
from mqflow.bindings.errors import ClientPackageError
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import ObjectType, OpenOption
from mqflow.mqi.reason_codes import CompletionCode, Reason
from mqflow.policy.channel_sources import without_password

__all__ = ("BoundQueueManager",)

_Q_MGR_NAME: Final = 2015


class BoundQueueManager:
    """IBM MQ through pymqi or ibmmq. Connecting blocks, and so do the verbs: each connection wants a thread of its own."""

    def __init__(
        self, dialect: Dialect, options: ConnectOptions, *, clock: Clock = SYSTEM_CLOCK, connected_before: bool = False
    ) -> None:
        """Take a package, and how to connect; whether this process has connected with the same TLS settings before."""
        dialect.check(options)
        self.options: Final = options
        self._dialect: Final = dialect
        self._clock: Final = clock
        self._connected_before = connected_before

    @property
    def name(self) -> str:
        """The queue manager's name, as asked for: empty for the default one, with an asterisk for any of a group."""
        return self.options.queue_manager

    @property
    def package(self) -> str:
        """The client package: pymqi or ibmmq."""
        return self._dialect.name

    @property
    def administration(self) -> NoReturn:
        """IBM MQ is administered by its own tools."""
        raise ClientPackageError(
            f"{self.name or 'This queue manager'} is IBM MQ's: mqflow neither defines nor lists its objects. runmqsc does."
        )

    def connect(self, *, application_name: str = "", user: str = "") -> BoundConnection:
        """Return a new connection (MQCONNX).

        Raises `MQIError` for what the client answers, and `ClientPackageError` for a secret that cannot be read.
        """
        with prepare(self.options, application_name, user) as wanted:
            hconn, completion, reason = self._dialect.connect(wanted)
        # 2391 says that the TLS settings of this process stay what its first connection made them: the same as these.
        settled = reason == Reason.SSL_ALREADY_INITIALIZED and self._connected_before
        if completion != CompletionCode.OK and not settled:
            raise self._not_connected(completion, reason)
        self._connected_before = True
        connection = BoundConnection(self._dialect, hconn, self.name, self._clock)
        if not self.name or self.name.startswith("*"):
            connection.queue_manager_name = _reached(connection, self.name)
        return connection

    def close(self) -> None:
        """Nothing is held between connections."""

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


def _reached(connection: BoundConnection, asked: str) -> str:
    """Return the name of the queue manager that was reached; what was asked for where it does not tell (2035)."""
    try:
        handle = connection.open("", OpenOption.INQUIRE, object_type=ObjectType.Q_MGR)
        try:
            return str(connection.inquire(handle, (_Q_MGR_NAME,)).values[_Q_MGR_NAME]).rstrip()
        finally:
            connection.close(handle)
    except MQIError:
        return asked
