"""A get through a client package: options about properties, the size of the buffer, and how a longer message comes whole."""

from typing import Any

import pytest

from mqflow.bindings.handles import BoundHandle, plan_get, same_message, wants_handle, with_wait
from mqflow.bindings.structures import MQGMO
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, MatchOption, OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import GetOptions, Got
from tests.bindings.dialects.recorder import Recorder
from tests.conformance.under_test import ManualClock

FIRST, MOST = 65_536, 4_194_304
TRUNCATED = (1, Reason.TRUNCATED_MSG_FAILED)
WAIT = GetOption.WAIT


@pytest.mark.parametrize(
    ("option", "wanted"),
    [
        (GetOption.NONE, True),
        (GetOption.PROPERTIES_IN_HANDLE, True),
        (GetOption.NO_PROPERTIES, False),
        (GetOption.PROPERTIES_FORCE_MQRFH2, False),
        (GetOption.PROPERTIES_COMPATIBILITY, False),
    ],
)
def test_a_handle_is_wanted_unless_an_option_ignores_it(option: GetOption, *, wanted: bool) -> None:
    assert (wanted, False) == (
        wants_handle(GetOptions(options=option, message_handle=True)),
        wants_handle(GetOptions(options=option)),
    )


def test_a_get_that_says_nothing_leaves_properties_to_the_queue() -> None:
    """The same options have the same meaning on every queue manager. A program that must see properties asks for them."""
    asked = GetOption.SYNCPOINT | GetOption.FAIL_IF_QUIESCING

    assert int(asked) == MQGMO.number(plan_get(GetOptions(options=asked)).gmo, "Options")


def handle(room: int = FIRST, room_max: int = MOST) -> BoundHandle:
    made = BoundHandle(None, 7, "Q", OpenOption.INPUT_SHARED, "")
    assert (FIRST, MOST, None) == (made.room, made.room_max, made.plan)
    made.room, made.room_max = room, room_max
    return made


@pytest.mark.parametrize(
    ("data_bytes", "converted", "room", "kept"),
    [
        (FIRST, False, 4 * FIRST, 4 * FIRST),
        (FIRST + 1, False, 2 * FIRST, 2 * FIRST),
        (2 * FIRST - 1, False, 2 * FIRST, 2 * FIRST),
        (2 * FIRST, False, 4 * FIRST, 4 * FIRST),
        (FIRST + 1, True, 8 * FIRST, 8 * FIRST),
        (3 * MOST, False, 4 * MOST, MOST),
        (1, False, 4 * FIRST, 4 * FIRST),
    ],
)
def test_room_for_a_longer_message_is_kept_up_to_a_limit(data_bytes: int, *, converted: bool, room: int, kept: int) -> None:
    """A power of two, more than was too little; text that is converted can become four times as long."""
    queue = handle()

    assert (room, kept, MOST) == (queue.make_room(data_bytes, converted=converted), queue.room, queue.room_max)


@pytest.mark.parametrize(("data_bytes", "room", "kept"), [(100_000, 100_000, 70_000), (66_000, 70_000, 70_000)])
def test_no_more_room_is_tried_than_the_channel_carries_unless_the_message_needs_it(
    data_bytes: int, room: int, kept: int
) -> None:
    queue = handle(room_max=70_000)

    assert (room, kept) == (queue.make_room(data_bytes, converted=False), queue.room)


@pytest.mark.parametrize(
    ("refused", "least", "room", "kept"), [(FIRST, 1_024, 32_768, 32_768), (1_500, 1_024, 1_024, 1_024), (9, 5, 5, 5)]
)
def test_a_refused_size_is_halved_down_to_the_least(refused: int, least: int, room: int, kept: int) -> None:
    queue = handle()

    assert (room, kept, kept) == (queue.make_less_room(refused, least), queue.room, queue.room_max)
    queue.make_less_room(2 * FIRST, least)
    assert (kept, kept) == (queue.room, queue.room_max)


def test_the_options_for_the_same_message_match_it_and_do_not_wait() -> None:
    options = GetOptions(options=WAIT | GetOption.CONVERT, wait_ms=500, match=MatchOption.GROUP_ID, group_id=b"G" * 24)
    found = MessageDescriptor(message_id=b"M" * 24, correlation_id=b"C" * 24)

    expected = GetOptions(
        options=GetOption.CONVERT, match=MatchOption.MSG_ID | MatchOption.CORREL_ID | MatchOption.GROUP_ID,
        message_id=b"M" * 24, correlation_id=b"C" * 24, group_id=b"G" * 24,
    )  # fmt: skip
    assert expected == same_message(options, found)


@pytest.mark.parametrize(("wait_ms", "option"), [(1, WAIT), (0, GetOption.NONE), (-1, WAIT)])
def test_the_rest_of_a_wait_that_is_over_is_no_wait(wait_ms: int, option: GetOption) -> None:
    options = GetOptions(options=WAIT | GetOption.SYNCPOINT, wait_ms=500)

    assert GetOptions(options=option | GetOption.SYNCPOINT, wait_ms=wait_ms) == with_wait(options, wait_ms)


