"""Many messages in one call: the result equals that of the same number of single calls. Source: `verbs.BatchConnection`."""

from typing import Any, cast

import pytest
from msgspec.structs import replace

from mqflow.many_verbs import get_many, put_many, take_unit
from mqflow.mqi.descriptor import NO_ID, MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, MatchOption, OpenOption, PutOption, Report
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import Connection, GetOptions, Got, ObjectHandle
from tests.conformance.programs import Program
from tests.conformance.under_test import UnderTest, refused

UNIT = GetOptions(options=GetOption.SYNCPOINT)
HANDLE = cast("ObjectHandle", None)  # `LostAfter` does not use the handle


class OneByOne:
    """A connection without verbs for many messages: a loop of single calls gives the expected result."""

    def __init__(self, connection: Connection) -> None:
        self.get = connection.get
        self.put = connection.put


class LostAfter:
    """A connection to a remote queue manager that is lost in the get after a number of gets."""

    def __init__(self, gets: int) -> None:
        self._left = gets

    def get(self, handle: object, options: GetOptions) -> Got:
        del handle, options
        if not self._left:
            raise MQIError(Reason.CONNECTION_BROKEN, "MQGET")
        self._left -= 1
        return Got(descriptor=MessageDescriptor(), body=b"%d" % self._left, data_bytes=1)


def bodies(unit: list[Got]) -> list[bytes]:
    return [got.body for got in unit]


def test_as_many_as_are_there_are_got(queue: str, program: Program) -> None:
    for number in range(5):
        program.put(queue, b"%d" % number)

    assert [b"0", b"1", b"2"] == bodies(get_many(program.connection, program.handle(queue), UNIT, 3))
    assert [b"3", b"4"] == bodies(get_many(program.connection, program.handle(queue), UNIT, 3))
    assert [] == get_many(program.connection, program.handle(queue), UNIT, 3)


def test_many_messages_are_one_unit_of_work(queue: str, program: Program, other: Program) -> None:
    for number in range(3):
        program.put(queue, b"%d" % number)

    get_many(program.connection, program.handle(queue), UNIT, 3)
    unseen = other.seen(queue)
    program.backout()

    assert ([], [b"0", b"1", b"2"]) == (unseen, other.seen(queue))


def test_a_message_delivered_before_comes_alone_or_last(queue: str, program: Program) -> None:
    for number in range(4):
        program.put(queue, b"%d" % number)
    get_many(program.connection, program.handle(queue), UNIT, 2)
    program.backout()

    units = [bodies(get_many(program.connection, program.handle(queue), UNIT, 4)) for _ in range(3)]

    assert [[b"0"], [b"1"], [b"2", b"3"]] == units


def test_only_the_first_is_waited_for(queue: str, program: Program) -> None:
    program.put(queue, b"1")
    patient = GetOptions(options=GetOption.SYNCPOINT | GetOption.WAIT, wait_ms=600_000)

    assert [b"1"] == bodies(get_many(program.connection, program.handle(queue), patient, 10))


def test_a_browse_goes_on_from_the_first_and_leaves_all(queue: str, program: Program) -> None:
    for number in range(4):
        program.put(queue, b"%d" % number)
    handle = program.open(queue, OpenOption.BROWSE)

    def look(options: GetOption) -> list[bytes]:
        return bodies(get_many(program.connection, handle, GetOptions(options=options), 3))

    assert [b"0", b"1", b"2"] == look(GetOption.BROWSE_FIRST)
    assert [b"3"] == look(GetOption.BROWSE_NEXT)
    assert [b"0", b"1", b"2"] == look(GetOption.BROWSE_FIRST)


def test_a_message_that_stays_because_it_is_too_long_ends_the_unit(queue: str, program: Program) -> None:
    for body in (b"1", b"too long", b"3"):
        program.put(queue, body)
    short = GetOptions(options=GetOption.SYNCPOINT, buffer_bytes_max=2)

    unit = get_many(program.connection, program.handle(queue), short, 10)

    assert [Reason.NONE, Reason.TRUNCATED_MSG_FAILED] == [got.reason for got in unit]


def test_more_than_maxumsgs_are_not_got(queue_manager: UnderTest, queue: str, program: Program) -> None:
    queue_manager.administration.alter_queue_manager({"max_uncommitted_messages": 2})
    for number in range(3):
        program.put(queue, b"%d" % number)

    unit = get_many(program.connection, program.handle(queue), UNIT, 10)

    assert [b"0", b"1"] == bodies(unit)
    with refused(Reason.SYNCPOINT_LIMIT_REACHED):
        get_many(program.connection, program.handle(queue), UNIT, 10)


