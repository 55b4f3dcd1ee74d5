"""Listeners of message groups: a whole group in logical order, one call, one unit of work, and one fate if it is poison."""

import anyio
import msgspec
import pytest

from mqflow import App, Batch, Context, Message, Reject, Settings
from mqflow.app.errors import ConfigurationError
from mqflow.app.handlers.listener_declaration import ListenerKeywords
from mqflow.events import Decided, Delivered, Disposed, ListenerPaused, Reconnected, Settled
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import MessageFlag, OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import DeadLetter, Requeue, Settlement
from mqflow.policy.poison.disposition_record import RecordOutcome, many_from_bytes
from mqflow.runtime.connection.inline_session import InlineSession
from mqflow.testing.faults import Fault
from mqflow.testing.kit import Found, QueueManagerKit
from tests.running import defining, run_for

pytestmark = pytest.mark.mq_backend("asyncio", "trio")

Y, Z = b"Y" * 24, b"Z" * 24


class Line(msgspec.Struct):
    number: int


queues = defining("OUT", "DLQ", "RECORDS", "BOQ", dead_letter_queue="DLQ", bothresh=3, boqname="BOQ")


async def put(mq: QueueManagerKit, group: bytes, number: int, last: int, *, report: int = 0, expiry_tenths: int = -1) -> None:
    """Put a message of a group: its number is its place, and `last` the place of the last message."""
    flags = MessageFlag.MSG_IN_GROUP | (MessageFlag.LAST_MSG_IN_GROUP if number == last else 0)
    await mq.put(
        "IN", Line(number), group_id=group, sequence_number=number, message_flags=int(flags),
        report=report, expiry_tenths=expiry_tenths,
    )  # fmt: skip


async def put_group(mq: QueueManagerKit, group: bytes = Y, last: int = 3) -> None:
    for number in range(1, last + 1):
        await put(mq, group, number, last)


def places(found: list[Found]) -> list[tuple[bytes, int, bool]]:
    """Return the GroupId, the place in the group and the flag of the last message, for each message."""
    descriptors = [each.descriptor for each in found]
    last = MessageFlag.LAST_MSG_IN_GROUP
    return [(each.group_id, each.sequence_number, bool(each.message_flags & last)) for each in descriptors]


def failing() -> App:
    """Return an application whose handler fails at each group."""
    app = App()

    @app.listener("IN", groups=True)
    async def handle(lines: list[Line]) -> None:
        raise ValueError("never")

    return app


WHOLE = [(Y, 1, False), (Y, 2, False), (Y, 3, True)]


async def test_one_call_takes_a_whole_group_in_logical_order(mq: QueueManagerKit) -> None:
    app, seen = App(), list[tuple[bytes, list[int], list[int]]]()

    @app.listener("IN", groups=True)
    async def handle(lines: list[Line], messages: list[Message]) -> None:
        places = [message.descriptor.sequence_number for message in messages]
        seen.append((messages[0].descriptor.group_id, [line.number for line in lines], places))

    async with mq.run(app):
        for group, number, last in ((Y, 3, 3), (Z, 1, 2), (Y, 1, 3), (Z, 2, 2)):
            await put(mq, group, number, last)
        await anyio.sleep(300)
        assert [(Z, [1, 2], [1, 2])] == seen
        await put(mq, Y, 2, 3)
        await anyio.sleep(1)

    assert [(Y, [1, 2, 3], [1, 2, 3])] == seen[1:]
    assert 0 == mq.depth("IN")
    assert [5] == [sum(len(event.message_ids) for event in mq.told(Settled))]
    assert 5 == len(mq.told(Delivered))


async def test_a_message_without_a_group_is_a_group_of_one(mq: QueueManagerKit) -> None:
    app, seen = App(), list[int]()

    @app.listener("IN", groups=True)
    def handle(lines: list[Line]) -> None:
        seen.append(len(lines))

    for _ in range(3):
        await mq.put("IN", Line(1))
    await run_for(mq, 1, app)

    assert [1, 1, 1] == seen


