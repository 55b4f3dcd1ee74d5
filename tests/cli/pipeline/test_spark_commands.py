"""The `mqflow spark` commands without a Spark: the arguments of their jobs, and their words about the results."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mqflow.cli.pipeline.spark_redrive import _Done, _run
from mqflow.folders import Folder
from mqflow.journal import Kind
from mqflow.journal.journal import Journal
from mqflow.journal.personal_data import key_of
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.pipeline.dead_letters.redrive import Unit
from mqflow.pipeline.dead_letters.redrive_plan import Planned
from mqflow.pipeline.tables.erasure import Erasure
from tests.cli.conftest import Run

SPARK = object()
Asked = list[tuple[tuple[object, ...], dict[str, object]]]


@pytest.fixture(autouse=True)
def session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[object]:
    """Start no Spark; return the options of each session that a command has started."""
    started: list[object] = []

    @contextmanager
    def start(name: str, **options: object) -> Iterator[object]:
        started.append((name, options))
        yield SPARK

    for module in ("spark_tables", "spark_report", "spark_redrive"):
        monkeypatch.setattr(f"mqflow.cli.pipeline.{module}.started", start)
    (tmp_path / "tables").mkdir()
    (tmp_path / "rules.tbl").write_text("ACTION(RETRY)")
    return started


def job(monkeypatch: pytest.MonkeyPatch, name: str, result: object = None) -> Asked:
    """Replace a job of the pipeline; return the arguments of its calls."""
    asked: Asked = []

    def work(*arguments: object, **options: object) -> object:
        asked.append((arguments, options))
        return result

    monkeypatch.setattr(f"mqflow.pipeline.jobs.{name}", work)
    return asked


@pytest.mark.parametrize(
    ("words", "rules", "options"),
    [((), None, {"payload": None, "dedupe": None, "whole": False}),
     (("--rules", "rules.tbl", "--payload", "head:9", "--no-dedupe", "--whole"), "ACTION(RETRY)",
      {"payload": "head:9", "dedupe": False, "whole": True})],
)  # fmt: skip
def test_silver_passes_its_options_on(
    run: Run, monkeypatch: pytest.MonkeyPatch, session: list[object], words: tuple[str, ...], rules: str | None, options: Any
) -> None:
    asked = job(monkeypatch, "silver")
    uri = str(Path.cwd() / "tables")

    result = run("spark", "silver", "--tables", "tables", "--master", "local[2]", "--conf", "a=b", *words)

    assert (0, f"Silver is up to date with bronze, in {uri}/silver.\n") == (result.exit_code, result.stderr)
    assert [((SPARK, uri, rules), options)] == asked
    assert [("silver", {"master": "local[2]", "remote": None, "conf": ("a=b",)})] == session


def test_a_wrong_payload_is_refused_before_spark_starts(run: Run, session: list[object]) -> None:
    Journal.create(Path("journal"))
    for words in (("silver", "--tables", "tables"), ("bronze", "--tables", "tables", "--journal", "journal")):
        assert "tail:9" in run("spark", *words, "--payload", "tail:9").stderr

    assert [] == session


@pytest.mark.parametrize(
    ("watermark", "closed"),
    [
        (None, "no window is closed yet"),
        (datetime(2026, 11, 23, 19, 5, tzinfo=UTC), "windows up to 2026-11-23 19:05 UTC are closed"),
    ],
)
def test_gold_says_which_windows_are_closed(
    run: Run, monkeypatch: pytest.MonkeyPatch, watermark: datetime | None, closed: str
) -> None:
    asked = job(monkeypatch, "gold", SimpleNamespace(watermark=watermark, late=2_000))
    uri = str(Path.cwd() / "tables")

    done = run("spark", "gold", "--tables", "tables")

    said = f"Gold is up to date with silver, in {uri}/gold: {closed}; 2,000 records were too late for theirs.\n"
    assert (0, "", said) == (done.exit_code, done.stdout, done.stderr)
    assert [((SPARK, uri), {})] == asked


def triaged(unmatched: int, shown: int) -> object:
    rules = (
        SimpleNamespace(number=1, line=3, action="RETRY", first=2_000, matching=3_000, note=""),
        SimpleNamespace(number=2, line=12, action="DISCARD", first=0, matching=0, note="never first"),
    )
    rows = [SimpleNamespace(columns={"reason": 2053, "format": "", "queue": "Q\x07"})] * shown
    change = SimpleNamespace(messages=1, before="put to A", after="discarded", example=b"\xab")
    triage = SimpleNamespace(rules=rules, unmatched=unmatched, strays=1_000)
    return SimpleNamespace(triage=triage, unmatched=rows, differences=[change])


@pytest.mark.parametrize(("unmatched", "which"), [(2, "all"), (3_000, "the oldest")])
def test_triage_shows_each_rule_and_each_difference(
    run: Run, monkeypatch: pytest.MonkeyPatch, unmatched: int, which: str
) -> None:
    asked = job(monkeypatch, "triage", triaged(unmatched, 2))
    words = ("--against", "rules.tbl", "--retries", "--as-of", "2026-11-23T19:05")

    result = run("spark", "triage", "rules.tbl", "--tables", "tables", *words)

    assert [
        "rule  line  action   messages  would match",
        "----  ----  -------  --------  -----------  -----------",
        "   1     3  RETRY       2,000        3,000",
        "   2    12  DISCARD         0            0  never first",
        f"{unmatched:,} match no rule and 1,000 have no MQDLH: they would stay.",
        f"Messages that match no rule, {which}:",
        "  reason=2053  queue=Q\\x07",
        "  reason=2053  queue=Q\\x07",
        "1 message: put to A becomes discarded (for example ab)",
    ] == result.stdout.splitlines()
    uri = str(Path.cwd() / "tables")
    assert f"No dead letter has landed in {uri} yet: mqflow spark bronze copies them there.\n" == result.stderr
    as_of = datetime(2026, 11, 23, 19, 5, tzinfo=UTC)
    assert [((SPARK, uri, "ACTION(RETRY)", "ACTION(RETRY)"), {"retries": True, "as_of": as_of})] == asked


def test_retries_without_a_second_table_is_wrong_usage(run: Run, session: list[object]) -> None:
    refused = run("spark", "triage", "rules.tbl", "--tables", "tables", "--retries")

    assert (2, []) == (refused.exit_code, session)
    assert "--retries compares two tables: name the other one with --against." in refused.stderr


@pytest.mark.parametrize(
    ("words", "consumer", "limits"),
    [
        ((), "bronze", {"rows_per_batch": 500_000, "bytes_per_batch": 2**30}),
        (("--no-consumer", "--rows-per-batch", "3", "--bytes-per-batch", "4"), "", {"rows_per_batch": 3, "bytes_per_batch": 4}),
        (("--consumer", "audit"), "audit", {"rows_per_batch": 500_000, "bytes_per_batch": 2**30}),
    ],
)
def test_bronze_copies_each_kind_and_shows_its_rows(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], consumer: str, limits: dict[str, int]
) -> None:
    journal = Journal.create(Path("journal"))
    journal.add_lane("IN", Kind.PAYLOAD, queue="IN", queue_manager="QM1")
    asked = job(monkeypatch, "bronze", [SimpleNamespace(rows=2_000, batches=2, table="file:///t", lacking={})])
    bars: list[tuple[object, ...]] = []

    @contextmanager
    def progress(title: str, total: int) -> Iterator[object]:
        bars.append((title, total))
        yield SimpleNamespace(reached=lambda *each: bars.append(each))

    monkeypatch.setattr("mqflow.cli.pipeline.spark_tables.progress", progress)
    checked: list[str] = []
    monkeypatch.setattr("mqflow.pipeline.tables.bronze.check_format", lambda table: checked.append(table.uri))

    result = run("spark", "bronze", "--journal", "journal", "--tables", "made", *words)

    shown = ["Kind      Rows  Commits  Table", "-------  -----  -------  ---------", "payload  2,000        2  file:///t"]
    assert shown == result.stdout.splitlines()
    [(arguments, options)] = asked
    assert [f"{Path.cwd()}/made/bronze/payload"] == checked
    uris = [str(Path.cwd() / name) for name in ("journal", "made")]
    tell = options.pop("tell")
    assert (SPARK, *uris, [Kind.PAYLOAD]) == arguments
    assert {"payload": "full", "consumer": consumer, **limits} == options
    assert callable(tell)
    tell("payload", 2_000)
    assert [("Bronze payload", 0), (2_000, "2,000 rows")] == bars
    assert Path("made").is_dir()


def test_a_kind_that_is_not_known_is_refused(run: Run, session: list[object]) -> None:
    Journal.create(Path("journal"))

    refused = run("spark", "bronze", "--journal", "journal", "--tables", "made", "--kind", "letters")

    assert (2, [], False) == (refused.exit_code, session, Path("made").exists())
    assert "'letters' is not a kind: use disposition, dead_letter, backout_message, payload." in refused.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--as-of", "2026-11-23", "Q"), "--as-of shows tables as they were: leave out --journal and the queues."),
        (("--as-of", "2026-11-23", "--journal", "j"), "--as-of shows tables as they were: leave out --journal and the queues."),
        (("Q",), "QUEUEs are landed in a journal: name it with --journal."),
        (("--tables", "nowhere"), "/nowhere: name the journal for its tables with --journal."),
    ],
)
def test_a_report_of_options_that_exclude_each_other_is_wrong_usage(
    run: Run, session: list[object], words: tuple[str, ...], why: str
) -> None:
    refused = run("spark", "report", "--tables", "tables", *words)

    assert (2, []) == (refused.exit_code, session)
    assert why in refused.stderr


def test_a_report_of_the_tables_is_announced(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = job(monkeypatch, "report", "report/report.html")

    assert "report/report.html\n" == run("spark", "report", "--tables", "tables", "--rules", "rules.tbl").stdout
    assert [((SPARK, str(Path.cwd() / "tables"), Path("report"), "ACTION(RETRY)", None), {})] == asked


def test_a_report_of_queues_lands_them_and_copies_the_journal_first(
    run: Run, queues: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 0 == run("mqsc", stdin="DEFINE QLOCAL('MQFLOW.JOURNAL.STATE') DEFPSIST(YES)").exit_code
    assert 0 == run("put", "ORDERS.IN", "x").exit_code
    monkeypatch.setenv("MQFLOW_URL", "embedded:./elsewhere")
    copied = job(monkeypatch, "bronze", [SimpleNamespace(rows=1, batches=1, table="t", lacking={})])
    job(monkeypatch, "report", "report/report.html")
    url = "embedded:./data?qmgr=QM1"

    result = run("spark", "report", "ORDERS.IN", "--journal", "j", "--tables", "new", "--url", url)

    assert 0 == result.exit_code, result.output
    assert "report/report.html" == result.stdout.splitlines()[-1]
    assert "ORDERS.IN: 1 message in 1 segment landed.\n" in result.stdout
    [(arguments, _)] = copied
    assert (SPARK, *(str(Path.cwd() / name) for name in ("j", "new")), [Kind.PAYLOAD]) == arguments
    assert 3 == run("get", "ORDERS.IN", "--url", url).exit_code


def test_a_report_copies_the_journal_with_its_payload_and_its_consumer(
    run: Run, session: list[object], monkeypatch: Any
) -> None:
    """With `full`, the bodies that the runs of bronze kept out of the tables would be in them."""
    Journal.create("j").add_lane("A", Kind.PAYLOAD, queue="A", queue_manager="QM1")
    copied = job(monkeypatch, "bronze", [SimpleNamespace(rows=1, batches=1, table="t", lacking={})])
    job(monkeypatch, "report", "report/report.html")

    words = ("--payload", "hash", "--consumer", "audit")
    assert 0 == run("spark", "report", "--journal", "j", "--tables", "new", *words).exit_code
    assert [("hash", "audit")] == [(options["payload"], options["consumer"]) for _, options in copied]

    refused = run("spark", "report", "--tables", "tables", "--payload", "some")
    assert (1, 2) == (len(copied), len(session))
    assert "payload='some' is not known" in refused.stderr


# -- redrive


PLAN = (
    Planned(queue="IN", queue_manager="", messages=2_000, why_not=""),
    Planned(queue="FAR", queue_manager="QM2", messages=1, why_not=""),
    Planned(queue="", queue_manager="", messages=3, why_not="the rows name no queue"),
)


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Let a table of dead letters exist, with rows for the plan; return the conditions of the rows."""
    conditions: list[object] = []
    monkeypatch.setattr("mqflow.pipeline.jobs.bronze_table", lambda *each: each)
    monkeypatch.setattr("mqflow.pipeline.delta.log.has_log", lambda _: True)
    monkeypatch.setattr("mqflow.pipeline.tables.bronze.check_format", lambda table: conditions.append(table.uri))
    redrive_plan = "mqflow.pipeline.dead_letters.redrive_plan"
    monkeypatch.setattr(f"{redrive_plan}.chosen", lambda table, condition: (table, condition))

    def planned(rows: tuple[object, str], *each: object) -> tuple[Planned, ...]:
        conditions.append((rows, *each))
        return PLAN if rows[1] != "false" else ()

    monkeypatch.setattr(f"{redrive_plan}.planned", planned)
    monkeypatch.setattr("mqflow.pipeline.dead_letters.redrive.rows_of", lambda _: [])
    return conditions


