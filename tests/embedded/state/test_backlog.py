"""A search by index finds the message that a plain search over the whole queue finds."""

from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mqflow.embedded.rules.get_plan import Match, matches
from mqflow.embedded.state.backlog import BEFORE_FIRST, Emptied, QueuedMessage, order_key
from mqflow.embedded.state.objects import LocalQueue
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import NO_ID, MessageDescriptor

IDENTIFIERS = (NO_ID, b"a" * 24, b"b" * 24)
identifiers = st.sampled_from(IDENTIFIERS)
descriptors = st.builds(
    MessageDescriptor,
    message_id=st.sampled_from(IDENTIFIERS[1:]),
    correlation_id=identifiers,
    group_id=identifiers,
    sequence_number=st.integers(1, 2),
)
wanted = st.none() | identifiers.filter(lambda identifier: identifier != NO_ID)
some_match = st.builds(
    Match, message_id=wanted, correlation_id=wanted, group_id=wanted, sequence_number=st.none() | st.integers(1, 2)
)


def message(serial: int, priority: int, descriptor: MessageDescriptor) -> QueuedMessage:
    return QueuedMessage(
        key=order_key(priority, serial), serial=serial, descriptor=descriptor, body=b"", put_at=0.0, expires_at=None
    )


def expected(present: dict[int, QueuedMessage], match: Match | None, after: int) -> QueuedMessage | None:
    for key in sorted(present):
        if key > after and (match is None or matches(match, present[key].descriptor)):
            return present[key]
    return None


@given(
    puts=st.lists(st.tuples(st.integers(0, 9), descriptors), min_size=1, max_size=30),
    steps=st.lists(st.tuples(st.integers(0, 29), st.none() | some_match), max_size=60),
)
def test_after_any_takes_and_returns_the_next_match_is_the_first_in_order(
    puts: list[tuple[int, MessageDescriptor]], steps: list[tuple[int, Match | None]]
) -> None:
    queue = LocalQueue(QueueAttributes(name="Q"))
    everything = [message(serial, priority, descriptor) for serial, (priority, descriptor) in enumerate(puts, 1)]
    present: dict[int, QueuedMessage] = {}
    for put in everything:
        queue.add(put)
        present[put.key] = put

    for choice, match in steps:
        chosen = everything[choice % len(everything)]
        for after in (BEFORE_FIRST, chosen.key):
            assert expected(present, match, after) is queue.next_match(match, after)
        if chosen.key in present:
            queue.take(present.pop(chosen.key))
        else:
            queue.add(chosen)
            present[chosen.key] = chosen

    assert len(present) == queue.depth


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 2**56 - 1)), unique=True))
def test_order_keys_sort_by_priority_and_then_by_arrival(places: list[tuple[int, int]]) -> None:
    by_key = sorted(places, key=lambda place: order_key(*place))

    assert sorted(places, key=lambda place: (-place[0], place[1])) == by_key


@given(st.integers(0, 9), st.integers(1, 2**56 - 1))
def test_the_priority_can_be_read_from_the_key(priority: int, serial: int) -> None:
    assert priority == message(serial, priority, MessageDescriptor()).order_priority


@given(st.lists(descriptors, max_size=20), some_match)
def test_a_serial_narrows_every_other_match(descriptors_put: list[MessageDescriptor], match: Match) -> None:
    queue = LocalQueue(QueueAttributes(name="Q"))
    for serial, descriptor in enumerate(descriptors_put, 1):
        queue.add(message(serial, serial % 10, descriptor))
    for serial, descriptor in enumerate(descriptors_put, 1):
        found = queue.next_match(replace(match, serial=serial), BEFORE_FIRST)

        assert (matches(match, descriptor), serial) == (found is not None, found.serial if found else serial)


@pytest.mark.parametrize("priority", [9, 0, -1, -(2**62)])
def test_a_serial_finds_its_message_at_any_place_and_no_other(priority: int) -> None:
    """The staging queue orders its messages by due time, which is like a priority far below 0."""
    queue = LocalQueue(QueueAttributes(name="Q"))
    for serial in (5, 6):
        queue.add(message(serial, priority, MessageDescriptor()))
    found = queue.next_match(Match(serial=6), BEFORE_FIRST)

    assert found is not None
    assert 6 == found.serial
    assert queue.next_match(Match(serial=6), found.key) is None
    assert queue.next_match(Match(serial=1 << 56 | 6), BEFORE_FIRST) is None


def test_clear_returns_every_message_and_leaves_an_empty_queue() -> None:
    queue = LocalQueue(QueueAttributes(name="Q"))
    put = message(1, 0, MessageDescriptor(message_id=b"a" * 24))
    queue.add(put)
    queue.next_match(Match(message_id=b"a" * 24), BEFORE_FIRST)

    assert Emptied((put,), ()) == queue.clear()
    assert queue.next_match(None, BEFORE_FIRST) is None
    assert queue.next_match(Match(message_id=b"a" * 24), BEFORE_FIRST) is None


class _Unwalked(dict[int, QueuedMessage]):
    """A dictionary whose messages must not be read one after the other: there may be a million."""

    def values(self) -> NoReturn:
        raise AssertionError("walked through")


@given(puts=st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=40))
def test_the_oldest_message_is_that_of_the_lowest_serial_and_is_not_searched_for(puts: list[tuple[int, bool]]) -> None:
    queue = LocalQueue(QueueAttributes(name="Q"))
    everything = [(message(serial, priority, MessageDescriptor()), stays) for serial, (priority, stays) in enumerate(puts, 1)]
    for put, _ in everything:
        queue.add(put)
    for put, stays in everything:
        if not stays:
            queue.take(put)
    queue.messages = _Unwalked(queue.messages)

    assert queue.oldest() is next((put for put, stays in everything if stays), None)
