"""The command `mqflow spark redrive`: the targets of rows, each put once in repeated runs, and the messages."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from mqflow.cli.main import main
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import OpenOption, Persistence, PutOption
from mqflow.policy.poison import moved_message
from mqflow.testing.dead_letters import put_dead_letter

pytestmark = pytest.mark.usefixtures("spark")

DESCRIPTOR = MessageDescriptor(persistence=Persistence.PERSISTENT, format="MQSTR", ccsid=1208, priority=3)
URL = "embedded:./data?qmgr=QM1"
SCRIPT = """
ALTER QMGR DEADQ('DEAD.LETTERS')
DEFINE QLOCAL('DEAD.LETTERS')        DEFPSIST(YES)
DEFINE QLOCAL('ORDERS.IN')           DEFPSIST(YES) BOTHRESH(1) BOQNAME('ORDERS.BOQ')
DEFINE QLOCAL('ORDERS.BOQ')          DEFPSIST(YES)
DEFINE QLOCAL('SMALL')               DEFPSIST(YES) MAXDEPTH(4)
DEFINE QLOCAL('MQFLOW.JOURNAL.STATE') DEFPSIST(YES)
DEFINE QLOCAL('MQFLOW.REDRIVE.STATE') DEFPSIST(YES)
"""
ORDERS = [b"order %d" % number for number in range(1, 7)]


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make bronze with six dead letters for ORDERS.IN, one for SMALL, one without an MQDLH, and one backed-out message."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("MQFLOW_URL", URL)
        assert 0 == CliRunner().invoke(main, ["mqsc"], input=SCRIPT).exit_code
        with EmbeddedQueueManager("QM1", store=SqliteStore(folder / "data")) as queue_manager:
            connection = queue_manager.connect()
            for body in ORDERS:
                put_dead_letter(connection, "DEAD.LETTERS", body, queue="ORDERS.IN", descriptor=DESCRIPTOR)
            put_dead_letter(connection, "DEAD.LETTERS", b"small", queue="SMALL", descriptor=DESCRIPTOR)
            connection.put1("DEAD.LETTERS", DESCRIPTOR, b"stray", PutOption.NO_SYNCPOINT)
            folders = (moved_message.folder(moved_message.Why(queue="ORDERS.IN", count=3)),)
            descriptor, data = moved_message.to_backout_queue(DESCRIPTOR, b"backed out", folders=folders)
            connection.put(connection.open("ORDERS.BOQ", OpenOption.OUTPUT), descriptor, data, PutOption.NO_SYNCPOINT)
        landed = typed("land", "DEAD.LETTERS", "ORDERS.BOQ:backout_message", "--journal", "journal", "--once")
        assert 0 == landed.exit_code, landed.stderr
        bronze = typed("spark", "bronze", "--journal", "journal", "--tables", "tables")
        assert 0 == bronze.exit_code, bronze.stderr
    return folder


@pytest.fixture
def tables(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tables, and a queue manager for this test only."""
    shutil.copytree(made / "data", tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MQFLOW_URL", URL)
    return made / "tables"


def typed(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def redrive(tables: Path, *arguments: str) -> Result:
    return typed("spark", "redrive", "--tables", str(tables), *arguments)


def on(queue: str) -> list[str]:
    shown = typed("browse", queue, "--json").stdout
    return [json.loads(line)["body"] for line in shown.splitlines()]


def lines(shown: str) -> list[str]:
    return [" ".join(line.split()) for line in shown.splitlines()[2:]]


def test_a_dry_run_says_what_would_go_where_and_puts_nothing(tables: Path) -> None:
    result = redrive(tables, "--where", "true", "--dry-run")

    assert ["ORDERS.IN 6 would be put", "SMALL 1 would be put", "no origin 1 it does not say where it came from"] == [
        line.replace(" on QM1", "") for line in lines(result.stdout)
    ]
    assert (0, [], []) == (result.exit_code, on("ORDERS.IN"), on("SMALL"))


def test_rows_go_back_to_where_they_came_from_and_typed_again_none_goes_twice(tables: Path) -> None:
    first, second = (redrive(tables, "--where", "dlh_dest_q = 'ORDERS.IN'", "--rate", "1000/s") for _ in range(2))

    assert (0, 0) == (first.exit_code, second.exit_code), first.stderr + second.stderr
    assert [each.decode() for each in ORDERS] == on("ORDERS.IN")
    assert ": 6 put, 0 refused." in first.stdout
    assert ": 0 put, 6 put before, 0 refused." in second.stdout


def test_a_message_has_the_identifiers_and_the_priority_it_had(tables: Path, spark: SparkSession) -> None:
    redrive(tables, "--where", "dlh_dest_q = 'SMALL'")

    [shown] = typed("browse", "SMALL", "--json").stdout.splitlines()
    descriptor = json.loads(shown)["descriptor"]
    [row] = (
        spark.read.format("mqflow_delta").load(str(tables / "bronze" / "dead_letter")).where("dlh_dest_q = 'SMALL'").collect()
    )
    assert (row["msg_id"].hex(), 3) == (descriptor["message_id"].lower(), descriptor["priority"])
    assert "MQSTR" == descriptor["format"]


def test_a_full_queue_stops_a_redrive_after_the_messages_it_put_and_the_same_command_goes_on(tables: Path) -> None:
    command = ("--where", "dlh_dest_q = 'ORDERS.IN'", "--to", "SMALL", "--unit", "2")

    stopped = redrive(tables, *command)
    assert 1 == stopped.exit_code
    assert "stopped: 4 put. These messages stay on their queues; the same command continues." in stopped.stderr
    assert "MQRC_Q_FULL (2053)" in stopped.stderr
    assert [each.decode() for each in ORDERS[:4]] == on("SMALL")
    typed("get", "SMALL", "--limit", "9")

    assert ": 2 put, 4 put before, 0 refused." in redrive(tables, *command).stdout
    assert [each.decode() for each in ORDERS[4:]] == on("SMALL")


def test_backed_out_messages_go_back_as_they_were(tables: Path) -> None:
    result = redrive(tables, "--kind", "backout_message", "--where", "source_queue = 'ORDERS.IN'")

    assert 0 == result.exit_code, result.stderr
    assert ["backed out"] == on("ORDERS.IN")


def test_a_row_that_cannot_go_is_refused_by_its_place_and_the_others_go(tables: Path) -> None:
    result = redrive(tables, "--where", "dlh_dest_q = 'SMALL' or not has_dlh")

    assert 1 == result.exit_code
    assert "Refused: DEAD.LETTERS 1/7: it does not say where it came from." in result.stderr
    assert (["small"], True) == (on("SMALL"), ": 1 put, 1 refused." in result.stdout)


def test_the_id_of_another_redrive_is_refused_and_nothing_is_put(tables: Path) -> None:
    assert 0 == redrive(tables, "--where", "dlh_dest_q = 'SMALL'", "--id", "R1").exit_code

    result = redrive(tables, "--where", "dlh_dest_q = 'ORDERS.IN'", "--id", "R1")

    assert (1, []) == (result.exit_code, on("ORDERS.IN"))
    assert "Redrive R1 began with dead_letter in" in result.stderr
    assert "Give this redrive another id." in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [(["--where", "reason = 2053"], 2, "'reason = 2053' is not a condition on this table: A column"),
     (["--where", "dlh_reason ="], 2, "'dlh_reason =' is not a condition on this table: Syntax error"),
     (["--where", "dlh_reason"], 2, "is not a condition on this table"),
     (["--where", "dlh_reason = 1"], 3, " matches."),
     (["--where", "true", "--rate", "fast"], 2, "'fast' is not a rate"),
     (["--where", "dlh_dest_q = 'SMALL'", "--to", "GONE"], 1, "GONE"),
     (["--where", "dlh_dest_q = 'SMALL'", "--url", "embedded:nowhere?qmgr=QM1"], 2,
      "there is no queue manager at nowhere yet")],
)  # fmt: skip
def test_one_sentence_refuses_a_redrive_that_cannot_be(tables: Path, arguments: list[str], code: int, sentence: str) -> None:
    result = redrive(tables, *arguments)

    assert code == result.exit_code, result.stderr
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


def test_a_folder_without_tables_is_refused_before_spark_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqflow.cli.pipeline.spark_redrive.started", lambda *_, **__: pytest.fail("Spark was started"))

    result = redrive(tmp_path / "elsewhere", "--where", "true")

    assert 3 == result.exit_code
    assert f"There is no table {tmp_path / 'elsewhere' / 'bronze' / 'dead_letter'}" in result.stderr
    assert not (tmp_path / "elsewhere").exists()


def test_a_missing_state_queue_is_named_before_anything_is_put(tables: Path) -> None:
    assert 0 == CliRunner().invoke(main, ["mqsc"], input="DELETE QLOCAL('MQFLOW.REDRIVE.STATE')").exit_code

    result = redrive(tables, "--where", "dlh_dest_q = 'SMALL'")

    assert (1, []) == (result.exit_code, on("SMALL"))
    assert "MQOPEN on MQFLOW.REDRIVE.STATE" in result.stderr
