"""A session that ends backs out its open unit of work. If the backout is refused, no disconnect commits that unit."""

from typing import Any

import pytest

from mqflow.embedded.connection import EmbeddedConnection
from mqflow.many_verbs import disconnect_without_commit
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import error_for
from mqflow.mqi.options import OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.runtime.connection.inline_session import InlineSession
from mqflow.testing.kit import QueueManagerKit

pytestmark = pytest.mark.mq_backend("asyncio", "trio")


@pytest.mark.parametrize(
    "reason",
    [
        Reason.NONE,
        Reason.CALL_IN_PROGRESS,
        Reason.CONNECTION_BROKEN,
        # Each of the following reasons asks for a reconnect, but none says that the connection is gone.
        Reason.UNEXPECTED_ERROR,
        Reason.CALL_INTERRUPTED,
        Reason.Q_MGR_QUIESCING,
    ],
)
async def test_nothing_that_is_open_is_committed_by_the_end_of_a_session(
    mq: QueueManagerKit, reason: Reason, monkeypatch: pytest.MonkeyPatch
) -> None:
    mq.define("Q")
    connection = mq.queue_manager.connect()
    session = InlineSession(connection)
    connection.put(connection.open("Q", OpenOption.OUTPUT), MessageDescriptor(), b"x", PutOption.SYNCPOINT)
    if reason:
        monkeypatch.setattr(EmbeddedConnection, "backout", lambda _: _refuse(connection, reason))

    await session.close()

    assert 0 == mq.depth("Q")


@pytest.mark.parametrize(("reason", "disconnected"), [(Reason.CONNECTION_BROKEN, True), (Reason.UNEXPECTED_ERROR, False)])
def test_a_connection_that_may_be_alive_is_not_disconnected_if_it_cannot_be_abandoned(
    reason: Reason, *, disconnected: bool
) -> None:
    """IBM's library ends a connection only with MQDISC, or when the process ends."""
    called: list[str] = []

    class Bound:
        def backout(self) -> None:
            raise error_for(reason, "MQBACK")

        def disconnect(self) -> None:
            called.append("MQDISC")

    connection: Any = Bound()
    disconnect_without_commit(connection)

    assert ["MQDISC"] * disconnected == called


def _refuse(connection: EmbeddedConnection, reason: Reason) -> None:
    if reason is Reason.CONNECTION_BROKEN:
        connection.abandon()  # as a connection that breaks does
    raise error_for(reason, "MQBACK")