@pytest.mark.parametrize(("to", "queue"), [((), ""), (("--to", "origin"), ""), (("--to", "OTHER"), "OTHER")])
def test_a_dry_run_shows_the_targets_and_puts_nothing(run: Run, chosen: list[object], to: tuple[str, ...], queue: str) -> None:
    result = run("spark", "redrive", "--tables", "tables", "--where", "true", "--dry-run", *to)

    assert [
        "to          messages",
        "----------  --------  ----------------------",
        "IN             2,000  would be put",
        "FAR on QM2         1  would be put",
        "no origin          3  the rows name no queue",
    ] == result.stdout.splitlines()
    table = (SPARK, str(Path.cwd() / "tables"), Kind.DEAD_LETTER)
    assert [f"{table[1]}/bronze/dead_letter", ((table, "true"), Kind.DEAD_LETTER, queue)] == chosen


def test_without_a_matching_row_the_exit_code_is_3(run: Run, chosen: list[object]) -> None:
    result = run("spark", "redrive", "--tables", "tables", "--where", "false", "--kind", "backout_message")

    assert (3, "") == (result.exit_code, result.stdout)
    assert f"No row of {Path.cwd()}/tables/bronze/backout_message matches.\n" == result.stderr
    table = (SPARK, str(Path.cwd() / "tables"), Kind.BACKOUT_MESSAGE)
    assert [f"{table[1]}/bronze/backout_message", ((table, "false"), Kind.BACKOUT_MESSAGE, "")] == chosen