def test_a_message_that_is_backed_out_with_its_connection_is_not_returned() -> None:
    with refused(Reason.CONNECTION_BROKEN):
        get_many(cast("Connection", LostAfter(2)), HANDLE, UNIT, 10)


@pytest.mark.parametrize("outside", [GetOption.NO_SYNCPOINT, GetOption.SYNCPOINT_IF_PERSISTENT])
def test_a_message_that_left_its_queue_is_returned_also_if_the_connection_is_lost(outside: GetOption) -> None:
    connection = cast("Connection", LostAfter(2))

    assert [b"1", b"0"] == bodies(get_many(connection, HANDLE, GetOptions(options=outside), 10))
    with refused(Reason.CONNECTION_BROKEN):
        get_many(connection, HANDLE, GetOptions(options=outside), 10)


def test_the_refusal_of_the_first_get_is_raised(queue_manager: UnderTest, queue: str, program: Program) -> None:
    handle = program.handle(queue)
    queue_manager.administration.alter(queue, {"get_inhibited": True})

    with refused(Reason.GET_INHIBITED):
        get_many(program.connection, handle, UNIT, 10)


# Each message is put before, between and after plain messages: the result is the same if one step gets it alone or with them.
_SPECIAL: dict[str, dict[str, Any]] = {
    "nothing special": {}, "a report of delivery": {"report": Report.COD}, "an expiry": {"expiry_tenths": 6_000},
    "persistent": {"persistence": 1}, "a priority": {"priority": 9}, "a correlation": {"correlation_id": b"c" * 24},
    "a format": {"format": "MQSTR", "ccsid": 1208},
}  # fmt: skip
_ASKED: dict[str, GetOptions] = {
    "in a unit of work": UNIT,
    "outside one": GetOptions(options=GetOption.NO_SYNCPOINT),
    "if persistent": GetOptions(options=GetOption.SYNCPOINT_IF_PERSISTENT),
    "converted": GetOptions(options=GetOption.SYNCPOINT | GetOption.CONVERT, ccsid=819),
    "cut": GetOptions(options=GetOption.SYNCPOINT | GetOption.ACCEPT_TRUNCATED_MSG, buffer_bytes_max=3),
    "of one correlation": GetOptions(options=GetOption.SYNCPOINT, match=MatchOption.CORREL_ID, correlation_id=b"c" * 24),
}


@pytest.mark.parametrize("asked", _ASKED)
@pytest.mark.parametrize("special", _SPECIAL)
def test_many_are_got_as_one_by_one(queue_manager: UnderTest, program: Program, special: str, asked: str) -> None:
    queues = [queue_manager.define(name, max_depth=100) for name in ("MANY", "EACH")]
    for name in queues:
        replies = queue_manager.define(f"{name}.REPLIES")
        for number, fields in enumerate(({}, _SPECIAL[special], {}, {}, _SPECIAL[special])):
            program.put(name, b"order %d" % number, reply_to_queue=replies, **fields)

    many = get_many(program.connection, program.handle("MANY"), _ASKED[asked], 10)
    each = get_many(OneByOne(program.connection), program.handle("EACH"), _ASKED[asked], 10)  # type: ignore[arg-type]  # it gets
    program.commit()

    told = [[(got.body, got.reason, got.data_bytes, got.descriptor.expiry_tenths) for got in unit] for unit in (many, each)]
    assert told[1] == told[0]
    assert queue_manager.depth("EACH") == queue_manager.depth("MANY")
    assert queue_manager.depth("EACH.REPLIES") == queue_manager.depth("MANY.REPLIES")


def test_many_are_put_in_their_order(queue: str, program: Program, other: Program) -> None:
    messages = [(MessageDescriptor(), b"%d" % number) for number in range(5)]

    made = put_many(program.connection, program.handle(queue), messages, PutOption.SYNCPOINT)
    before = other.seen(queue)
    program.commit()

    assert made.error is None
    assert 5 == len({put.descriptor.message_id for put in made.puts})
    assert ([], [b"0", b"1", b"2", b"3", b"4"]) == (before, other.seen(queue))


@pytest.mark.parametrize("options", [PutOption.SYNCPOINT, PutOption.NO_SYNCPOINT], ids=["in a unit of work", "outside one"])
def test_messages_put_before_a_refused_one_stay_put(queue_manager: UnderTest, program: Program, options: PutOption) -> None:
    queue = queue_manager.define("SMALL", max_depth=2)
    messages = [(MessageDescriptor(), b"%d" % number) for number in range(3)]

    made = put_many(program.connection, program.handle(queue), messages, options)
    program.commit()

    assert made.error is not None
    assert (2, Reason.Q_FULL) == (len(made.puts), made.error.reason)
    assert [b"0", b"1"] == program.seen(queue)


