"""`mqflow journal`: everything that it prints about lanes, consumers, damages and columns."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from mqflow.cli.pipeline import journal as module
from mqflow.journal import Consumers, Journal, Kind
from mqflow.journal.journal import Lane
from mqflow.journal.schemas import SCHEMA_VERSION, columns_of
from mqflow.journal.segments import Segment
from mqflow.landing.lane_repair import Doubt
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import PutOption
from mqflow.testing.journals import generate_journal
from mqflow.verbs import Connection
from mqflow.world import SYSTEM_CLOCK
from tests.cli.conftest import Run
from tests.cli.watching.test_figures import ibm_mq
from tests.client_packages import PACKAGES
from tests.journal.files import path_of


@pytest.fixture
def journal(run: Run) -> Journal:
    """Return a journal with two lanes, and a consumer that has read one segment of the first lane."""
    generate_journal(Path("j"), Kind.PAYLOAD, segments=2, rows=600, lane="ORDERS.IN")
    generate_journal(Path("j"), Kind.DEAD_LETTER, segments=1, rows=5, lane="DLQ")
    journal = Journal.open(Path("j"))
    Consumers(journal).commit("bronze", {"ORDERS.IN": 1})
    return journal


@pytest.fixture
def sized(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> Journal:
    """Return the journal with segments of 50,000 and of twice 75,000 bytes: lanes on both sides of 0.1 MB after rounding."""
    sizes = {"DLQ": 50_000, "ORDERS.IN": 75_000}
    every = Lane.all_segments

    def all_segments(lane: Lane) -> tuple[Segment, ...]:
        return tuple(replace(each, size_bytes=sizes[lane.name]) for each in every(lane))

    monkeypatch.setattr(Lane, "all_segments", all_segments)
    return journal


def test_each_lane_is_shown_with_its_rows_and_the_lag_of_its_consumers(run: Run, sized: Journal) -> None:
    journal = sized
    shown, as_json = run("journal", "show", "j"), run("journal", "show", "j", "--json")

    letters, orders = journal.lane("DLQ"), journal.lane("ORDERS.IN")
    assert [
        "lane       kind          rows  segments   MB  last  rows still to read, by consumer",
        "---------  -----------  -----  --------  ---  ----  -------------------------------",
        "DLQ        dead_letter      5         1  0.1     1  bronze 5",
        "ORDERS.IN  payload      1,200         2  0.1     2  bronze 600",
    ] == shown.stdout.splitlines()
    assert [
        {
            "lane": lane.name,
            "kind": lane.kind.value,
            "queue": lane.queue,
            "queue_manager": lane.queue_manager,
            "segments": segments,
            "rows": rows,
            "bytes": size,
            "last": segments,
            "trimmed": 0,
            "rows_behind": {"bronze": behind},
        }
        for lane, segments, rows, behind, size in ((letters, 1, 5, 5, 50_000), (orders, 2, 1_200, 600, 150_000))
    ] == [json.loads(line) for line in as_json.stdout.splitlines()]
    assert ("", "") == (shown.stderr, as_json.stderr)


def test_an_empty_journal_names_the_command_that_fills_it(run: Run) -> None:
    uri = Journal.create(Path("j")).folder.uri

    said = f"The journal {uri} has no lane yet: mqflow land QUEUE --journal {uri} creates one.\n"
    assert (0, "", said) == ((shown := run("journal", "show", "j")).exit_code, shown.stdout, shown.stderr)


def test_a_consumer_that_is_forgotten_holds_no_segment_back(run: Run, sized: Journal) -> None:
    journal = sized
    Consumers(journal).commit("silver", {"ORDERS.IN": 2, "DLQ": 1})

    would = run("journal", "trim", "j", "--dry-run")
    misspelt = run("journal", "forget", "j", "bronce")
    kept = Consumers(journal).find("bronze")
    forgotten = run("journal", "forget", "j", "bronze")
    trimmed = run("journal", "trim", "j")

    assert ["DLQ: 0 segments, 0.0 MB would be deleted", "ORDERS.IN: 1 segment, 0.1 MB would be deleted"] == [
        line.partition(";")[0] for line in would.stdout.splitlines()
    ]
    said = "bronze is removed. `mqflow journal trim` no longer keeps segments for it.\n"
    assert (0, said) == (forgotten.exit_code, forgotten.stderr)
    assert (2, True) == (
        misspelt.exit_code,
        "'bronce' is not registered. Registered consumers: bronze, silver." in misspelt.stderr,
    )
    assert kept is not None
    assert ["DLQ: 1 segment, 0.1 MB deleted", "ORDERS.IN: 2 segments, 0.1 MB deleted"] == [
        line.partition(";")[0] for line in trimmed.stdout.splitlines()
    ]
    assert [(), ()] == [lane.all_segments() for lane in journal.lanes()]


def test_every_damage_is_named_and_counted(run: Run, journal: Journal) -> None:
    first, second = journal.lane("ORDERS.IN").all_segments()
    path_of(first).unlink()
    path_of(second).write_bytes(b"x")

    damaged = run("journal", "verify", "j")

    *sound, missing, torn = damaged.stdout.splitlines()
    assert ["DLQ: 1 segment, 5 messages, sound."] == sound
    assert "ORDERS.IN: segment 1 is missing; the last segment of the lane is 2." == missing
    assert torn.startswith(f"ORDERS.IN: segment 2 ({second.name}): The segment {path_of(second)} ")
    assert torn.endswith("its name says its number, rows and checksum.")
    said = "2 damages. Restore the named files from a copy of the journal; nothing was changed.\n"
    assert (1, said) == (damaged.exit_code, damaged.stderr)


def test_a_verification_with_a_url_reads_the_markers_over_a_connection_that_ends(
    run: Run, journal: Journal, queues: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    acts: list[object] = []

    def markers(connection: Connection, *each: object, wait_ms: int) -> str:
        acts.append((connection.queue_manager_name, *each, wait_ms))
        return "the markers"

    def verify(found: Journal, markers: object) -> Iterator[object]:
        acts.append((found.id, markers))
        yield SimpleNamespace(lane="IN", kind=Kind.DISPOSITION, findings=(), rows=2, segments=1, elsewhere="")
        yield SimpleNamespace(lane="OLD", kind=None, findings=(), rows=0, segments=0, elsewhere="")

    monkeypatch.setattr(module, "StateQueue", markers)
    monkeypatch.setattr(module, "verify_journal", verify)
    monkeypatch.setattr(
        "mqflow.cli.connection_options.disconnect_without_commit", lambda connection: acts.append(connection.queue_manager_name)
    )

    sound = run("journal", "verify", "j", "--url", "embedded:./data?qmgr=QM1", "--state-queue", "STATE")

    assert (0, "IN: 1 segment, 2 records, sound.\n", "") == (sound.exit_code, sound.stdout, sound.stderr)
    assert [("QM1", journal.id, "STATE", 5_000), (journal.id, "the markers"), "QM1"] == acts


@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_verification_of_no_lane_of_the_queue_manager_or_without_a_damaged_file_says_so(
    run: Run, journal: Journal, queues: None, *, elsewhere: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqflow.cli.pipeline.journal._MARKER_WAIT_MS", 0)
    assert 0 == run("mqsc", stdin="DEFINE QLOCAL(STATE)").exit_code
    for lane in journal.lanes():
        lane.note(claimed=True)
        if elsewhere:
            path = path_of(lane) / "lane.json"
            path.write_bytes(path.read_bytes().replace(b'"QM1"', b'"QM7"'))

    verified = run("journal", "verify", "j", "--url", "embedded:./data?qmgr=QM1", "--state-queue", "STATE")

    assert 1 == verified.exit_code
    if elsewhere:
        assert "ORDERS.IN: not compared with its marker, which is on QM7." in verified.stderr
        assert "name the queue manager of the lanes, QM7, with --url" in verified.stderr
    else:
        assert "2 damages. No file of the journal is damaged; nothing was changed.\n" == verified.stderr


@pytest.mark.parametrize("kind", list(Kind))
def test_the_columns_of_a_kind_are_listed_with_their_types(run: Run, kind: Kind) -> None:
    listed = run("journal", "schema", kind.value)

    assert f"Schema version {SCHEMA_VERSION}.\n" == listed.stderr
    assert [f"{column.name} {column.type}" for column in columns_of(kind)] == listed.stdout.splitlines()


LAST = "ORDERS.IN: segment 1,000 is the last published one"
PENDING = f"{LAST}; 1001-1.pend is complete, and {{}} of its 2,000 messages are on ORDERS.IN. "
COMMITTED = (
    "Its unit of work was committed, or other applications have got its messages. Use --publish: no other segment has them."
)
UNKNOWN = (
    "Either it was backed out and other applications have got some messages since, or it was committed and some messages were "
    "put again. --publish lands the messages on the queue twice; --drop loses the other messages."
)


def test_settle_refuses_a_lane_that_the_journal_does_not_have_and_names_its_lanes(run: Run, journal: Journal) -> None:
    done = run("journal", "settle", "j", "ORDRES.IN", "--drop")

    assert (2, True) == (done.exit_code, "has no lane 'ORDRES.IN'. It has: DLQ, ORDERS.IN." in done.stderr)


@pytest.mark.parametrize(
    ("on_queue", "decision", "said"),
    [(None, "", f"{LAST}, and no later one is complete. All committed messages are published: --drop."),
     (0, "--publish", PENDING.format(0) + COMMITTED),
     (2_000, "--drop",
      PENDING.format("2,000") + "Its unit of work was backed out. Use --drop: the lander lands these messages again."),
     (1_999, "", PENDING.format("1,999") + UNKNOWN)],
)  # fmt: skip
def test_a_lane_in_doubt_is_explained_and_repaired_only_by_a_decision(
    run: Run, journal: Journal, queues: None, monkeypatch: pytest.MonkeyPatch, on_queue: int | None, decision: str, said: str
) -> None:
    assert 0 == run("mqsc", stdin="DEFINE QLOCAL(STATE)").exit_code
    doubt = Doubt(last=1_000)
    if on_queue is not None:
        written = SimpleNamespace(rows=2_000)
        doubt = Doubt(last=1_000, pending="1001-1.pend", written=written, on_queue=on_queue)  # type: ignore[arg-type]  # its rows
    asked: list[object] = []

    def find(connection: Connection, found: Journal, lane: Lane, queue: str, *, wait_ms: int) -> Doubt:
        assert wait_ms > 0
        asked.append((connection.queue_manager_name, found.id, lane.name, queue))
        return doubt

    def settle(*facts: object, publishes: bool, clock: object) -> None:
        assert clock is SYSTEM_CLOCK
        asked.append((publishes, facts[3:]))

    monkeypatch.setattr(
        "mqflow.cli.connection_options.disconnect_without_commit",
        lambda connection: asked.append(connection.queue_manager_name),
    )
    monkeypatch.setattr(module, "find_doubt", find)
    monkeypatch.setattr(module, "settle_lane", settle)

    done = run("journal", "settle", "j", "ORDERS.IN", "--state-queue", "STATE", *([decision] if decision else []))

    repaired = "ORDERS.IN is repaired, with segment 2 as its last; `mqflow land` continues after it.\n"
    assert (f"{said}\n", repaired if decision else "") == (done.stdout, done.stderr)
    assert int(not decision) == done.exit_code
    settled = [(decision == "--publish", ("STATE", doubt))] if decision else []
    assert [("QM1", journal.id, "ORDERS.IN", "STATE"), *settled, "QM1"] == asked


@pytest.mark.parametrize("package", ["the seam", *PACKAGES])
def test_settle_asks_the_command_server_of_ibm_mq_for_uncommitted_messages(package: str) -> None:
    with ibm_mq(package) as (own, there):
        other, connection = own.connect(), there.connect()
        other.put1("IN", MessageDescriptor(), b"order", PutOption.SYNCPOINT)

        assert [1, 0, None] == [module._uncommitted(there, connection, queue) for queue in ("IN", "EMPTY", "NOWHERE")]
