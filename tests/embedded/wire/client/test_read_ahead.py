"""Read-ahead of browses on a served queue manager: its limits in messages and in time, and the requests that it saves.

The conformance tests check that a browse shows the same messages with and without read-ahead.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mqflow.embedded.connection import EmbeddedConnection
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.client import read_ahead
from mqflow.embedded.wire.client.connection import ServedConnection, ServedHandle
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.client.read_ahead import AHEAD_S
from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.server.listener import serve
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import GetOptions
from mqflow.world import World
from tests.conformance.under_test import ManualClock, refused
from tests.queue_contents import put

QUEUE = "ORDERS.IN"
NEXT = GetOptions(options=GetOption.BROWSE_NEXT)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def connection(owner: EmbeddedQueueManager, folder: Path, clock: ManualClock) -> Iterator[ServedConnection]:
    with serve(owner, folder / "qm"):
        connected = ServedQueueManager(folder / "qm", world=World(clock)).connect()
        yield connected
        connected.abandon()


@pytest.fixture
def handle(connection: ServedConnection) -> ServedHandle:
    return connection.open(QUEUE, OpenOption.BROWSE)


@pytest.fixture
def asked(connection: ServedConnection, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The requests that the connection sends from now on."""
    sent: list[object] = []
    encode = requests.encode

    def noting(request: object) -> bytes:
        if not isinstance(request, requests.Reply):
            sent.append(request)
        return encode(request)

    monkeypatch.setattr(requests, "encode", noting)
    return sent


def test_a_long_browse_takes_few_ways_there_and_back(
    owner: EmbeddedQueueManager, connection: ServedConnection, handle: ServedHandle, asked: list[object]
) -> None:
    put(owner, QUEUE, *(b"%d" % number for number in range(300)))

    seen = list(iter(lambda: connection.get(handle, NEXT), None))

    assert 300 == len(seen)
    assert [1, 8, 64, 100, 100, 100, 100] == [each.most for each in asked if isinstance(each, requests.GetMany)]


def test_the_messages_read_ahead_are_bounded_in_bytes(
    owner: EmbeddedQueueManager, connection: ServedConnection, handle: ServedHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqflow.embedded.wire.client.connection.AHEAD_BYTES_MAX", 10)
    put(owner, QUEUE, *(b"12345" for _ in range(4)), b"longer than all of them together", b"12345")

    seen, ahead = [], []
    while (got := connection.get(handle, NEXT)) is not None:
        seen.append(len(got.body))
        ahead.append(connection._ahead[handle.number].behind)

    assert [5, 5, 5, 5, 32, 5] == seen
    assert [0, 1, 0, 0, 0, 0] == ahead


def test_a_message_read_ahead_that_is_gone_is_shown_for_half_a_second(
    owner: EmbeddedQueueManager, connection: ServedConnection, handle: ServedHandle, clock: ManualClock
) -> None:
    put(owner, QUEUE, b"1", b"2", b"3", b"4")
    for _ in range(2):
        connection.get(handle, NEXT)
    local = owner.connect()
    assert 4 == len(local.get_many(local.open(QUEUE, OpenOption.INPUT_SHARED), GetOptions(), 4))
    put(owner, QUEUE, b"5")

    clock.advance(AHEAD_S)
    shown = connection.get(handle, NEXT)
    clock.advance(AHEAD_S / 100)
    later = connection.get(handle, NEXT)

    assert shown is not None
    assert later is not None
    assert (b"3", b"5") == (shown.body, later.body)


def test_a_browse_goes_on_after_a_refused_get(
    owner: EmbeddedQueueManager, connection: ServedConnection, handle: ServedHandle, clock: ManualClock
) -> None:
    put(owner, QUEUE, b"1", b"2", b"3", b"4")
    for _ in range(2):
        connection.get(handle, NEXT)
    clock.advance(2 * AHEAD_S)

    owner.administration.alter(QUEUE, {"get_inhibited": True})
    for _ in range(2):
        with refused(Reason.GET_INHIBITED):
            connection.get(handle, NEXT)
    owner.administration.alter(QUEUE, {"get_inhibited": False})

    assert [b"3", b"4"] == [got.body for got in iter(lambda: connection.get(handle, NEXT), None)]


def test_a_program_that_calls_after_each_browse_reads_nothing_ahead(
    owner: EmbeddedQueueManager, connection: ServedConnection, handle: ServedHandle, asked: list[object]
) -> None:
    put(owner, QUEUE, *(b"%d" % number for number in range(5)))

    while connection.get(handle, NEXT) is not None:
        connection.commit()

    assert [1] * 6 == [each.most for each in asked if isinstance(each, requests.GetMany)]
    assert not any(isinstance(each, requests.BrowseBack) for each in asked)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("get"), st.sampled_from((0x10, 0x20, 0x20, 0x20, 0x800, 0x20 | 0x200))),
            st.tuples(st.sampled_from(("get_many", "exchange")), st.sampled_from((0x10, 0x20))),
        ),
        max_size=12,
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_calls_of_any_kind_see_the_same_messages_as_without_reading_ahead(
    owner: EmbeddedQueueManager, connection: ServedConnection, calls: list[tuple[str, int]]
) -> None:
    """BROWSE_FIRST, BROWSE_NEXT, MSG_UNDER_CURSOR (browsed here by a lock), and gets of many."""
    local = owner.connect()
    if not seen(local, [("get", 0x20)])[0]:
        put(owner, QUEUE, *(b"%d" % number for number in range(30)))

    assert seen(local, calls) == seen(connection, calls)
    local.disconnect()


