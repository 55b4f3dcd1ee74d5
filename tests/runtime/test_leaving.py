"""How a session ends: what is open is backed out, and what cannot be is never committed by the disconnect."""

import pytest

from mqflow.embedded.connection import EmbeddedConnection
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import error_for
from mqflow.mqi.options import OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.runtime.session import InlineSession
from mqflow.testing.kit import QueueManagerKit

pytestmark = pytest.mark.mq_backend("asyncio", "trio")


@pytest.mark.parametrize("reason", [Reason.NONE, Reason.CALL_IN_PROGRESS, Reason.CONNECTION_BROKEN])
async def test_nothing_that_is_open_is_committed_by_leaving(
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


def _refuse(connection: EmbeddedConnection, reason: Reason) -> None:
    if reason is Reason.CONNECTION_BROKEN:
        connection.abandon()  # as a connection that breaks does
    raise error_for(reason, "MQBACK")