class Queue:
    """Answers each MQGET with the next of these lengths: a message of that length, or None for no message."""

    def __init__(self, *lengths: int | None, clock: ManualClock | None = None) -> None:
        self.lengths = list(lengths)
        self.clock = clock
        #: For each MQGET: Options, WaitInterval, MatchOptions, MsgId to match, and the size of the buffer.
        self.asked: list[tuple[int, int, int, bytes, int]] = []

    def get(self, _hconn: int, _hobj: int, md: bytes, gmo: bytes, room: int) -> tuple[bytes, bytes, bytes, int, int, int]:
        numbers = [MQGMO.number(gmo, name) for name in ("Options", "WaitInterval", "MatchOptions")]
        options, wait_ms, match = numbers
        self.asked.append((options, wait_ms, match, MessageDescriptor.from_bytes(md).message_id[:1], room))
        if self.clock is not None:
            self.clock.advance(0.1)
        if (length := self.lengths.pop(0)) is None:
            return b"", md, gmo, 0, 2, Reason.NO_MSG_AVAILABLE
        found = MessageDescriptor(message_id=b"M" * 24).to_bytes()
        completion, reason = TRUNCATED if length > room else (0, 0)
        return b"x" * min(room, length), found, gmo, length, completion, reason


def got(queue: Queue, **fields: Any) -> Got | None:
    connection = Recorder(get=queue.get).on(*([queue.clock] if queue.clock else []))
    return connection.get(connection.open("Q", OpenOption.INPUT_SHARED), GetOptions(**fields))


NOTHING, ITS_OWN = (0, b"\0"), (3, b"M")


def test_a_longer_message_is_got_again_by_its_identifiers_into_enough_room() -> None:
    queue = Queue(100_000, 100_000)

    found = got(queue, options=WAIT | GetOption.ACCEPT_TRUNCATED_MSG | GetOption.SYNCPOINT, wait_ms=1_000)

    assert found is not None
    assert (100_000, 0) == (len(found.body), found.reason)
    assert [(3, 1_000, *NOTHING, FIRST), (2, 0, *ITS_OWN, 131_072)] == queue.asked


def test_a_message_that_grew_meanwhile_is_got_into_still_more_room() -> None:
    queue = Queue(100_000, 300_000, 300_000)

    found = got(queue)

    assert found is not None
    assert (300_000, [FIRST, 131_072, 524_288]) == (found.data_bytes, [asked[-1] for asked in queue.asked])


@pytest.mark.parametrize(("wait_ms", "option", "left_ms"), [(1_000, 1, 800), (200, 0, 0), (50, 0, 0), (-1, 1, -1)])
def test_after_a_message_that_another_program_took_the_get_waits_for_the_rest_of_its_time(
    wait_ms: int, option: int, left_ms: int
) -> None:
    queue = Queue(100_000, None, 5, clock=ManualClock())  # an MQGET takes 100 ms

    found = got(queue, options=WAIT, wait_ms=wait_ms)

    assert found is not None
    assert [(1, wait_ms), (0, 0), (option, left_ms)] == [asked[:2] for asked in queue.asked]
    assert (5, 131_072) == (found.data_bytes, queue.asked[-1][-1])


def test_a_get_that_does_not_wait_does_not_begin_to_after_a_message_was_taken() -> None:
    queue = Queue(100_000, None, None, clock=ManualClock())

    assert got(queue, wait_ms=1_000) is None
    assert [4, 4, 4] == [asked[0] for asked in queue.asked]  # MQGMO_WAIT, 1, is in none


@pytest.mark.parametrize(
    ("buffer_bytes_max", "options", "asked"), [(10, 4, 4), (10, 4 | 0x40, 4 | 0x40), (0, 4, 4), (None, 4 | 0x40, 4)]
)
def test_a_get_with_a_buffer_of_its_own_takes_what_fits(buffer_bytes_max: int | None, options: int, asked: int) -> None:
    queue = Queue(5)

    got(queue, buffer_bytes_max=buffer_bytes_max, options=GetOption(options))

    assert [(asked, 0, 0, b"\0", FIRST if buffer_bytes_max is None else buffer_bytes_max)] == queue.asked


def test_the_structures_of_a_get_are_made_once_for_the_same_options() -> None:
    """A listener gets with the same options again and again."""
    connection = Recorder(get=Queue(1, 1, 1).get).on()
    queue = connection.open("Q", OpenOption.INPUT_SHARED)
    first, second = GetOptions(), GetOptions(wait_ms=1)
    plans = []

    for options in (first, first, second):
        connection.get(queue, options)
        plans.append(queue.plan)

    assert plans[0] is plans[1] is not plans[2]
    assert [first, first, second] == [plan.options for plan in plans if plan]