def test_nothing_is_put_where_there_is_nothing_to_put(queue: str, program: Program) -> None:
    made = put_many(program.connection, program.handle(queue), (), PutOption.SYNCPOINT)

    assert ((), None) == (tuple(made.puts), made.error)


_PUT: dict[str, tuple[dict[str, Any], PutOption]] = {
    "nothing special": ({}, PutOption.NONE),
    "an identifier of its own": ({"message_id": b"m" * 24}, PutOption.NONE),
    "an identifier that is not wanted": ({"message_id": b"m" * 24}, PutOption.NEW_MSG_ID),
    "new correlations": ({}, PutOption.NEW_CORREL_ID),
    "persistent": ({"persistence": 1}, PutOption.NONE),
    "a priority that is too high": ({"priority": 12}, PutOption.NONE),
    "an expiry": ({"expiry_tenths": 6_000}, PutOption.NONE),
    "a report of arrival": ({"report": Report.COA, "reply_to_queue": "REPLIES"}, PutOption.NONE),
    "no context": ({"user_identifier": "nobody"}, PutOption.NO_CONTEXT),
    "a reply-to queue": ({"reply_to_queue": "REPLIES", "message_type": 1}, PutOption.NONE),
}


@pytest.mark.parametrize("special", _PUT)
def test_many_are_put_as_one_by_one(queue_manager: UnderTest, program: Program, special: str) -> None:
    fields, option = _PUT[special]
    for name in ("MANY", "EACH", "REPLIES"):
        queue_manager.define(name, max_depth=100)
    messages = [(MessageDescriptor(**fields), b"first")] + [(MessageDescriptor(**fields), b"another")] * 3

    many = put_many(program.connection, program.handle("MANY"), messages, option | PutOption.SYNCPOINT)
    each = put_many(OneByOne(program.connection), program.handle("EACH"), messages, option | PutOption.SYNCPOINT)  # type: ignore[arg-type]  # it puts
    program.commit()

    told = []
    for name, made in (("MANY", many), ("EACH", each)):
        got = [program.got(name) for _ in messages]
        assert [put.descriptor.message_id for put in made.puts] == [one.descriptor.message_id for one in got]
        told.append(
            ([(one.body, _but_identifiers(one.descriptor)) for one in got], [put.reason for put in made.puts],
             len({one.descriptor.message_id for one in got}), len({one.descriptor.correlation_id for one in got})),
        )  # fmt: skip
    assert told[1] == told[0]


def _but_identifiers(descriptor: MessageDescriptor) -> MessageDescriptor:
    return replace(descriptor, message_id=NO_ID, correlation_id=NO_ID, put_time="", put_date="")


@pytest.mark.parametrize(
    ("attribute", "reason"), [({"max_depth": 2}, Reason.Q_FULL), ({"max_message_bytes": 3}, Reason.MSG_TOO_BIG_FOR_Q)], ids=str
)
def test_one_like_the_others_is_refused_like_any(
    queue_manager: UnderTest, program: Program, attribute: dict[str, int], reason: Reason
) -> None:
    queue = queue_manager.define("SMALL", **attribute)
    like = MessageDescriptor()

    made = put_many(
        program.connection, program.handle(queue), [(like, b"1"), (like, b"2"), (like, b"long")], PutOption.SYNCPOINT
    )
    program.commit()

    assert made.error is not None
    assert (2, reason) == (len(made.puts), made.error.reason)
    assert [b"1", b"2"] == program.seen(queue)


def test_many_puts_are_counted_one_by_one(queue_manager: UnderTest, queue: str, program: Program) -> None:
    queue_manager.administration.alter_queue_manager({"max_uncommitted_messages": 2})
    like = MessageDescriptor()

    made = put_many(program.connection, program.handle(queue), [(like, b"1")] * 3, PutOption.SYNCPOINT)

    assert made.error is not None
    assert (2, Reason.SYNCPOINT_LIMIT_REACHED) == (len(made.puts), made.error.reason)


def test_a_unit_without_room_takes_no_further_message(queue: str, program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqflow.many_verbs.UNIT_BYTES_MAX", 5)
    for body in (b"12345", b"6"):
        program.put(queue, body)
    options = GetOptions(options=GetOption.SYNCPOINT)
    unit = [program.got(queue, GetOption.SYNCPOINT)]

    take_unit(program.connection, program.handle(queue), unit, options, 9)

    assert [b"12345"] == [got.body for got in unit]
