"""A lane without its marker: the queue shows how the last unit of work ended, and a person decides how landing goes on."""

from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from mqflow.cli.main import main
from mqflow.embedded.wire.server.listener import serve
from mqflow.folders import Folder
from mqflow.journal import Journal, Kind, Lane, LaneError, SchemaError
from mqflow.journal.schemas import SCHEMA_VERSION
from mqflow.journal.segments import pending_name
from mqflow.landing.lander import Lander
from mqflow.landing.lane_repair import Doubt, check_committed, find_doubt, settle_lane
from mqflow.landing.recovery import STATE_QUEUE
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.policy.poison import disposition_record
from mqflow.policy.poison.disposition_record import DispositionRecord, RecordOutcome
from mqflow.testing.faults import Fault, Moment
from mqflow.testing.kit import QueueManagerKit
from mqflow.verbs import GetOptions
from tests.landing.journals import GET, QUEUE, bodies, land_all, lander_on, left, put, steal

COUNT = 10
"""Two units: one of seven messages, one of three."""


class Orphan:
    """A lane whose lander died in the commit of its first or second segment, and whose marker another program got."""

    def __init__(self, folder: Folder, *, nth: int, moment: Moment) -> None:
        self.kit = QueueManagerKit()
        self.folder = folder
        self.kit.define(QUEUE)
        self.kit.define(STATE_QUEUE)
        self.connection = self.kit.queue_manager.connect()
        put(self.connection, 0, COUNT)
        self.kit.faults.add(Fault(verb="MQCMIT", nth=nth + 1, moment=moment))  # the first claims the lane
        self.zombie = lander_on(self.kit.faults.wrap(self.kit.queue_manager).connect(), folder, self.kit.clock, GET)
        with suppress(MQIError):
            land_all(self.zombie)
        self.journal = Journal.open(folder)
        self.lose_marker()

    @property
    def lane(self) -> Lane:
        return self.journal.lane(QUEUE)

    def lose_marker(self) -> None:
        handle = self.connection.open(STATE_QUEUE, OpenOption.INPUT_SHARED)
        assert self.connection.get(handle, GetOptions()) is not None
        self.connection.close(handle)

    def find(self) -> Doubt:
        return find_doubt(self.connection, self.journal, self.lane, STATE_QUEUE, wait_ms=0)

    def uncommitted(self, queue: str) -> int:
        return self.kit.queue_manager.administration.queue_status(queue).uncommitted

    def settle(self, *, publishes: bool) -> None:
        doubt = self.find()
        settle_lane(self.connection, self.journal, self.lane, STATE_QUEUE, doubt, publishes=publishes, clock=self.kit.clock)

    def land(self) -> list[int]:
        """Land the rest, and return all messages that were landed or left."""
        land_all(lander_on(self.connection, self.folder, self.kit.clock, GET))
        return sorted(bodies(self.folder) + left(self.connection))


@pytest.mark.parametrize("nth", [1, 2], ids=["the first segment", "the second"])
@pytest.mark.parametrize(("moment", "advice"), [(Moment.BEFORE, "drop"), (Moment.AFTER, "publish")])
def test_the_queue_tells_what_the_marker_would_have(nth: int, moment: Moment, advice: str, folder: Folder) -> None:
    orphan = Orphan(folder, nth=nth, moment=moment)

    assert (nth - 1, advice) == (orphan.find().last, orphan.find().advice)
    orphan.settle(publishes=advice == "publish")

    assert list(range(COUNT)) == orphan.land()
    assert () == orphan.lane.pending()


@pytest.mark.parametrize(("moment", "publishes"), [(Moment.BEFORE, True), (Moment.AFTER, False)])
def test_against_that_advice_messages_are_doubled_or_lost(moment: Moment, *, publishes: bool, folder: Folder) -> None:
    """The control: the advice is necessary."""
    orphan = Orphan(folder, nth=1, moment=moment)
    orphan.settle(publishes=publishes)

    assert list(range(COUNT)) != orphan.land()