def test_without_a_table_the_exit_code_is_3(run: Run, session: list[object]) -> None:
    result = run("spark", "redrive", "--tables", "tables", "--where", "true")

    table = f"{Path.cwd()}/tables/bronze/dead_letter"
    why = "no such message has landed yet (`mqflow spark bronze`), or --tables is wrong."
    assert (3, [], f"There is no table {table}: {why}\n") == (result.exit_code, session, result.stderr)


@pytest.mark.parametrize(
    ("words", "per_second", "unit"),
    [
        ((), 0.0, 100),
        (("--unit", "7"), 0.0, 7),
        (("--rate", "50/s"), 50.0, 50),
        (("--rate", "6/m"), 0.1, 1),
        (("--rate", "200/s"), 200.0, 100),
    ],
)
def test_a_redrive_puts_with_its_rate_and_its_units(
    run: Run,
    chosen: list[object],
    queues: None,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    per_second: float,
    unit: int,
) -> None:
    seen: list[dict[str, Any]] = []

    def redriver(**facts: Any) -> object:
        seen.append(facts)
        return SimpleNamespace(run=lambda _: iter([Unit(put=2_000, skipped=1, refused=("Q\x07: no",))]))

    monkeypatch.setattr("mqflow.pipeline.dead_letters.redrive.TableRedriver", redriver)
    monkeypatch.setenv("MQFLOW_DISPOSITION_QUEUE", "RECORDS")

    result = run("spark", "redrive", "--tables", "tables", "--where", "true", "--id", "again", "--to", "OTHER", *words)

    [facts] = seen
    of = f"dead_letter in {Path.cwd() / 'tables'!s} where true to OTHER"
    assert ("again", of, "OTHER", "RECORDS") == tuple(facts[name] for name in ("redrive_id", "of", "to", "records"))
    assert (per_second, unit) == (facts["rate"], facts["unit"])
    assert (1, "Redrive again: 2,000 put, 1 put before, 1 refused.") == (result.exit_code, result.stdout.splitlines()[-1])
    assert ["Refused: Q\\x07: no", "Redriving: 90 %, 2,000 put, 1 put before"] == result.stderr.splitlines()


