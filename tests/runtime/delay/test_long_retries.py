"""The call that puts a failed message on the staging queue."""

import pytest

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers import delay
from mqflow.mqi.options import OpenOption, PutOption
from mqflow.runtime.delay.long_retries import Retries
from mqflow.testing.kit import QueueManagerKit
from mqflow.verbs import GetOptions


@pytest.mark.parametrize(("after_s", "delay_ms"), [(0.0001, 1), (0.0014, 1), (0.0016, 2), (2.5, 2_500)])
def test_a_pause_is_staged_in_whole_milliseconds_and_as_one_at_least(
    mq: QueueManagerKit, after_s: float, delay_ms: int
) -> None:
    for queue in ("ORDERS.IN", "STAGED"):
        mq.define(queue)
    connection = mq.queue_manager.connect()
    connection.put1("ORDERS.IN", MessageDescriptor(), b"x", PutOption.NO_SYNCPOINT)
    handle = connection.open("ORDERS.IN", OpenOption.INPUT_SHARED | OpenOption.SAVE_ALL_CONTEXT)
    got = connection.get(handle, GetOptions())
    assert got is not None

    Retries("STAGED", mq.clock, in_worker_s=0.0).stage(connection, handle, got, "ORDERS.IN", 1, after_s)
    connection.commit()

    [found] = mq.browse("STAGED")
    assert delay_ms == delay.parse(found.data).delay_ms
