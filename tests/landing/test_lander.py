"""The lander: every message is in the journal once, whichever call fails; and the cases that it refuses to guess."""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from mqflow.folders import Folder
from mqflow.journal import JournalFullError, LaneError, TornSegmentError
from mqflow.landing.lander import Landed, Lander, LanderOptions
from mqflow.landing.landing_loop import Progress, Recovered, keep_landing
from mqflow.landing.recovery import STATE_QUEUE, Marker, Publish, Recovery, Refuse, Sound, marker_from, recover, room_for
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, OpenOption, PutOption, Report
from mqflow.mqi.reason_codes import Reason
from mqflow.testing.faults import Fault, Moment
from mqflow.testing.kit import QueueManagerKit
from mqflow.testing.virtual_clock import SeededRandom
from mqflow.verbs import Connection, GetOptions, Got, ObjectHandle, QueueManager
from tests.landing.journals import (
    GET,
    MODES,
    QUEUE,
    Forgetful,
    Unmarked,
    bodies,
    column,
    land_all,
    lander_on,
    lane_of,
    left,
    put,
    steal,
)

COUNT = 20


class Landing:
    """A queue with messages, and a journal beside it."""

    def __init__(self, folder: Folder, count: int = COUNT) -> None:
        self.kit = QueueManagerKit()
        self.folder = folder
        self.kit.define(QUEUE)
        self.kit.define(STATE_QUEUE)
        put(self.connect(), 0, count)

    @property
    def faulty(self) -> QueueManager:
        return self.kit.faults.wrap(self.kit.queue_manager)

    def connect(self) -> Connection:
        """Return a connection that no fault strikes."""
        return self.kit.queue_manager.connect()

    def lander(self, options: LanderOptions = GET, make: Callable[..., Lander] = Lander) -> Lander:
        return lander_on(self.faulty.connect(), self.folder, self.kit.clock, options, make)

    def land(self, options: LanderOptions = GET, make: Callable[..., Lander] = Lander) -> list[int]:
        """Land until the queue is empty; return the sizes of the segments."""
        connection = self.faulty.connect()
        try:
            return [landed.rows for landed in land_all(lander_on(connection, self.folder, self.kit.clock, options, make))]
        finally:
            with suppress(MQIError):
                connection.backout()
                connection.disconnect()

    @property
    def landed(self) -> list[int]:
        return bodies(self.folder)


@pytest.fixture
def landing(folder: Folder) -> Landing:
    return Landing(folder.folder("journal"))


@pytest.mark.parametrize("options", MODES.values(), ids=MODES)
def test_the_journal_holds_the_messages_of_the_queue_in_their_order(options: LanderOptions, landing: Landing) -> None:
    assert [7, 7, 6] == landing.land(options)

    assert list(range(COUNT)) == landing.landed
    assert [0] * COUNT == column(landing.folder, "backout_count")
    assert [] == left(landing.connect())


# -- whatever breaks


def break_at_every_call(folder: Folder, options: LanderOptions, make: Callable[..., Lander] = Lander) -> list[list[int]]:
    """Return the messages landed or left, for a connection that breaks before or after each call in turn."""
    found = []
    for moment in Moment:
        for nth in range(1, 200):
            landing = Landing(folder.folder(f"{moment.name}{nth}"), 12)
            landing.kit.faults.add(Fault(nth=nth, moment=moment))
            with suppress(MQIError):
                landing.land(options, make)
                break  # there are no more calls
            landing.kit.faults.clear()
            landing.land(options, make)
            found.append(sorted(landing.landed + left(landing.connect())))
    return found


@pytest.mark.parametrize("options", MODES.values(), ids=MODES)
def test_a_connection_that_breaks_at_any_call_loses_nothing_and_doubles_nothing(options: LanderOptions, folder: Folder) -> None:
    found = break_at_every_call(folder, options)

    assert len(found) > 50, "too few breaks to prove anything"
    assert [list(range(12))] * len(found) == found


@pytest.mark.parametrize(("control", "wrong"), [(Unmarked, "doubled"), (Forgetful, "lost")])
def test_without_the_marker_the_same_breaks_lose_or_double(control: Callable[..., Lander], wrong: str, disk: Folder) -> None:
    found = break_at_every_call(disk, GET, control)

    lost = any(len(set(numbers)) < 12 for numbers in found)
    doubled = any(len(numbers) > len(set(numbers)) for numbers in found)
    assert {"lost": wrong == "lost", "doubled": wrong == "doubled"} == {"lost": lost, "doubled": doubled}