def seen(on: EmbeddedConnection | ServedConnection, calls: list[tuple[str, int]]) -> list[object]:
    """Return the bodies, or the reason, of each call on a new handle."""
    handle: Any = on.open(QUEUE, OpenOption.BROWSE)
    found: list[object] = []
    for name, bits in calls:
        options = GetOptions(options=GetOption(bits))
        try:
            if name == "get":
                got = on.get(handle, options)
                found.append(got and got.body)
            elif name == "exchange" and isinstance(on, ServedConnection):
                found.append([each.body for each in on.exchange(handle, options, commit=None, most=3).unit])
            else:
                found.append([each.body for each in on.get_many(handle, options, 3)])
        except MQIError as error:
            found.append(error.reason)
    on.close(handle)
    return found


@pytest.mark.parametrize(
    "option",
    [GetOption.LOCK, GetOption.MARK_BROWSE_HANDLE, GetOption.UNMARKED_BROWSE_MSG, GetOption.LOGICAL_ORDER],
    ids=lambda option: option.name,
)
def test_a_browse_that_changes_the_queue_is_not_read_ahead(option: GetOption) -> None:
    assert not read_ahead.may_read_ahead(GetOptions(options=GetOption.BROWSE_NEXT | option))


def test_a_handle_that_browsed_one_by_one_has_no_place_to_go_back_to(owner: EmbeddedQueueManager) -> None:
    put(owner, QUEUE, b"1", b"2")
    local = owner.connect()
    handle = local.open(QUEUE, OpenOption.BROWSE)
    local.get_many(handle, NEXT, 2)
    local.get(handle, GetOptions(options=GetOption.BROWSE_FIRST))

    with refused(Reason.NO_MSG_UNDER_CURSOR):
        local.browse_back(handle, 1)


def test_all_the_way_back_after_a_browse_from_the_first_message_is_in_front_of_it(owner: EmbeddedQueueManager) -> None:
    put(owner, QUEUE, b"1", b"2", b"3")
    local = owner.connect()
    handle = local.open(QUEUE, OpenOption.BROWSE)
    local.get_many(handle, NEXT, 3)
    local.get_many(handle, GetOptions(options=GetOption.BROWSE_FIRST), 2)

    local.browse_back(handle, 2)

    assert [b"1"] == [got.body for got in local.get_many(handle, NEXT, 1)]