async def test_all_messages_of_a_group_and_the_puts_of_its_handler_are_one_unit_of_work(mq: QueueManagerKit) -> None:
    app, counts = App(), list[list[int]]()

    @app.listener("IN", groups=True)
    async def handle(lines: list[Line], messages: list[Message], ctx: Context) -> None:
        counts.append([message.descriptor.backout_count for message in messages])
        await ctx.put("OUT", {"lines": len(lines)})
        if len(counts) < 3:
            raise ValueError("not yet")

    await put_group(mq)
    async with mq.run(app):
        [out] = await mq.drain("OUT")
        await anyio.sleep(300)

    assert {"lines": 3} == out.json()
    assert [[0, 0, 0], [1, 1, 1], [2, 2, 2]] == counts
    assert [Settlement.BACKOUT, Settlement.BACKOUT, Settlement.COMMIT] == [event.settlement for event in mq.told(Settled)]
    assert [3, 3, 3] == [len(event.message_ids) for event in mq.told(Settled)]


@pytest.mark.parametrize("workers", [1, 3])
async def test_a_poison_group_is_moved_whole_in_order_and_with_its_fields(mq: QueueManagerKit, workers: int) -> None:
    app, calls = App(), list[bytes]()

    @app.listener("IN", groups=True, concurrency=workers)
    async def handle(lines: list[Line], messages: list[Message]) -> None:
        calls.append(messages[0].descriptor.group_id)
        if calls[-1] == Y:
            raise ValueError("never")

    await put_group(mq)
    await put_group(mq, Z, 2)
    async with mq.run(app):
        dead = await mq.drain("BOQ")
        await anyio.sleep(300)

    assert ([Y] * 3, [Z]) == ([each for each in calls if each == Y], [each for each in calls if each == Z])
    assert WHOLE == places(dead)
    assert [1, 2, 3] == [each.json()["number"] for each in dead]
    assert [("failed", 3, "IN")] * 3 == [(each.why.outcome, each.why.count, each.why.queue) for each in dead]
    assert [(3, None)] * 3 == [(event.backout_count, event.attempts[-1].reason or None) for event in mq.told(Disposed)]
    assert [Requeue("BOQ")] == list({event.attempts[-1].disposition for event in mq.told(Disposed)})
    assert 0 == mq.depth("IN")


async def test_each_message_of_a_moved_group_keeps_its_own_context(mq: QueueManagerKit) -> None:
    mq.mqsc("ALTER QLOCAL(IN) BOTHRESH(1)")
    app = App()

    @app.listener("IN", groups=True)
    def handle(lines: list[Line]) -> None:
        raise ValueError("never")

    for number in (1, 2, 3):
        connection = mq.queue_manager.connect(application_name=f"program {number}")
        session = InlineSession(connection)
        handle_out = connection.open("IN", OpenOption.OUTPUT)
        flags = MessageFlag.MSG_IN_GROUP | (MessageFlag.LAST_MSG_IN_GROUP if number == 3 else 0)
        descriptor = MessageDescriptor(group_id=Y, sequence_number=number, message_flags=int(flags))
        connection.put(handle_out, descriptor, b'{"number":1}', PutOption.NO_SYNCPOINT)
        await session.close()
    async with mq.run(app):
        dead = await mq.drain("BOQ")

    assert ["program 1", "program 2", "program 3"] == [each.descriptor.put_application_name for each in dead]
    assert WHOLE == places(dead)


@pytest.mark.parametrize("error", [Reject("no"), None], ids=["a rejected group", "a group with an undecodable message"])
async def test_a_group_for_which_no_redelivery_helps_is_moved_after_one_call(
    mq: QueueManagerKit, error: Exception | None
) -> None:
    app, calls = App(), list[int]()

    @app.listener("IN", groups=True)
    async def handle(lines: list[Line]) -> None:
        calls.append(len(lines))
        if error is not None:
            raise error

    await put(mq, Y, 1, 3)
    await put(mq, Y, 2, 3)
    if error is None:
        flags = int(MessageFlag.MSG_IN_GROUP | MessageFlag.LAST_MSG_IN_GROUP)
        await mq.put("IN", b"{", group_id=Y, sequence_number=3, message_flags=flags)
    else:
        await put(mq, Y, 3, 3)
    async with mq.run(app):
        dead = await mq.drain("BOQ")
        await anyio.sleep(300)

    assert ([3] if error is not None else []) == calls
    assert WHOLE == places(dead)
    assert 1 == len(mq.told(Decided))