@pytest.mark.parametrize("tables", ["tables", "./tables/", "elsewhere/../tables"])
def test_a_redrive_without_a_name_is_named_after_its_other_options(
    run: Run, chosen: list[object], queues: None, monkeypatch: pytest.MonkeyPatch, tables: str
) -> None:
    """Another name for the same folder would be another redrive, which puts all messages again."""
    names: list[tuple[object, ...]] = []

    def redriver(**facts: Any) -> object:
        names.append((facts["redrive_id"], facts["of"], facts["to"], facts["records"]))
        return SimpleNamespace(run=lambda _: iter([Unit(put=1)]))

    monkeypatch.setattr("mqflow.pipeline.dead_letters.redrive.TableRedriver", redriver)

    result = run("spark", "redrive", "--tables", tables, "--where", "true")

    of = f"dead_letter in {Path.cwd() / 'tables'!s} where true to origin"
    name = sha256(of.encode()).hexdigest()[:12]
    assert [(name, of, "", "")] == names
    assert (0, f"Redrive {name}: 1 put, 0 refused.") == (result.exit_code, result.stdout.splitlines()[-1])


def test_the_progress_of_a_redrive_counts_every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[object, ...]] = []

    @contextmanager
    def progress(title: str, total: int) -> Iterator[object]:
        shown.append((title, total))
        yield SimpleNamespace(reached=lambda *each: shown.append(each))

    monkeypatch.setattr("mqflow.cli.pipeline.spark_redrive.progress", progress)
    units = [Unit(put=1, skipped=2, refused=("a", "b", "c", "d")), Unit(put=8)]

    _run(SimpleNamespace(run=lambda _: iter(units)), [], 15, "again")  # type: ignore[arg-type]  # only the method that it calls

    assert [("Redriving", 15), (7, "1 put, 2 put before"), (15, "9 put, 2 put before")] == shown


