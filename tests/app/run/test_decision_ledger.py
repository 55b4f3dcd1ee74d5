"""The entries of the decision ledger, the events that the ledger leaves out, and its errors, which never affect a delivery."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from mqflow.app.config.settings import LedgerSettings
from mqflow.app.run.decision_ledger import (
    DecisionLedger,
    Entry,
    LedgerError,
    MessageEvent,
    known_messages,
    last_disposals,
    last_entries,
    ledger_file,
    open_ledger,
    story,
)
from mqflow.events import (
    Attempt,
    DeadLetterActed,
    Decided,
    Delivered,
    Disposed,
    Event,
    InDoubt,
    ListenerPaused,
    ListenerStarted,
    Settled,
    Warned,
)
from mqflow.policy.dead_letters.actions import Redirect
from mqflow.policy.poison.disposition import Completed, Deliver, Failed, Interrupted, Requeue, Return, Settlement
from mqflow.world import World
from tests.doubles import SteppingClock

ONE = bytes([1]) * 24
TWO = bytes([2]) * 24


def delivered(message_id: bytes, backout_count: int = 0) -> Delivered:
    return Delivered(queue="Q", message_id=message_id, listener="l", backout_count=backout_count, body_bytes=5)


def decided(message_id: bytes, backout_count: int) -> Decided:
    return Decided(
        queue="Q", message_id=message_id, listener="l", backout_count=backout_count, threshold=3, backout_requeue_queue="Q.BOQ",
        threshold_source="BOTHRESH of Q", queue_source="BOQNAME of Q", plan=(Requeue("Q.BOQ"), Return("nothing accepts it")),
        outcome=Failed("ValueError", "no"),
    )  # fmt: skip


def settled(*message_ids: bytes, good: bool) -> Settled:
    settlement, outcome = (Settlement.COMMIT, Completed()) if good else (Settlement.BACKOUT, Failed("ValueError", "no"))
    return Settled(queue="Q", listener="l", settlement=settlement, message_ids=message_ids, outcome=outcome)


def disposed(message_id: bytes) -> Disposed:
    attempts = (Attempt(Requeue("Q.BOQ"), 2053), Attempt(Return("nothing accepts it")))
    return Disposed(queue="Q", message_id=message_id, listener="l", backout_count=3, attempts=attempts)


def told(ledger: DecisionLedger, *events: Event) -> None:
    for event in events:
        ledger(event)
    ledger.close()


def events_of(entries: tuple[Entry, ...]) -> list[MessageEvent]:
    return [entry.event for entry in entries]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "decisions.db"


@pytest.fixture
def ledger(path: Path) -> Iterator[DecisionLedger]:
    ledger = DecisionLedger(path, world=World(SteppingClock()))
    yield ledger
    ledger.close()


def test_a_troubled_message_has_its_whole_story_from_the_first_delivery(path: Path, ledger: DecisionLedger) -> None:
    happened = (delivered(ONE), decided(ONE, 3), settled(ONE, good=False), disposed(ONE))

    told(ledger, *happened)

    assert list(happened) == events_of(story(path, ONE))
    assert [1.0, 2.0, 3.0, 4.0] == [entry.at for entry in story(path, ONE)]


def test_a_clean_delivery_leaves_no_entry_and_no_file(path: Path, ledger: DecisionLedger) -> None:
    told(ledger, delivered(ONE), settled(ONE, good=True))

    assert not path.exists()


def test_a_redelivery_that_succeeds_at_last_is_part_of_the_story(path: Path, ledger: DecisionLedger) -> None:
    happened = (delivered(ONE), settled(ONE, good=False), delivered(ONE, 1), settled(ONE, good=True))

    told(ledger, *happened)

    assert list(happened) == events_of(story(path, ONE))


def test_each_message_of_a_batch_has_its_own_entry(path: Path, ledger: DecisionLedger) -> None:
    told(ledger, delivered(ONE), delivered(TWO), settled(ONE, TWO, good=False))

    assert [delivered(ONE), settled(ONE, good=False)] == events_of(story(path, ONE))
    assert [delivered(TWO), settled(TWO, good=False)] == events_of(story(path, TWO))


def test_a_message_that_is_backed_out_because_another_failed_has_an_outcome_of_its_own(
    path: Path, ledger: DecisionLedger
) -> None:
    told(ledger, delivered(ONE), delivered(TWO), replace(settled(ONE, good=False), others=(TWO,)))

    assert [delivered(ONE), settled(ONE, good=False)] == events_of(story(path, ONE))
    why = Interrupted("another message of the unit of work failed")
    assert [delivered(TWO), replace(settled(TWO, good=False), outcome=why)] == events_of(story(path, TWO))


def test_the_actions_of_the_dlq_handler_are_part_of_the_story(path: Path, ledger: DecisionLedger) -> None:
    acted = DeadLetterActed(queue="DLQ", message_id=ONE, rule="line 1", intent=Redirect("Q"), attempt=1)

    told(ledger, acted)

    assert [acted] == events_of(story(path, ONE))


def test_a_commit_without_an_answer_is_part_of_the_story(path: Path, ledger: DecisionLedger) -> None:
    doubt = InDoubt(queue="Q", listener="l", reason=2009, message_ids=(ONE,))

    told(ledger, delivered(ONE), doubt)

    assert [delivered(ONE), doubt] == events_of(story(path, ONE))


def test_everything_is_kept_when_asked(path: Path) -> None:
    told(DecisionLedger(path, record="all"), delivered(ONE), settled(ONE, good=True))

    assert [delivered(ONE), settled(ONE, good=True)] == events_of(story(path, ONE))


def test_events_about_no_message_have_no_entry(path: Path, ledger: DecisionLedger) -> None:
    paused = ListenerPaused(queue="Q", listener="l", why="get inhibited", delay_s=1.0)

    told(ledger, ListenerStarted(queue="Q", listener="l", concurrency=1), Warned(text="careful"), paused)

    assert not path.exists()


def test_the_oldest_entries_go_when_there_are_too_many(path: Path) -> None:
    ledger = DecisionLedger(path, entries_max=10)
    told(ledger, *(delivered(bytes([n]) * 24, backout_count=1) for n in range(25)))

    assert () == story(path, bytes([14]) * 24)
    assert 1 == len(story(path, bytes([15]) * 24))


def test_the_ledger_is_readable_while_the_application_writes(path: Path, ledger: DecisionLedger) -> None:
    told(ledger, disposed(ONE))
    ledger(disposed(TWO))

    assert [disposed(ONE)] == events_of(story(path, ONE))


def test_two_processes_may_write_the_same_ledger(path: Path, ledger: DecisionLedger) -> None:
    other = DecisionLedger(path, world=World(SteppingClock()))
    ledger(disposed(ONE))
    other(disposed(ONE))
    told(other)
    told(ledger)

    assert 2 == len(story(path, ONE))


def test_a_story_of_two_processes_has_the_order_of_its_times(path: Path, ledger: DecisionLedger) -> None:
    other = DecisionLedger(path, world=World(SteppingClock()))

    told(ledger, delivered(ONE), settled(ONE, good=False))
    told(other, disposed(ONE))

    assert [1.0, 1.0, 2.0] == [entry.at for entry in story(path, ONE)]


def last_disposal_of_one(path: Path) -> object:
    with last_disposals(path) as last_disposal:
        return last_disposal(ONE)


def test_only_the_owner_may_read_the_file(path: Path, ledger: DecisionLedger) -> None:
    told(ledger, disposed(ONE))

    assert 0o600 == path.stat().st_mode & 0o777


def test_a_ledger_that_cannot_be_written_drops_and_counts_and_touches_no_delivery(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    ledger = DecisionLedger(tmp_path / "file" / "decisions.db")

    told(ledger, disposed(ONE), disposed(TWO))

    assert 2 == ledger.dropped
    assert "Deliveries go on without it" in caplog.text


def test_an_event_that_cannot_be_written_is_counted_and_later_events_are_written(path: Path, ledger: DecisionLedger) -> None:
    told(ledger, replace(disposed(ONE), queue="caf\udce9"))
    told(ledger, disposed(TWO))

    assert (1, [TWO]) == (ledger.dropped, [entry.message_id for entry in last_entries(path, 9)])


def test_a_message_is_found_by_the_first_digits_of_its_identifier(path: Path, ledger: DecisionLedger) -> None:
    told(ledger, disposed(ONE), disposed(TWO))

    assert (ONE,) == known_messages(path, "010")
    assert (ONE, TWO) == known_messages(path, "0")
    assert () == known_messages(path, "03")


def test_a_message_is_found_by_the_last_digits_of_its_identifier(path: Path, ledger: DecisionLedger) -> None:
    told(ledger, disposed(ONE), disposed(TWO))

    assert (TWO,) == known_messages(path, TWO.hex()[-12:])
    assert () == known_messages(path, "77777777")


def test_a_message_that_nothing_happened_to_has_no_story(path: Path, ledger: DecisionLedger) -> None:
    told(ledger, disposed(ONE))

    assert () == story(path, TWO)


def test_a_missing_ledger_says_so(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="There is no decision ledger at"):
        story(tmp_path / "decisions.db", ONE)


def test_a_file_that_is_no_ledger_says_so(tmp_path: Path) -> None:
    (tmp_path / "decisions.db").write_text("no database at all, but long enough to look at" * 10)

    with pytest.raises(LedgerError, match="cannot be read"):
        story(tmp_path / "decisions.db", ONE)


@pytest.mark.parametrize("read", [lambda path: last_entries(path, 9), lambda path: story(path, ONE), last_disposal_of_one])
def test_a_ledger_with_an_event_of_another_version_says_so(
    path: Path, ledger: DecisionLedger, read: Callable[[Path], object]
) -> None:
    told(ledger, disposed(ONE))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE entry SET event = ?", (b'{"type":"Unknown"}',))

    with pytest.raises(LedgerError, match="has an entry that this version of mqflow cannot read: Invalid value 'Unknown'"):
        read(path)


def test_a_ledger_with_a_damaged_definition_says_so(path: Path, ledger: DecisionLedger) -> None:
    told(ledger, disposed(ONE))
    whole = path.read_bytes()

    for place in range(start := whole.index(b"CREATE TABLE"), start + 60):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x80]) + whole[place + 1 :])
        with suppress(LedgerError):  # some of these bytes mean nothing to SQLite
            story(path, ONE)


def test_a_ledger_of_a_newer_version_is_refused_and_not_written(path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version=9")
    ledger = DecisionLedger(path)

    told(ledger, disposed(ONE))

    assert 1 == ledger.dropped
    with pytest.raises(LedgerError, match="has format 9; this version of mqflow knows format 1"):
        story(path, ONE)


def test_a_delivery_that_was_decided_about_keeps_its_plan_readable(path: Path, ledger: DecisionLedger) -> None:
    again = Decided(
        queue="Q", message_id=ONE, listener="l", backout_count=1, threshold=3, backout_requeue_queue="Q.BOQ",
        threshold_source="the listener", queue_source="the listener", plan=(Deliver(),),
    )  # fmt: skip

    told(ledger, again)

    assert [again] == events_of(story(path, ONE))


def test_the_ledger_lies_beside_the_data_or_where_it_is_set(tmp_path: Path) -> None:
    url = f"embedded:{tmp_path}?qmgr=QM1"

    assert tmp_path / "decisions.db" == ledger_file(url, LedgerSettings())
    assert tmp_path / "decisions.db" == ledger_file(f"embedded+unix:{tmp_path}/served.sock?qmgr=QM1", LedgerSettings())
    assert tmp_path / "other.db" == ledger_file(url, LedgerSettings(file=str(tmp_path / "other.db")))


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("embedded::memory:?qmgr=QM1", id="kept nowhere"),
        pytest.param("embedded+unix:/run/elsewhere.sock?qmgr=QM1", id="a socket that is not in the folder of the data"),
        pytest.param("embedded+tls://mq.example:1414/QM1", id="on another machine"),
        pytest.param("ibmmq://mq.example:1414/QM1?channel=APP.SVRCONN", id="on IBM MQ"),
    ],
)
def test_data_that_is_in_no_folder_here_has_no_ledger_of_its_own(url: str) -> None:
    assert None is open_ledger(url, LedgerSettings())


def test_no_ledger_is_kept_where_nothing_is_to_be_recorded(tmp_path: Path) -> None:
    assert None is open_ledger(f"embedded:{tmp_path}", LedgerSettings(record="nothing"))
