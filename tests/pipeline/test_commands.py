"""The commands of the pipeline as they are typed, from queues to the page, with the options that are documented."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from mqflow.cli import main
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.sqlite_store import SqliteStore
from mqflow.journal import Kind
from mqflow.mqi.options import OpenOption, PutOption
from mqflow.policy.disposition_record import DISPOSITION_QUEUE
from mqflow.testing.journals import invented

pytestmark = pytest.mark.usefixtures("spark")

URL = "embedded:./data?qmgr=QM1"
RULES = "DESTQ(ORDERS.*) ACTION(RETRY)\nREASON(MQRC_Q_FULL) ACTION(RETRY)\n"
MESSAGES = 400


def typed(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, list(arguments), input=stdin)


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Decisions and dead letters on the queues of a queue manager, and what `mqflow spark report` made of them."""
    path = tmp_path_factory.mktemp("commands")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(path)
        queues = ("DEAD.LETTERS", DISPOSITION_QUEUE, "MQFLOW.JOURNAL.STATE")
        script = "".join(f"DEFINE QLOCAL('{queue}') DEFPSIST(YES)\n" for queue in queues) + "ALTER QMGR DEADQ('DEAD.LETTERS')\n"
        assert 0 == typed("mqsc", "--url", URL, stdin=script).exit_code
        with EmbeddedQueueManager("QM1", store=SqliteStore(path / "data")) as queue_manager:
            connection = queue_manager.connect()
            for kind, queue in ((Kind.DISPOSITION, DISPOSITION_QUEUE), (Kind.DEAD_LETTER, "DEAD.LETTERS")):
                handle = connection.open(queue, OpenOption.OUTPUT | OpenOption.SET_ALL_CONTEXT)
                for got in invented(kind, MESSAGES, seed=7):
                    connection.put(handle, got.descriptor, got.body, PutOption.SYNCPOINT | PutOption.SET_ALL_CONTEXT)
            connection.commit()
        (path / "rules.txt").write_text(RULES)
        made = typed(
            "spark", "report", "DEAD.LETTERS", DISPOSITION_QUEUE, "--journal", "journal", "--tables", "tables",
            "--rules", "rules.txt", "--output", "page", "--url", URL, "--conf", "spark.sql.shuffle.partitions=2",
        )  # fmt: skip
        assert 0 == made.exit_code, made.stderr
    return path


def test_one_command_leads_from_queues_to_the_page_with_the_numbers_beside_it(folder: Path) -> None:
    report = json.loads((folder / "page" / "report.json").read_text())

    assert (folder / "page" / "report.html").exists()
    assert (
        sum(1 for number in range(MESSAGES) if number % 50 != 49) == report["triage"]["messages"] - report["triage"]["strays"]
    )
    assert MESSAGES == report["messages"]


def test_each_step_by_itself_goes_on_where_the_tables_are(folder: Path) -> None:
    tables = str(folder / "tables")
    rules = str(folder / "rules.txt")
    for arguments, said in (
        (["bronze", "--journal", str(folder / "journal"), "--tables", tables, "--no-consumer"], "dead_letter     0"),
        (["silver", "--tables", tables, "--rules", rules], "Silver is up to bronze"),
        (["gold", "--tables", tables], "windows up to 2025-10-0"),
        (["triage", rules, "--tables", tables, "--against", rules], "match no rule and 8 have no MQDLH"),
    ):
        result = typed("spark", *arguments, "--conf", "spark.sql.shuffle.partitions=2", "--master", "local[2]")

        assert 0 == result.exit_code, result.stderr
        assert said in result.stdout + result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["report", "DEAD.LETTERS", "--tables", "tables"], 2, "QUEUEs are landed in a journal: --journal says which."),
        (["report", "--journal", "nowhere", "--tables", "tables"], 1, "nowhere is no journal"),
        (["gold", "--tables", "tables", "--conf", "nonsense"], 2, "'nonsense' is no setting: KEY=VALUE is."),
        (["silver", "--tables", "tables", "--rules", "wrong.txt"], 1, "REASN"),
        (["triage", "missing.txt", "--tables", "tables"], 2, "missing.txt"),
    ],
)
def test_what_is_typed_wrongly_is_told_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.txt").write_text("REASN(2053) ACTION(RETRY)\n")

    result = typed("spark", *arguments)

    assert code == result.exit_code, result.stderr
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr
