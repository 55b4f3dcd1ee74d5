"""The limits of a session's waits: for the reply to a settlement, for more messages of a unit, and the units got ahead."""

from collections.abc import Sequence

import anyio
import pytest
from msgspec.structs import replace

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Settlement
from mqflow.runtime.connection.loop_call import LoopCaller, OneShot
from mqflow.runtime.connection.session_limits import arrivals_within, settlement_reply, units_ahead
from mqflow.testing.kit import QueueManagerKit
from mqflow.verbs import Got
from tests.conformance.under_test import refused

pytestmark = [pytest.mark.mq_backend("asyncio", "trio"), pytest.mark.usefixtures("mq")]  # virtual time

FIRST = Got(descriptor=MessageDescriptor(), body=b"first", data_bytes=5)


@pytest.mark.parametrize(
    ("handled_s", "most", "units"),
    [
        (0.0, 1, 64), (0.0, 7, 9), (0.0, 8, 8), (0.0, 64, 8), (0.0, 1_000, 8), (0.005 / 64, 1, 64), (0.0001, 1, 50),
        (0.005 / 8, 64, 8), (0.001, 64, 5), (0.0026, 1, 1), (0.005, 1, 1), (3.0, 1, 1),
    ],
)  # fmt: skip
def test_units_that_are_got_ahead_begin_within_five_milliseconds(handled_s: float, most: int, units: int) -> None:
    assert units == units_ahead(handled_s, most)


@pytest.mark.parametrize(
    ("replies", "linger_ms", "most", "waits", "bodies"),
    [
        (["a", "b", "c"], 100, 3, [100, 90], ["a", "b"]),
        (["a"], 100, 1, [], []),
        (["a", None, "b"], 100, 9, [100, 90], ["a"]),
        (["a"] * 9, 25, 9, [25, 15, 5], ["a"] * 3),
        (["a"] * 9, 20, 9, [20, 10], ["a"] * 2),
        (["a", "again", "b"], 100, 9, [100, 90], ["a", "again"]),
        (["a", Reason.GET_INHIBITED, "b"], 100, 9, [100, 90], ["a"]),
    ],
)
async def test_a_unit_takes_the_messages_that_come_within_its_time_and_its_room(
    replies: list[str | Reason | None], linger_ms: int, most: int, waits: list[int], bodies: list[str]
) -> None:
    waited, left = list[int](), iter(replies)

    async def wait(left_ms: int) -> Got | None:
        waited.append(left_ms)
        await anyio.sleep(0.01)
        reply = next(left)
        if isinstance(reply, Reason):
            raise error_for(reply, "MQGET")
        backouts = int(reply == "again")
        return (
            None if reply is None else replace(FIRST, body=reply.encode(), descriptor=MessageDescriptor(backout_count=backouts))
        )

    unit = [FIRST]
    async for more in arrivals_within(unit, most, linger_ms, wait):
        unit += [more]

    assert (waits, bodies) == (waited, [got.body.decode() for got in unit[1:]])


async def test_a_lost_connection_ends_the_wait_for_more_messages_with_its_error(mq: QueueManagerKit) -> None:
    async def wait(_: int) -> Got | None:
        raise error_for(Reason.CONNECTION_BROKEN, "MQGET", queue_manager=mq.queue_manager.name)

    with refused(Reason.CONNECTION_BROKEN):
        [more async for more in arrivals_within([FIRST], 2, 10, wait)]


@pytest.mark.parametrize("cancelled_after_s", [-1, 10, 60])
@pytest.mark.parametrize(("settlement", "verb"), [(Settlement.COMMIT, "MQCMIT"), (Settlement.BACKOUT, "MQBACK")])
async def test_a_settlement_without_a_reply_in_half_a_minute_is_in_doubt_even_in_a_cancelled_task(
    mq: QueueManagerKit, settlement: Settlement, verb: str, cancelled_after_s: int
) -> None:
    began = mq.clock.monotonic()
    with pytest.raises(MQIError) as doubt, anyio.CancelScope(deadline=anyio.current_time() + cancelled_after_s):
        await settlement_reply(OneShot(LoopCaller()), settlement, "QM1")

    assert 30 == round(mq.clock.monotonic() - began)
    assert (Reason.CALL_INTERRUPTED, verb, "QM1", "No answer came within 30 s") == (
        doubt.value.reason, doubt.value.verb, doubt.value.queue_manager, doubt.value.detail
    )  # fmt: skip


async def test_a_cancelled_task_gets_the_reply_of_its_settlement() -> None:
    answer, found, scope = OneShot(LoopCaller()), list[object](), anyio.CancelScope(deadline=anyio.current_time() + 10)

    async def reply() -> None:
        await anyio.sleep(20)
        answer.pass_on(("made", None))

    async with anyio.create_task_group() as group:
        group.start_soon(reply)
        with scope:
            found.append(await settlement_reply(answer, Settlement.COMMIT, "QM1"))
            await anyio.sleep(1)
            found.append("the task goes on")

    assert (["made"], True) == (found, scope.cancelled_caught)


@pytest.mark.parametrize("reply", [("made", None), (None, error_for(Reason.BACKED_OUT, "MQCMIT")), None])
async def test_the_reply_to_a_settlement_is_its_result_or_its_error(reply: Sequence[object] | None) -> None:
    answer = OneShot(LoopCaller())
    answer.pass_on(reply)
    found: list[object] = [None, None]
    try:
        found[0] = await settlement_reply(answer, Settlement.COMMIT, "QM1")
    except MQIError as error:
        found[1] = error

    assert [None, None] == found if reply is None else list(reply) == found