async def test_a_group_beyond_the_limit_fails_and_is_moved_whole(mq: QueueManagerKit) -> None:
    app, calls = App(), list[int]()

    @app.listener("IN", groups=True, group_messages_max=2)
    async def handle(lines: list[Line]) -> None:
        calls.append(len(lines))

    await put_group(mq)
    await put_group(mq, Z, 2)
    async with mq.run(app):
        dead = await mq.drain("BOQ")
        await anyio.sleep(300)

    assert [2] == calls
    assert WHOLE == places(dead)
    text = "the group has more than 2 messages; group_messages_max of the listener allows no more"
    assert [("GroupTooLarge", text)] * 3 == [(each.why.error, each.why.text) for each in dead]


async def test_a_group_goes_whole_to_the_next_queue_if_one_of_its_messages_is_refused(mq: QueueManagerKit) -> None:
    mq.mqsc("ALTER QLOCAL(IN) BOTHRESH(1)", "ALTER QLOCAL(BOQ) MAXDEPTH(2)")
    await put_group(mq)
    async with mq.run(failing()):
        dead = await mq.drain("DLQ")
        await anyio.sleep(300)

    assert WHOLE == places(dead)
    assert (0, 0) == (mq.depth("BOQ"), mq.depth("IN"))
    assert {DeadLetter("DLQ", 2053)} == {event.attempts[-1].disposition for event in mq.told(Disposed)}


async def test_a_group_stays_whole_on_its_queue_if_no_queue_takes_all_of_it(mq: QueueManagerKit) -> None:
    mq.mqsc("ALTER QLOCAL(IN) BOTHRESH(1)", "ALTER QLOCAL(BOQ) MAXDEPTH(2)", "ALTER QLOCAL(DLQ) MAXDEPTH(2)")
    app, calls = App(), list[int]()

    @app.listener("IN", groups=True)
    async def handle(lines: list[Line]) -> None:
        calls.append(len(lines))
        raise ValueError("never")

    await put_group(mq)
    async with mq.run(app):
        await anyio.sleep(30)
        assert (3, 0, 0) == tuple(mq.depth(queue) for queue in ("IN", "BOQ", "DLQ"))
        assert mq.told(ListenerPaused)
        mq.mqsc("ALTER QLOCAL(BOQ) MAXDEPTH(3)")
        dead = await mq.drain("BOQ", within_s=600)

    assert [3] == calls
    assert WHOLE == places(dead)


async def test_a_discarded_group_is_discarded_whole(mq: QueueManagerKit) -> None:
    mq.mqsc("ALTER QLOCAL(IN) BOTHRESH(1) BOQNAME('')")
    for number in (1, 2, 3):
        await put(mq, Y, number, 3, report=0x8000000)  # MQRO_DISCARD_MSG
    await run_for(mq, 300, failing())

    assert (0, 0) == (mq.depth("IN"), mq.depth("DLQ"))
    assert 3 == len(mq.told(Disposed))


async def test_a_message_that_must_be_kept_keeps_a_group_whose_first_message_would_be_discarded(mq: QueueManagerKit) -> None:
    mq.mqsc("ALTER QLOCAL(IN) BOTHRESH(1) BOQNAME('')")
    await put(mq, Y, 1, 2, report=0x8000000)
    await put(mq, Y, 2, 2)
    await run_for(mq, 30, failing())

    assert (2, 0) == (mq.depth("IN"), mq.depth("DLQ"))
    assert "the first message of its group was to be discarded" in mq.told(ListenerPaused)[0].why


async def test_a_group_of_which_a_message_expires_between_the_gets_goes_back_and_waits_to_be_complete(
    mq: QueueManagerKit,
) -> None:
    app, calls = App(), list[int]()

    @app.listener("IN", groups=True)
    async def handle(lines: list[Line]) -> None:
        calls.append(len(lines))

    mq.faults.add(Fault(verb="MQGET", object_name="IN", reason=0, nth=2, delay_s=30))
    await put(mq, Y, 1, 3)
    await put(mq, Y, 2, 3)
    await put(mq, Y, 3, 3, expiry_tenths=100)
    async with mq.run(app):
        await anyio.sleep(60)
        assert [] == calls
        assert [Settlement.BACKOUT] == [event.settlement for event in mq.told(Settled)]
        await put(mq, Y, 3, 3)
        await anyio.sleep(60)

    assert [3] == calls