@pytest.mark.parametrize(
    ("reason", "moment"),
    [
        *((reason, moment) for reason in (Reason.CONNECTION_BROKEN, Reason.CALL_INTERRUPTED) for moment in Moment),
        (Reason.RESOURCE_PROBLEM, Moment.BEFORE),  # the connection still works, and a backout says nothing about the commit
    ],
)
def test_a_commit_in_doubt_is_settled_by_the_marker(reason: Reason, moment: Moment, landing: Landing) -> None:
    landing.kit.faults.add(Fault(verb="MQCMIT", nth=2, reason=reason, moment=moment))  # the first claims the lane

    with pytest.raises(MQIError):
        landing.land()
    pending = len(lane_of(landing.folder).pending())
    landing.land()

    assert 1 == pending
    assert list(range(COUNT)) == sorted(landing.landed)
    assert () == lane_of(landing.folder).pending()


def test_a_unit_that_was_backed_out_for_certain_is_landed_again(landing: Landing) -> None:
    landing.kit.faults.add(Fault(verb="MQCMIT", nth=2, reason=Reason.BACKED_OUT))

    with pytest.raises(MQIError, match="2003"):
        landing.land()

    assert () == lane_of(landing.folder).pending()
    landing.land()
    assert list(range(COUNT)) == sorted(landing.landed)