def test_where_others_have_got_some_a_person_decides(folder: Folder) -> None:
    orphan = Orphan(folder, nth=1, moment=Moment.BEFORE)
    steal(orphan.connection, {2, 5}.__contains__)

    assert ("", 5) == (orphan.find().advice, orphan.find().on_queue)


def test_a_torn_segment_was_never_committed(folder: Folder) -> None:
    orphan = Orphan(folder, nth=2, moment=Moment.BEFORE)
    [name] = orphan.lane.pending()
    orphan.lane.folder.write(name, orphan.lane.folder.read(name)[:-50])

    assert ("", "drop") == (orphan.find().pending, orphan.find().advice)
    orphan.settle(publishes=False)
    assert list(range(COUNT)) == orphan.land()


def test_a_segment_of_a_newer_mqflow_is_never_dropped(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqflow.journal.segment_data.SCHEMA_VERSION", SCHEMA_VERSION + 1)
    orphan = Orphan(folder, nth=2, moment=Moment.AFTER)
    doubt = orphan.find()
    monkeypatch.undo()

    with pytest.raises(SchemaError, match="use that version"):
        orphan.find()
    assert [doubt.pending] == list(orphan.lane.pending())


@pytest.mark.parametrize("taken", [QUEUE, STATE_QUEUE])
def test_an_open_unit_of_work_ends_the_repair_because_it_hides_messages(taken: str, folder: Folder) -> None:
    orphan = Orphan(folder, nth=1, moment=Moment.BEFORE)
    put(orphan.connection, 100, 1, queue=taken)
    check_committed(orphan.lane, STATE_QUEUE, orphan.uncommitted)
    holder = orphan.kit.queue_manager.connect()
    assert holder.get(holder.open(taken, OpenOption.INPUT_SHARED), GetOptions(options=GetOption.SYNCPOINT)) is not None

    with pytest.raises(LaneError, match=f"{taken} has 1 uncommitted message"):
        check_committed(orphan.lane, STATE_QUEUE, orphan.uncommitted)


def test_if_nobody_knows_of_uncommitted_messages_a_warning_names_the_command_that_shows_them(folder: Folder) -> None:
    orphan = Orphan(folder, nth=1, moment=Moment.BEFORE)

    said = check_committed(orphan.lane, STATE_QUEUE, lambda queue: 0 if queue == QUEUE else None)

    assert "DISPLAY QSTATUS(MQFLOW.JOURNAL.STATE) UNCOM" in said
    assert "" == check_committed(orphan.lane, STATE_QUEUE, orphan.uncommitted)


def test_the_messages_of_another_queue_manager_say_nothing_about_a_lane(folder: Folder) -> None:
    orphan = Orphan(folder, nth=1, moment=Moment.BEFORE)
    other = QueueManagerKit("QM2")
    other.define(QUEUE)
    other.define(STATE_QUEUE)

    with pytest.raises(LaneError, match="Lane ORDERS.IN belongs to QM1, and this is QM2"):  # noqa: RUF043
        find_doubt(other.queue_manager.connect(), orphan.journal, orphan.lane, STATE_QUEUE, wait_ms=0)


def test_a_lane_with_its_marker_is_left_alone(folder: Folder) -> None:
    orphan = Orphan(folder, nth=2, moment=Moment.BEFORE)
    orphan.settle(publishes=False)

    with pytest.raises(LaneError, match="has its marker on .* says segment 1: there is nothing to settle"):  # noqa: RUF043
        orphan.find()


def test_a_copy_of_the_last_segment_under_another_name_stays_and_is_in_nobodys_way(folder: Folder) -> None:
    orphan = Orphan(folder, nth=2, moment=Moment.AFTER)
    [name] = orphan.lane.pending()
    orphan.lane.folder.write("copy.pend", orphan.lane.folder.read(name))

    assert (name, "publish") == (orphan.find().pending, orphan.find().advice)
    orphan.settle(publishes=True)
    assert list(range(COUNT)) == orphan.land()
    assert orphan.lane.folder.exists("copy.pend")


def test_two_segments_that_may_be_the_last_are_a_persons_business(folder: Folder) -> None:
    orphan = Orphan(folder, nth=2, moment=Moment.BEFORE)
    [name] = orphan.lane.pending()
    orphan.lane.folder.write(pending_name(2, 9), orphan.lane.folder.read(name))

    with pytest.raises(LaneError, match="more than one segment that may be its 2th: 000000000002-1"):
        orphan.find()


@pytest.mark.parametrize("nth", [1, 2])
def test_a_lander_that_was_thought_dead_cannot_go_on_with_the_lost_marker(nth: int, folder: Folder) -> None:
    orphan = Orphan(folder, nth=nth, moment=Moment.BEFORE)
    alive = Lander(orphan.connection, orphan.journal, orphan.lane, GET, clock=orphan.kit.clock, stopping=lambda: True)
    orphan.settle(publishes=False)
    alive.open()
    alive._marker, lost = orphan.zombie._marker, alive._marker

    with pytest.raises(LaneError, match="Another lander has taken lane"):
        alive.land()
    assert lost.epoch > 1_000_000 > orphan.zombie._marker.epoch
    assert list(range(COUNT)) == orphan.land()


def test_the_names_of_records_of_decisions_tell_them_apart(folder: Folder) -> None:
    kit = QueueManagerKit()
    kit.define(QUEUE)
    kit.define(STATE_QUEUE)
    connection = kit.queue_manager.connect()
    one, two, three = (
        DispositionRecord(disp_id=name, event_ts=1, qmgr="QM1", queue="Q", outcome=RecordOutcome.COMMITTED)
        for name in ("one", "two", "three")
    )
    for body in (b"no record", disposition_record.to_bytes(one), disposition_record.many_to_bytes([two, three])):
        connection.put1(QUEUE, MessageDescriptor(), body, PutOption.NO_SYNCPOINT)
    journal = Journal.create(folder)
    lane = journal.add_lane(QUEUE, Kind.DISPOSITION, queue=QUEUE, queue_manager="QM1")
    kit.faults.add(Fault(verb="MQCMIT", nth=2, moment=Moment.BEFORE))
    lander = Lander(kit.faults.wrap(kit.queue_manager).connect(), journal, lane, GET, clock=kit.clock, stopping=lambda: True)
    with pytest.raises(MQIError):
        land_all(lander)
    left_handle = connection.open(STATE_QUEUE, OpenOption.INPUT_SHARED)
    assert connection.get(left_handle, GetOptions()) is not None

    doubt = find_doubt(connection, journal, lane, STATE_QUEUE, wait_ms=0)
    assert 4 == doubt.on_queue
    assert "drop" == doubt.advice


def test_the_command_names_its_findings_and_does_only_what_its_options_ask_for(
    folder: Folder, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqflow.cli.pipeline.journal._MARKER_WAIT_MS", 0)
    orphan = Orphan(folder, nth=2, moment=Moment.AFTER)
    with serve(orphan.kit.queue_manager, memory / "qm"):
        command = ["journal", "settle", folder.uri, QUEUE, "--url", f"embedded+unix:{memory / 'qm'}?qmgr=QM1"]
        put(orphan.connection, 100, 1)
        holder = orphan.kit.queue_manager.connect()
        assert holder.get(holder.open(QUEUE, OpenOption.INPUT_SHARED), GetOptions(options=GetOption.SYNCPOINT)) is not None
        refused = CliRunner().invoke(main, [*command, "--publish"])
        holder.backout()
        assert [100] == steal(orphan.connection, {100}.__contains__)
        looked = CliRunner().invoke(main, command)
        done = CliRunner().invoke(main, [*command, "--publish"])
        again = CliRunner().invoke(main, [*command, "--publish"])

    assert (1, True) == (refused.exit_code, "ORDERS.IN has 1 uncommitted message" in refused.stderr), refused.output
    assert "UNCOM" not in looked.stderr
    assert (1, True) == (looked.exit_code, "0 of its 3 messages are on ORDERS.IN" in looked.stdout), looked.output
    assert "Use --publish: no other segment has them" in looked.stdout
    assert (0, True) == (done.exit_code, "segment 2 as its last" in done.stderr), done.output
    assert (1, True) == (again.exit_code, "has its marker" in again.stderr), again.output
    assert list(range(COUNT)) == orphan.land()