async def test_a_connection_that_is_lost_within_a_group_backs_the_group_out_without_a_pause(mq: QueueManagerKit) -> None:
    app, calls = App(), list[list[int]]()

    @app.listener("IN", groups=True)
    async def handle(lines: list[Line], messages: list[Message]) -> None:
        calls.append([message.descriptor.backout_count for message in messages])

    # the refusal ends the get of the group after two messages, and the get of the next message breaks the connection
    mq.faults.add(Fault(verb="MQGET", object_name="IN", nth=3, reason=Reason.GET_INHIBITED))
    mq.faults.add(Fault(verb="MQGET", object_name="IN", nth=4))
    await put_group(mq)
    await run_for(mq, 300, app)

    assert [[1, 1, 0]] == calls
    assert [(Settlement.BACKOUT, 2), (Settlement.COMMIT, 3)] == ends(mq)
    assert [] == mq.told(ListenerPaused)
    assert 1 == len(mq.told(Reconnected))
    assert 0 == mq.depth("IN")


async def test_a_refused_get_within_a_group_backs_the_group_out_and_pauses_the_listener(mq: QueueManagerKit) -> None:
    mq.mqsc("ALTER QLOCAL(IN) BOTHRESH(1)")  # the backout is no failure of the handler
    app, calls = App(), list[list[int]]()

    @app.listener("IN", groups=True)
    async def handle(lines: list[Line], messages: list[Message]) -> None:
        calls.append([message.descriptor.backout_count for message in messages])

    # the first refusal ends the get of the group after two messages, the second is that of the next message
    mq.faults.add(Fault(verb="MQGET", object_name="IN", nth=3, times=2, reason=Reason.GET_INHIBITED))
    await put_group(mq)
    await run_for(mq, 300, app)

    assert [[1, 1, 0]] == calls
    assert [(Settlement.BACKOUT, 2), (Settlement.COMMIT, 3)] == ends(mq)
    [paused] = mq.told(ListenerPaused)
    assert Reason.GET_INHIBITED == paused.reason
    assert paused.why.startswith("the next message of a group could not be got: MQGET")
    assert [] == mq.told(Reconnected)
    assert (0, 0) == (mq.depth("IN"), mq.depth("BOQ"))


def ends(mq: QueueManagerKit) -> list[tuple[Settlement, int]]:
    """Return how each unit of work ended, and the number of its messages."""
    return [(event.settlement, len(event.message_ids)) for event in mq.told(Settled)]


async def test_each_message_of_a_group_has_a_record_of_each_decision(mq: QueueManagerKit) -> None:
    app = App(settings=Settings(disposition_queue="RECORDS"))

    @app.listener("IN", groups=True)
    async def handle(lines: list[Line]) -> None:
        raise ValueError("never")

    await put_group(mq, last=2)
    async with mq.run(app):
        await mq.drain("BOQ", at_least=2)
    made = [each for found in await mq.drain("RECORDS") for each in many_from_bytes(found.data)]

    outcomes = [
        (each.outcome, each.backout_count, each.group_id) for each in made if each.outcome is not RecordOutcome.HEARTBEAT
    ]
    rolled_back = [(RecordOutcome.ROLLED_BACK, count, Y) for count in (0, 0, 1, 1, 2, 2)]
    assert [*rolled_back, *[(RecordOutcome.BACKED_OUT, 3, Y)] * 2] == outcomes


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"groups": 1}, "groups=1: it must be True or False"),
        ({"groups": True, "batch": Batch()}, "leave out batch"),
        ({"groups": True, "unit_of_work": 2}, "leave out batch, unit_of_work"),
        ({"groups": True, "strict_order": True}, "strict_order"),
        ({"groups": True, "group_messages_max": 0}, "group_messages_max=0: it must be a number, 1 or more"),
    ],
)
def test_options_that_do_not_go_with_groups_are_refused(keywords: ListenerKeywords, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        App().listener("IN", **keywords)(many)


async def many(lines: list[Line]) -> None: ...


def test_a_handler_of_one_message_and_a_selector_are_refused() -> None:
    async def one(line: Line) -> None: ...

    with pytest.raises(ConfigurationError, match=r"groups=True needs a handler of list\[T\]"):
        App().listener("IN", groups=True)(one)
    with pytest.raises(ConfigurationError, match="groups=True takes no selector"):
        App().listener("IN", groups=True, selector="number = 1")(many)