def test_a_full_disk_puts_the_messages_back_and_landing_goes_on_when_there_is_room(
    disk: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    landing = Landing(disk)
    lander = landing.lander()
    lander.open()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(JournalFullError):
            lander.land()

    landing.land()
    assert list(range(COUNT)) == sorted(landing.landed)


def test_with_too_little_room_nothing_is_got_so_no_backout_is_counted(disk: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    landing = Landing(disk)
    lander = landing.lander()
    lander.open()
    with monkeypatch.context() as patched:
        patched.setattr("mqflow.folders.local_folder.disk_usage", lambda _: SimpleNamespace(free=1_000))
        with pytest.raises(JournalFullError, match="1,000 bytes are free"):
            lander.land()

    landing.land()
    assert {0} == set(column(landing.folder, "backout_count"))


# -- other consumers


class ThievesAt:
    """A clock that lets another program get messages when it is read: after the browse, before the gets."""

    def __init__(self, landing: Landing, wanted: Callable[[int], bool]) -> None:
        self._landing = landing
        self._wanted = wanted
        self.loot: list[int] = []

    def wall(self) -> float:
        self.loot += steal(self._landing.connect(), self._wanted)
        return self._landing.kit.clock.wall()

    def monotonic(self) -> float:
        return self._landing.kit.clock.monotonic()

    def monotonic_epoch(self) -> bytes:
        return bytes(16)


@pytest.mark.parametrize("stolen", [{3}, {0, 6, 19}, set(range(7)), set(range(COUNT))], ids=str)
def test_what_somebody_else_takes_between_browse_and_get_is_not_landed_and_no_backout_is_counted(
    stolen: set[int], landing: Landing
) -> None:
    thieves = ThievesAt(landing, stolen.__contains__)

    land_all(lander_on(landing.connect(), landing.folder, thieves, MODES["browse"]))

    assert sorted(stolen) == sorted(thieves.loot)
    assert sorted(set(range(COUNT)) - stolen) == landing.landed
    assert {0} >= set(column(landing.folder, "backout_count"))


# -- limits


@pytest.mark.parametrize(("limit", "expected"), [(4, 1), (10, 7), (9, 6), (10_000, 7), (3, 0), (1, 0)])
def test_a_unit_of_work_has_room_for_its_marker(limit: int, expected: int) -> None:
    assert expected == room_for(limit, 7)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("options", MODES.values(), ids=MODES)
@pytest.mark.parametrize("limit", [4, 5, 8])
def test_maxumsgs_bounds_a_segment(limit: int, options: LanderOptions, landing: Landing) -> None:
    landing.kit.mqsc(f"ALTER QMGR MAXUMSGS({limit})")

    sizes = landing.land(options)

    assert limit - 3 == max(sizes)
    assert list(range(COUNT)) == landing.landed


@pytest.mark.parametrize(("options", "nth"), [(GET, 2), (MODES["browse"], 20)], ids=MODES)
def test_a_unit_of_work_that_others_fill_too_is_made_smaller(options: LanderOptions, nth: int, landing: Landing) -> None:
    """MAXUMSGS counts messages that no inquiry shows; the limit is met, and half as many fit."""
    landing.kit.faults.add(Fault(verb="MQGET", object_name=QUEUE, nth=nth, reason=Reason.SYNCPOINT_LIMIT_REACHED))

    sizes = landing.land(replace(options, batch=16))

    assert 8 == max(sizes)
    assert list(range(COUNT)) == landing.landed


def test_a_segment_waits_for_more_messages_as_long_as_it_may_linger(landing: Landing) -> None:
    steal(landing.connect(), lambda number: number > 0)
    late = _Late(landing.kit, put=[1, 2])
    lander = lander_on(late, landing.folder, landing.kit.clock, LanderOptions(linger_ms=200))  # type: ignore[arg-type]  # passes on
    lander._stopping = lambda: False  # type: ignore[misc]  # this lander waits
    lander.open()

    landed = lander.land()

    assert landed is not None
    assert (3, [0, 1, 2]) == (landed.rows, landing.landed)
    assert [200, 120, 40] == late.waited_ms  # a message comes every 80 ms; the rest of the time brings no message


class _Late:
    """A connection on which a waiting get receives the next message after 80 ms, while there are any."""

    def __init__(self, kit: QueueManagerKit, put: list[int]) -> None:
        self._inner = kit.queue_manager.connect()
        self._other = kit.queue_manager.connect()
        self._clock = kit.clock
        self._put = put
        self.waited_ms: list[int] = []

    def get(self, handle: ObjectHandle, options: GetOptions) -> Got | None:
        if options.options & GetOption.WAIT:
            self.waited_ms.append(options.wait_ms)
            self._clock.advance(min(options.wait_ms, 80) / 1_000)
            if self._put:
                put(self._other, self._put.pop(0), 1)
        return self._inner.get(handle, replace(options, options=options.options & ~GetOption.WAIT))

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


def test_a_limit_of_uncommitted_messages_below_four_stops_the_lander(landing: Landing) -> None:
    landing.kit.mqsc("ALTER QMGR MAXUMSGS(3)")

    with pytest.raises(LaneError, match="MAXUMSGS is below 4"):
        landing.land()


@pytest.mark.parametrize("options", MODES.values(), ids=MODES)
def test_messages_that_ask_for_a_confirmation_of_delivery_count_twice(options: LanderOptions, landing: Landing) -> None:
    landing.kit.define("REPLIES")
    connection = landing.connect()
    steal(connection, lambda _: True)
    for number in range(COUNT):
        asked = MessageDescriptor(report=Report.COD, reply_to_queue="REPLIES")
        connection.put1(QUEUE, asked, b"%d" % number, PutOption.NO_SYNCPOINT)
    landing.kit.mqsc("ALTER QMGR MAXUMSGS(9)")

    landing.land(options)

    assert list(range(COUNT)) == landing.landed
    assert {0} == set(column(landing.folder, "backout_count"))


def test_a_segment_ends_where_its_bytes_do(landing: Landing) -> None:
    assert max(landing.land(LanderOptions(batch=1_000, batch_bytes=3, linger_ms=0))) < COUNT


# -- who owns the lane


def test_a_second_lander_takes_the_lane_over_and_the_first_ends(landing: Landing) -> None:
    first = landing.lander()
    first.open()
    first.land()
    second = landing.lander()
    second.open()

    with pytest.raises(LaneError, match="Another lander has taken lane"):
        first.land()

    land_all(second)
    assert list(range(COUNT)) == sorted(landing.landed)


def test_two_owners_do_not_write_over_each_other(landing: Landing) -> None:
    first, second = landing.lander(), landing.lander()
    first.open()
    second.open()
    unit = first._take()
    other = second._take()

    mine, theirs = first._write(unit), second._write(other)
    with pytest.raises(LaneError):
        first._commit(mine)
    second._commit(theirs)

    assert lane_of(landing.folder).folder.exists(theirs.pending)
    landing.land()
    assert list(range(COUNT)) == sorted(landing.landed)


class Meanwhile(Lander):
    """A lander that lets another lander act before one of its puts of a marker, or after it."""

    act: Callable[[], object]
    after: bool
    nth: int = 1

    def _put_marker(self, marker: Marker, *how: Any, **named: Any) -> str:
        self.nth -= 1
        if not self.nth and not self.after:
            self.act()
        put_id = super()._put_marker(marker, *how, **named)
        if not self.nth and self.after:
            self.act()
        return put_id


@pytest.mark.parametrize("after", [False, True], ids=["before the put", "after the put"])
@pytest.mark.parametrize("nth", [1, 2], ids=["candidate", "first epoch"])
def test_two_landers_that_start_together_on_a_new_lane_never_both_own_it(*, after: bool, nth: int, landing: Landing) -> None:
    first, second = landing.lander(make=Meanwhile), landing.lander()
    assert isinstance(first, Meanwhile)
    owners: list[Lander] = []

    def opens(lander: Lander) -> None:
        with suppress(LaneError):  # without a wait, the marker of the other can be in its unit of work
            lander.open()
            owners.append(lander)

    first.act, first.after, first.nth = (lambda: opens(second)), after, nth
    opens(first)
    units = [(lander, lander._write(lander._take())) for lander in owners]
    written = {each.pending for _, each in units}
    for lander, each in reversed(units):
        with suppress(LaneError):
            lander._commit(each)

    landing.land()
    assert (len(owners), 1) == (len(written), len(markers(landing)))
    assert list(range(COUNT)) == sorted(landing.landed)
    assert [] == left(landing.connect())


@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("call", [("MQPUT", 1), ("MQPUT", 2), ("MQGET", 2), ("MQCMIT", 1)], ids=str)
def test_a_lander_that_dies_while_it_makes_the_first_marker_leaves_a_lane_that_the_next_one_takes(
    call: tuple[str, int], moment: Moment, landing: Landing
) -> None:
    landing.kit.faults.add(Fault(verb=call[0], nth=call[1], moment=moment))
    with suppress(MQIError):
        landing.land()
    landing.kit.faults.clear()

    landing.land()

    assert list(range(COUNT)) == sorted(landing.landed)
    assert 1 == len(markers(landing))


def test_a_lander_that_dies_between_the_choice_and_the_use_of_the_first_marker_is_followed_by_the_next(
    landing: Landing,
) -> None:
    dead = landing.lander(make=Meanwhile)
    assert isinstance(dead, Meanwhile)
    dead.act, dead.after, dead.nth = (lambda: landing.kit.faults.add(Fault())), False, 2
    with pytest.raises(MQIError):
        dead.open()
    landing.kit.faults.clear()

    assert [0] == [marker.epoch for marker in markers(landing)]
    landing.land()
    assert list(range(COUNT)) == landing.landed


def test_a_candidate_that_comes_too_late_is_removed_and_ends_no_lander(landing: Landing) -> None:
    lander = landing.lander()
    lander.open()
    late = landing.lander()
    late._state = late._open_state()
    late._put_marker(late._marker, PutOption.NO_SYNCPOINT)

    for _ in range(3):
        lander.land()

    assert [(1, 3)] == [(marker.epoch, marker.segment) for marker in markers(landing)]
    assert list(range(COUNT)) == landing.landed


def test_a_chosen_first_marker_that_is_gone_stops_the_lander(landing: Landing) -> None:
    landing.kit.faults.add(Fault(verb="MQCMIT", nth=1))
    with pytest.raises(MQIError):
        landing.land()
    take_marker(landing)

    with pytest.raises(LaneError, match="The marker of lane ORDERS.IN is not on MQFLOW.JOURNAL.STATE"):  # noqa: RUF043
        landing.land()


def markers(landing: Landing) -> list[Marker]:
    connection = landing.connect()
    handle = connection.open(STATE_QUEUE, OpenOption.BROWSE)
    found: list[Marker] = []
    while got := connection.get(handle, GetOptions(options=GetOption.BROWSE_NEXT)):
        marker = marker_from(got.body)
        assert marker is not None
        found.append(marker)
    return found


def take_marker(landing: Landing) -> bytes:
    connection = landing.connect()
    handle = connection.open(STATE_QUEUE, OpenOption.INPUT_SHARED)
    got = connection.get(handle, GetOptions())
    assert got is not None
    return got.body


def test_a_marker_that_is_gone_stops_the_lander_rather_than_let_it_guess(landing: Landing) -> None:
    landing.land()
    take_marker(landing)
    put(landing.connect(), 100, 1)

    with pytest.raises(LaneError, match=r"The marker of lane ORDERS\.IN is not on MQFLOW\.JOURNAL\.STATE .*\.$"):
        landing.land()

    assert [100] == left(landing.connect())


def test_two_markers_stop_the_lander(landing: Landing) -> None:
    landing.land()
    body = take_marker(landing)
    marker = marker_from(body)
    assert marker is not None
    for _ in range(2):
        descriptor = MessageDescriptor(correlation_id=marker.correlation_id)
        landing.connect().put1(STATE_QUEUE, descriptor, body, PutOption.NO_SYNCPOINT)

    with pytest.raises(LaneError, match="more than one marker"):
        landing.land()


def test_a_message_that_is_not_a_marker_stops_the_lander(landing: Landing) -> None:
    landing.land()
    marker = marker_from(take_marker(landing))
    assert marker is not None
    descriptor = MessageDescriptor(correlation_id=marker.correlation_id)
    landing.connect().put1(STATE_QUEUE, descriptor, b"not json", PutOption.NO_SYNCPOINT)

    with pytest.raises(LaneError, match="is not a marker: b'not json'"):
        landing.land()


def test_a_missing_state_queue_is_named_with_the_command_that_defines_it(landing: Landing) -> None:
    landing.kit.mqsc(f"DELETE QLOCAL({STATE_QUEUE})")

    with pytest.raises(MQIError, match=r"DEFINE QLOCAL\('MQFLOW\.JOURNAL\.STATE'\)"):
        landing.land()


def test_a_committed_segment_that_is_torn_is_not_published(landing: Landing) -> None:
    landing.kit.faults.add(Fault(verb="MQCMIT", nth=2, moment=Moment.AFTER))
    with pytest.raises(MQIError):
        landing.land()
    lane = lane_of(landing.folder)
    (name,) = lane.pending()
    lane.folder.write(name, lane.folder.read(name)[:-1])

    with pytest.raises(TornSegmentError):
        landing.land()

    assert lane.folder.exists(name)


MARKER = Marker(journal="J", lane="L", epoch=1, segment=5)


@pytest.mark.parametrize(
    ("published", "pending", "expected"),
    [  # facts, section 3: recovery by the marker
        (5, False, Sound()),
        (5, True, Sound()),
        (4, True, Publish()),
    ],
)
def test_the_marker_decides(published: int, *, pending: bool, expected: Recovery) -> None:
    assert expected == recover(MARKER, published, pending=pending)


@pytest.mark.parametrize(
    ("published", "pending", "why"),
    [
        (4, False, "its pending file is gone"),
        (3, True, "restored"),
        (6, False, "restored"),
        (6, True, "into a new lane (--lane)"),
    ],
)
def test_what_cannot_be_is_refused(published: int, *, pending: bool, why: str) -> None:
    found = recover(MARKER, published, pending=pending)

    assert isinstance(found, Refuse)
    assert why in found.why


# -- going on


class Going:
    """Runs `keep_landing`, and keeps its reports."""

    def __init__(self, landing: Landing) -> None:
        self.told: list[Progress] = []
        self.pauses: list[float] = []
        keep_landing(
            landing.faulty.connect, lambda connection: lander_on(connection, landing.folder, landing.kit.clock),
            notify=self.told.append, stopping=lambda: len(self.pauses) > 10, pause=self.pauses.append, random=SeededRandom(1),
            once=True,
        )  # fmt: skip

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.told if isinstance(each, Landed))


@pytest.mark.parametrize("reason", [Reason.CONNECTION_BROKEN, Reason.Q_MGR_NOT_AVAILABLE, Reason.GET_INHIBITED])
def test_landing_goes_on_after_trouble(reason: Reason, landing: Landing) -> None:
    # Twice: if no message is lost, the first can only end the current unit of work.
    landing.kit.faults.add(Fault(verb="MQGET", nth=4, times=2, reason=reason), Fault(verb="MQOPEN", nth=6, reason=reason))

    going = Going(landing)

    assert COUNT == going.rows
    assert len(going.pauses) >= 1
    assert Recovered in map(type, going.told)
    assert list(range(COUNT)) == sorted(landing.landed)


def test_a_thing_that_only_a_person_can_mend_ends_it(landing: Landing) -> None:
    landing.kit.faults.add(Fault(verb="MQOPEN", nth=2, reason=Reason.NOT_AUTHORIZED))

    with pytest.raises(MQIError, match="2035"):
        Going(landing)


def test_a_lander_that_lands_once_fails_at_once_on_a_full_disk(disk: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    landing = Landing(disk)
    with monkeypatch.context() as patched:
        patched.setattr("mqflow.folders.local_folder.disk_usage", lambda _: SimpleNamespace(free=1_000))
        with pytest.raises(JournalFullError, match="1,000 bytes are free"):
            Going(landing)

    assert COUNT == Going(landing).rows
