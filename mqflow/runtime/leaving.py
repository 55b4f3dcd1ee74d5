"""How a connection is left: what is open is backed out first, because MQDISC would commit it (q101800).

Knows the verbs and what their reasons say of the connection; decides nothing else.
"""

from contextlib import suppress

from mqflow.mqi.errors import MQIError
from mqflow.policy.reconnect.reason_classes import connection_gone
from mqflow.verbs import Connection

__all__ = ("leave",)


def leave(connection: Connection) -> None:
    """Back out and disconnect. Quiet, whatever is refused; and never a commit.

    Where the backout is refused and the connection may be alive, it is not disconnected: it ends as that of a process that
    dies does, at once where the connection can (`abandon`), otherwise with this process.
    """
    try:
        connection.backout()
    except MQIError as error:
        if not connection_gone(int(error.reason)):
            abandon = getattr(connection, "abandon", None)
            if abandon is not None:
                abandon()
            return
    with suppress(MQIError):  # where it is gone, its queue manager backs the unit of work out
        connection.disconnect()