def test_only_the_first_ten_refusals_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    units = [Unit(put=1, refused=tuple(map(str, range(7)))), Unit(refused=tuple(map(str, range(7, 14)))), Unit(refused=("99",))]
    redriver: Any = SimpleNamespace(run=lambda _: iter(units))

    assert _Done(put=1, before=0, refused=15) == _run(redriver, [], 16, "again")
    shown = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Refused")]
    assert [f"Refused: {number}" for number in range(10)] == shown


def test_a_redrive_that_stops_says_how_far_it_came(capsys: pytest.CaptureFixture[str]) -> None:
    def units(_: object) -> Iterator[Unit]:
        yield Unit(put=1)
        raise error_for(Reason.Q_FULL, "MQPUT")

    with pytest.raises(MQIError):
        _run(SimpleNamespace(run=units), [], 2, "again\x07")  # type: ignore[arg-type]  # only the method that it calls

    said = "stopped: 1 put. These messages stay on their queues; the same command continues.\n"
    assert capsys.readouterr().err.endswith(f"Redrive again\\x07 {said}")


# -- upkeep


def test_optimize_shows_the_files_before_and_after(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    size = SimpleNamespace
    asked: list[object] = []
    upkept = size(
        table="silver/message",
        before=size(files=9, bytes=2_000),
        after=size(files=1, bytes=1_000),
        removed=size(files=8, bytes=3_000),
    )
    found = [upkept]

    def optimized(*each: object) -> Iterator[object]:
        asked.append(each)
        return iter(found)

    monkeypatch.setattr("mqflow.pipeline.tables.upkeep.optimize", optimized)

    lines = run("spark", "optimize", "--tables", "tables", "--keep-days", "7").stdout.splitlines()
    found.clear()
    nothing = run("spark", "optimize", "--tables", "tables")

    assert ["table", "files before", "bytes before", "files", "bytes", "deleted files", "deleted bytes"] == [
        part.strip() for part in lines[0].split("  ") if part
    ]
    assert ["silver/message", "9", "2,000", "1", "1,000", "8", "3,000"] == lines[2].split()
    assert len(lines[0]) == len(lines[2])  # the numbers are aligned to the right
    uri = str(Path.cwd() / "tables")
    assert [(uri, timedelta(days=7)), (uri, timedelta(days=30))] == asked
    assert ("", f"There is no table in {uri}.\n") == (nothing.stdout, nothing.stderr)


def erased(ended_s: float | None) -> object:
    lane = SimpleNamespace(lane="IN", segments=[SimpleNamespace(rows_before=3, rows=1), SimpleNamespace(rows_before=5, rows=4)])
    table = SimpleNamespace(table="silver/message", rows_before=3_000, rows=1_000)
    return SimpleNamespace(tables=[table], lanes=[lane], ended_s=ended_s, not_covered=("copies", "logs"))


@pytest.mark.parametrize(("ended_s", "before"), [(None, False), (0.0, True), (9e9, False)])
@pytest.mark.parametrize(("receipt", "name"), [("proof/r.json", "proof/r.json"), ("r.json", "r.json")])
def test_erase_shows_the_rows_and_the_receipt(
    run: Run, monkeypatch: pytest.MonkeyPatch, ended_s: float | None, receipt: str, name: str, *, before: bool
) -> None:
    asked: list[tuple[object, tuple[Folder, str]]] = []

    def erase(erasure: object, proof: tuple[Folder, str]) -> object:
        asked.append((erasure, proof))
        return erased(ended_s)

    monkeypatch.setattr("mqflow.pipeline.tables.erasure.erase", erase)

    result = run("spark", "erase", "--journal", "tables", "--tables", "tables", "--key", "user_id=amelie", "--receipt", receipt)

    [(erasure, (folder, file))] = asked
    here = str(Path.cwd() / "tables")
    assert Erasure(journal=here, tables=here, keys=(key_of("user_id=amelie"),)) == erasure
    assert (Path.cwd() / name, Path(name).name) == (Path(folder.uri_of(file)), file)
    rows = [
        "lane or table   rows erased",
        "--------------  -----------",
        "IN                        3",
        "silver/message        2,000",
    ]
    assert rows == result.stdout.splitlines()
    uri = str(Path.cwd() / name)
    *first, last = result.stderr.splitlines()
    assert f"The receipt is {uri}. Not covered: copies; logs." == last
    assert before is any("This erasure ended before, and nothing was done now." in line for line in first)


def test_a_dry_run_of_erase_needs_no_receipt(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("spark", "erase", "--journal", "tables", "--tables", "tables", "--key", "user_id=amelie")
    monkeypatch.setattr("mqflow.pipeline.tables.erasure.find", lambda _: {"IN": 2_000, "silver/message": 7})

    rows = [
        "lane or table   rows to erase",
        "--------------  -------------",
        "IN                      2,000",
        "silver/message              7",
    ]
    assert rows == run(*words, "--dry-run").stdout.splitlines()
    refused = run(*words)
    assert 2 == refused.exit_code
    assert "--receipt FILE is missing: it gets the proof of the erasure." in refused.stderr


def test_the_help_of_spark_lists_each_command_with_its_line(run: Run) -> None:
    printed = run("spark", "--help").stdout.partition("Commands:\n")[2].splitlines()

    names = ["bronze", "silver", "gold", "triage", "redrive", "stream", "status", "optimize", "erase", "report"]
    assert names == [line.split()[0] for line in printed]
    assert "  silver    Make tables of attempts, messages and dead letters from bronze." == printed[1]
