"""`mqflow land` and `mqflow journal` on the command line."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mqflow.cli.pipeline import land, progress_pages
from mqflow.embedded.connection import EmbeddedConnection
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.journal import Consumers, Journal, JournalError, Kind, Lane, read_table
from mqflow.pipeline.stream.freshness import Level
from mqflow.testing.journals import generate_journal
from mqflow.verbs import Connection
from tests.cli.conftest import Run
from tests.journal.files import path_of

pytestmark = pytest.mark.usefixtures("state")

DEFINED = "DEFINE QLOCAL('MQFLOW.JOURNAL.STATE') DEFPSIST(YES)\nDEFINE QLOCAL(DLQ)\nALTER QMGR DEADQ(DLQ)"


@pytest.fixture
def state(run: Run, queues: None) -> None:
    assert 0 == run("mqsc", stdin=DEFINED).exit_code


def test_a_queue_is_landed_shown_verified_and_trimmed(run: Run, tmp_path: Path) -> None:
    for number in range(3):
        assert 0 == run("put", "ORDERS.IN", stdin=f"order {number}").exit_code

    landed = run("land", "ORDERS.IN", "--journal", "j", "--once", "--linger", "0ms")
    shown = run("journal", "show", "j", "--json")
    verified = run("journal", "verify", "j")
    journal = Journal.open(tmp_path / "j")
    too_early = run("journal", "trim", "j")
    Consumers(journal).commit("bronze", {"ORDERS.IN": journal.lane("ORDERS.IN").last})
    behind = run("journal", "show", "j")
    trimmed = run("journal", "trim", "j")

    assert (0, "ORDERS.IN: 3 messages in 1 segment landed.\n") == (landed.exit_code, landed.stdout), landed.stderr
    assert {"lane": "ORDERS.IN", "kind": "payload", "rows": 3, "segments": 1}.items() <= json.loads(shown.stdout).items()
    assert "1 segment, 3 messages, sound" in verified.stdout
    assert (1, True) == (too_early.exit_code, "no registered consumer" in too_early.stderr)
    assert "bronze 0" in behind.stdout
    assert "1 segment, " in trimmed.stdout
    assert "bronze" in trimmed.stdout
    assert () == journal.lane("ORDERS.IN").all_segments()


@pytest.mark.parametrize(
    ("argument", "kind"),
    [("DLQ", Kind.DEAD_LETTER), ("ORDERS.IN", Kind.PAYLOAD), ("ORDERS.BOQ:backout_message", Kind.BACKOUT_MESSAGE)],
)
def test_the_kind_is_the_default_of_the_queue_or_the_argument(argument: str, kind: Kind, run: Run, tmp_path: Path) -> None:
    queue = argument.partition(":")[0]
    assert 0 == run("put", queue, stdin="x").exit_code

    landed = run("land", argument, "--journal", "j", "--once", "--browse-first")

    assert 0 == landed.exit_code
    assert f"Landing {queue} ({kind}) in {tmp_path / 'j'}." in landed.stderr
    lane = Journal.open(tmp_path / "j").lane(queue)
    assert kind is lane.kind
    assert [b"x"] == read_table(lane.all_segments()[0], kind)["body"].to_pylist()


def test_the_lag_counts_only_consumers_of_the_lane(run: Run, tmp_path: Path) -> None:
    generate_journal(tmp_path / "j", Kind.PAYLOAD, segments=2, rows=5, lane="A")
    generate_journal(tmp_path / "j", Kind.DEAD_LETTER, segments=1, rows=5, lane="DLQ")
    consumers = Consumers(Journal.open(tmp_path / "j"))
    consumers.commit("letters", {"DLQ": 1}, kind=Kind.DEAD_LETTER)

    shown = [json.loads(line)["rows_behind"] for line in run("journal", "show", "j", "--json").stdout.splitlines()]
    trimmed = run("journal", "trim", "j").stdout

    assert [{}, {"letters": 0}] == shown
    assert "A: 0 segments, 0.0 MB deleted; no consumer reads it.\nDLQ: 1 segment" in trimmed


def unpublished(run: Run, folder: Path) -> Lane:
    """Land a message in the lane `former`, as if the command had been killed between the commit and the rename."""
    run("put", "ORDERS.IN", stdin="one")
    run("land", "ORDERS.IN", "--journal", "j", "--once", "--linger", "0ms", "--lane", "former")
    former = Journal.open(folder / "j").lane("former")
    path_of(former.all_segments()[0]).rename(path_of(former) / "000000000001-1.pend")
    return former


def test_the_committed_segment_of_another_lane_is_published(run: Run, tmp_path: Path) -> None:
    """The command was killed between a commit and the rename, and runs again with fewer lanes: the file has the messages."""
    former = unpublished(run, tmp_path)

    landed = run("land", "ORDERS.IN", "--journal", "j", "--once", "--linger", "0ms")

    assert "former: segment 1 with 1 message was committed but not published; it is now." in landed.stderr
    assert (1, ()) == (former.last, former.pending())


def test_a_lane_that_needs_a_person_is_named_and_stops_no_other_lane(run: Run, tmp_path: Path) -> None:
    former = unpublished(run, tmp_path)
    run("get", "MQFLOW.JOURNAL.STATE")

    landed = run("land", "ORDERS.IN", "--journal", "j", "--once", "--linger", "0ms")

    assert "former has 1 file that is not published, and no marker tells whether it was committed" in landed.stderr
    assert "former` shows how to repair the lane.\n" in landed.stderr
    assert (0, 1) == (landed.exit_code, len(former.pending()))


def test_records_that_share_a_message_are_counted_and_called_records(run: Run) -> None:
    run("mqsc", stdin="DEFINE QLOCAL('MQFLOW.DISPOSITION') DEFPSIST(YES)")
    record = '{"disp_id": "QM1/a/1", "event_ts": 1, "qmgr": "QM1", "queue": "IN", "outcome": "committed"}'
    run("put", "MQFLOW.DISPOSITION", stdin=f"[{record}, {record}, {record}]")

    landed = run("land", "MQFLOW.DISPOSITION", "--journal", "j", "--once", "--linger", "0ms")
    shown = run("journal", "show", "j")
    verified = run("journal", "verify", "j")

    assert "MQFLOW.DISPOSITION: 3 records in 1 segment landed.\n" == landed.stdout
    assert "messages" not in shown.stdout
    assert "1 segment, 3 records, sound" in verified.stdout


@pytest.mark.parametrize(
    ("arguments", "expected", "exit_code"),
    [
        (["ORDERS.IN:nonsense"], "'nonsense' is not a kind: use disposition, dead_letter", 2),
        (["ORDERS.IN", "DLQ", "--lane", "x"], "--lane names one lane: give one QUEUE.", 2),
        (["ORDERS.IN", "--lanes", "2", "--browse-first"], "exclude each other", 2),
        (["ORDERS.IN", "DLQ", "ORDERS.IN:payload"], "ORDERS.IN is named twice", 2),
        (["ORDERS.IN", "MQFLOW.JOURNAL.STATE"], "MQFLOW.JOURNAL.STATE has the markers of the lanes", 2),
        (["MQFLOW.JOURNAL.STATE", "--state-queue", "DLQ"], "MQFLOW.JOURNAL.STATE has the markers of the lanes", 2),
        (["DLQ", "--state-queue", "DLQ"], "DLQ has the markers of the lanes", 2),
        (["ORDERS.IN", "--state-queue", "NO.STATE"], "DEFINE QLOCAL('NO.STATE')", 1),
    ],
)
def test_wrong_arguments_are_explained(arguments: list[str], expected: str, exit_code: int, run: Run) -> None:
    result = run("land", *arguments, "--journal", "j", "--once")

    assert exit_code == result.exit_code
    assert expected in result.stderr


def test_a_journal_of_another_version_and_a_torn_segment_are_named(run: Run, tmp_path: Path) -> None:
    run("put", "ORDERS.IN", stdin="x")
    run("land", "ORDERS.IN", "--journal", "j", "--once")
    (segment,) = Journal.open(tmp_path / "j").lane("ORDERS.IN").all_segments()
    path_of(segment).write_bytes(path_of(segment).read_bytes()[:-9])
    torn = run("journal", "verify", "j")
    (tmp_path / "j" / "journal.json").write_text('{"format": "mqflow-journal", "version": 9, "id": "x"}')
    newer = run("land", "ORDERS.IN", "--journal", "j", "--once")

    assert (1, True) == (torn.exit_code, f"{segment.name} is damaged" in torn.stdout)
    assert (1, True) == (newer.exit_code, "of version 9" in newer.stderr)


def test_verify_with_a_url_names_a_journal_restored_from_an_old_copy(run: Run, tmp_path: Path) -> None:
    run("put", "ORDERS.IN", stdin="first")
    run("land", "ORDERS.IN", "--journal", "j", "--once")
    shutil.copytree(tmp_path / "j", tmp_path / "old")
    for number in range(2):
        run("put", "ORDERS.IN", stdin=f"order {number}")
        run("land", "ORDERS.IN", "--journal", "j", "--once")
    sound = run("journal", "verify", "j", "--url", os.environ["MQFLOW_URL"])

    alone = run("journal", "verify", "old")
    compared = run("journal", "verify", "old", "--url", os.environ["MQFLOW_URL"])

    assert (0, "ORDERS.IN: 3 segments, 3 messages, sound.\n") == (sound.exit_code, sound.stdout)
    assert 0 == alone.exit_code
    assert (1, "ORDERS.IN: segments 2 to 3 are missing; the last segment of the lane is 3.\n") == (
        compared.exit_code,
        compared.stdout,
    )


def test_sigterm_publishes_the_current_segment(run: Run, tmp_path: Path) -> None:
    run("put", "ORDERS.IN", stdin="x")
    started = subprocess.Popen(
        [sys.executable, "-m", "mqflow.cli", "land", "ORDERS.IN", "--lanes", "2", "--journal", "j", "--linger", "20s"],
        cwd=tmp_path,
        env=dict(os.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    lanes = tmp_path / "j" / "lanes"
    for _ in range(2_000):
        if len([path for path in lanes.glob("*/lane.json") if b'"claimed": true' in path.read_bytes()]) > 1:
            break
        threading.Event().wait(0.01)

    started.send_signal(signal.SIGTERM)
    stdout, stderr = started.communicate(timeout=120)

    assert 0 == started.returncode, stderr
    assert "ORDERS.IN" in stdout
    after = run("browse", "ORDERS.IN", "--json").stdout.splitlines()
    journal = Journal.open(tmp_path / "j")
    landed = sum(segment.rows for lane in journal.lanes() for segment in lane.all_segments())
    assert 1 == landed + len(after)
    assert () == tuple(path for lane in journal.lanes() for path in lane.pending())


def test_without_pyarrow_the_command_names_the_package_to_install(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqflow.cli.pipeline.land.find_spec", lambda _: None)

    result = run("land", "ORDERS.IN", "--journal", "j")

    assert (2, True) == (result.exit_code, "pip install 'mqflow[journal]'" in result.stderr)


def test_trim_deletes_at_the_end_the_segments_that_all_have_read(run: Run, tmp_path: Path) -> None:
    Consumers(Journal.create(tmp_path / "j")).register("bronze")
    run("put", "ORDERS.IN", stdin="x")
    first = run("land", "ORDERS.IN", "--journal", "j", "--once", "--trim")
    Consumers(Journal.open(tmp_path / "j")).commit("bronze", {"ORDERS.IN": 1})
    second = run("land", "ORDERS.IN", "--journal", "j", "--once", "--trim")

    assert "ORDERS.IN: 0 segments trimmed; bronze is the slowest" in first.stderr
    assert "ORDERS.IN: 1 segment trimmed" in second.stderr


@pytest.mark.parametrize(
    ("name", "reason"), [("ORDERS.IM", "UNKNOWN_OBJECT_NAME (2085)"), ("ORDERS.*", "OBJECT_NAME_ERROR (2152)")]
)
def test_a_mistyped_queue_does_not_become_a_lane(run: Run, name: str, reason: str) -> None:
    refused = run("land", name, "ORDERS.IN", "--journal", "j", "--once")

    assert 1 == refused.exit_code
    assert f"MQOPEN on {name} (QM1) failed: MQRC_{reason}" in refused.stderr
    assert "has no lane yet" in run("journal", "show", "j").stderr


def test_every_connection_of_a_landing_ends_before_the_queue_manager(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpublished(run, tmp_path)
    used: list[Connection] = []
    ended: list[Connection] = []
    connect, disconnect = EmbeddedQueueManager.connect, EmbeddedConnection.disconnect

    def connects(queue_manager: EmbeddedQueueManager, *each: Any, **more: Any) -> Connection:
        used.append(connect(queue_manager, *each, **more))
        return used[-1]

    def disconnects(connection: EmbeddedConnection) -> None:
        ended.append(connection)
        disconnect(connection)

    monkeypatch.setattr(EmbeddedQueueManager, "connect", connects)
    monkeypatch.setattr(EmbeddedConnection, "disconnect", disconnects)

    assert 0 == run("land", "ORDERS.IN", "--journal", "j", "--once", "--linger", "0ms").exit_code
    assert len(used) > 2  # for the lanes, for the other lane, and for the messages
    assert set(map(id, used)) == set(map(id, ended))


def test_only_unfinished_lanes_of_this_queue_manager_that_no_lander_lands_now_are_finished(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    acts: list[tuple[object, ...]] = []

    def lane(name: str, queue_manager: str = "QM1", pending: tuple[str, ...] = ("1-1.pend",)) -> Any:
        return SimpleNamespace(name=name, kind=Kind.DISPOSITION, queue_manager=queue_manager, pending=lambda: pending)

    def finish(connection: object, journal: object, lane: Any, state_queue: str) -> object:
        acts.append((connection, journal is found, lane.name, state_queue))
        if lane.name == "broken":
            raise JournalError("the lane is broken\x07")
        return SimpleNamespace(number=1_000, rows=2_000) if lane.name == "former" else None

    lanes = [lane("IN"), lane("done", pending=()), lane("far", "QM2"), lane("broken"), lane("former"), lane("empty")]
    found: Any = SimpleNamespace(lanes=lambda: lanes)
    queue_manager: Any = SimpleNamespace(connect=lambda *, application_name: f"the connection of {application_name}")
    monkeypatch.setattr(land, "finish_lane", finish)
    monkeypatch.setattr(
        "mqflow.cli.connection_options.disconnect_without_commit", lambda connection: acts.append((connection, "ends"))
    )

    land._finish_others(found, queue_manager, lanes[:1], "STATE")
    lanes[3:] = []
    land._finish_others(found, queue_manager, lanes[:1], "STATE")

    connection = "the connection of mqflow land"
    finished = [(connection, True, name, "STATE") for name in ("broken", "former", "empty")]
    assert [*finished, (connection, "ends")] == acts
    said = "former: segment 1,000 with 2,000 records was committed but not published; it is now."
    assert ["the lane is broken\\x07", said] == capsys.readouterr().err.splitlines()


def test_the_lag_is_measured_once_in_a_period_and_no_longer_than_the_pages_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = threading.Event()
    lags: list[tuple[object, ...]] = []

    def lag(*each: object) -> list[Level]:
        lags.append(each)
        measured.set()
        return []

    monkeypatch.setattr(progress_pages, "served_progress", lambda _, progress: nullcontext(progress))
    monkeypatch.setattr(land, "_lag", lag)
    monkeypatch.setattr(land, "_REPORT_EVERY_S", 5.0)
    queue_manager: Any = object()

    with land._watched("8080", queue_manager, []):
        assert measured.wait(10.0)

    assert [(queue_manager, [])] == lags
    assert "mqflow land lag" not in [thread.name for thread in threading.enumerate()]


def test_each_lane_of_each_queue_is_named_and_counted(run: Run, tmp_path: Path) -> None:
    run("put", "ORDERS.BOQ", stdin="x")
    queues = ("ORDERS.IN", "ORDERS.BOQ:backout_message")

    shown = run("land", *queues, "--lanes", "2", "--journal", "j", "--once", "--linger", "0ms", "--json")
    alone = run("land", "ORDERS.IN", "--lane", "one", "--lanes", "2", "--journal", "j", "--once", "--linger", "0ms")

    records = [json.loads(line) for line in shown.stdout.splitlines()]
    kinds = {
        "ORDERS.IN": "payload",
        "ORDERS.IN#2": "payload",
        "ORDERS.BOQ": "backout_message",
        "ORDERS.BOQ#2": "backout_message",
    }
    assert list(kinds.items()) == [(each["lane"], each["kind"]) for each in records]
    landed = [(each["rows"], each["segments"]) for each in records]
    assert ([(0, 0)] * 2, [(0, 0), (1, 1)]) == (landed[:2], sorted(landed[2:]))
    named = ", ".join(f"{lane} ({kind})" for lane, kind in kinds.items())
    assert (0, f"Landing {named} in {tmp_path / 'j'}.\n") == (shown.exit_code, shown.stderr)
    assert "one: 0 messages in 0 segments landed.\none#2: 0 messages in 0 segments landed.\n" == alone.stdout


def test_an_outage_is_a_line_and_a_signal_ends_the_wait(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("mqsc", stdin="ALTER QLOCAL('ORDERS.IN') GET(DISABLED)")
    said: list[str] = []

    def note(text: str) -> None:
        said.append(text)
        if "Trying again" in text:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(land, "note", note)
    ended = run("land", "ORDERS.IN", "--journal", "j", "--linger", "0ms")

    assert (0, "ORDERS.IN: 0 messages in 0 segments landed.\n") == (ended.exit_code, ended.stdout)
    begins, trouble = said
    assert f"Landing ORDERS.IN (payload) in {tmp_path / 'j'}." == begins
    assert trouble.startswith("ORDERS.IN: MQGET on ORDERS.IN (QM1) failed: MQRC_GET_INHIBITED (2016)."), trouble
    assert re.search(r" Trying again in 0\.[0-9] s\.$", trouble), trouble


def test_a_line_says_how_much_has_landed_so_far(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A line is printed at most once in a period, and only if more has landed. Here a period has no length."""
    monkeypatch.setattr(land, "_REPORT_EVERY_S", 0.0)
    run("put", "ORDERS.IN", "--jsonl", "-", stdin="1\n2\n3\n")

    landed = run("land", "ORDERS.IN", "--journal", "j", "--once", "--linger", "50ms")

    assert [f"Landing ORDERS.IN (payload) in {tmp_path / 'j'}.", "3 messages in 1 segment."] == landed.stderr.splitlines()
