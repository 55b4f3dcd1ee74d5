"""The names and times that the queue manager makes."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.state.identifiers import Identifiers, Timestamps, dynamic_queue_name, queue_manager_identifier
from mqflow.embedded.storage.sqlite.rows import SERIALS_RESERVED
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.names import is_object_name
from mqflow.mqi.options import PutOption
from mqflow.world import World
from tests.conformance.under_test import ManualClock


def test_identifiers_carry_the_name_of_their_queue_manager() -> None:
    made = Identifiers("A.LONG.QUEUE.MANAGER", 0.0, 1).identifier()

    assert (24, b"AMQ A.LONG.QUEU") == (len(made), made[:15])


@given(starts=st.lists(st.floats(0, 4e9), min_size=2, max_size=2).map(sorted), made=st.integers(0, 50))
def test_identifiers_grow_over_a_restart(starts: list[float], made: int) -> None:
    """They also grow over a restart in the same microsecond, because the stored messages are counted."""
    first = Identifiers("QM1", starts[0], 1)
    before = [first.identifier() for _ in range(made)]
    second = Identifiers("QM1", max(starts[1], starts[0]), 1 + made)

    assert all(earlier < second.identifier() for earlier in before)


@given(st.integers(0, 4_000_000_000_00))
def test_dates_and_times_have_their_fixed_form(hundredths: int) -> None:
    date, time = Timestamps().of(hundredths / 100)

    assert (8, 8) == (len(date), len(time))
    assert (date + time).isdecimal()


def test_hundredths_are_those_of_the_moment() -> None:
    stamps = Timestamps()

    assert [("19700101", "00000125"), ("19700101", "00000199"), ("19700102", "00000000")] == [
        stamps.of(moment) for moment in (1.25, 1.99, 86_400.0)
    ]


@given(st.lists(st.integers(0, 300), max_size=20))
def test_the_remembered_text_does_not_change_a_time(hundredths: list[int]) -> None:
    stamps = Timestamps()
    moments = [number / 100 for number in hundredths]

    assert [Timestamps().of(moment) for moment in moments] == [stamps.of(moment) for moment in moments]


@given(st.text("ABC.", min_size=0, max_size=32), st.integers(0, 2**63 - 1))
def test_every_prefix_that_is_short_enough_makes_a_name(prefix: str, number: int) -> None:
    made = dynamic_queue_name(f"{prefix}*", number)

    assert is_object_name(made)
    assert made.startswith(prefix)


@given(
    name=st.text("ABZaz09._/%", min_size=1, max_size=48),
    microseconds=st.lists(st.integers(0, 4_000_000_000_000_000), min_size=2, max_size=2, unique=True),
)
def test_two_queue_managers_of_one_name_differ_in_their_qmid(name: str, microseconds: list[int]) -> None:
    made = [
        queue_manager_identifier(name, date, time, moment / 1_000_000)
        for moment in microseconds
        for date, time in [Timestamps().of(moment // 1_000_000)]
    ]

    assert made[0] != made[1]
    assert all(len(each) <= 48 for each in made)


def test_a_qmid_begins_as_in_ibm_mq() -> None:
    assert "QM1_2026-11-21_10.14.22.250000" == queue_manager_identifier("QM1", "2026-11-21", "10.14.22", 1_795_256_062.25)


def test_identifiers_are_not_given_twice_after_the_clock_was_set_back(tmp_path: Path) -> None:
    """The count of stored messages, which is noted in advance, prevents this. Otherwise an inbox would skip a new message."""
    clock = ManualClock()

    def put(count: int) -> set[bytes]:
        with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path / "data"), world=World(clock)) as queue_manager:
            connection = queue_manager.connect()
            descriptor = MessageDescriptor(persistence=1)
            name = "SYSTEM.DEFAULT.LOCAL.QUEUE"
            made = [connection.put1(name, descriptor, b"", PutOption.SYNCPOINT).descriptor.message_id for _ in range(count)]
            connection.commit()
            return set(made)

    before = put(200)
    clock.advance(-(SERIALS_RESERVED - 100) / 1e6)

    assert not before & put(200)
