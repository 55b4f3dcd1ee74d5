"""No plan, page of Spark, checkpoint or error contains a password: workers read it from settings."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.protocol.addresses import TcpAddress
from mqflow.embedded.wire.server.listener import serve_tcp
from mqflow.embedded.wire.server.users_file import UsersFile
from mqflow.landing.recovery import STATE_QUEUE
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.pipeline.sinks.queue import MARKER_QUEUE, keyed
from tests.pipeline import jvm
from tests.queue_contents import put

SECRET = "hunter2-that-nobody-sees"  # noqa: S105 - what is looked for
QUEUE, TARGET = "SOURCE", "TARGET"


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """The URL of a queue manager that requires a password."""
    users = UsersFile(tmp_path / "users.json", salt=bytes)
    users.set("alice", SECRET, administrator=True)
    with EmbeddedQueueManager("QM1") as owner:
        for name in (QUEUE, TARGET, MARKER_QUEUE, STATE_QUEUE):
            owner.administration.define(QueueAttributes(name=name))
        put(owner, QUEUE, *(b"%d" % number for number in range(5)))
        with serve_tcp(owner, TcpAddress("127.0.0.1", 0), users) as server:
            yield f"embedded+tcp://{server.address}/QM1"


@pytest.fixture
def folder(spark: SparkSession) -> Iterator[Path]:
    """The folder of the session, with the workers' settings."""
    folder = Path(spark.conf.get("spark.eventLog.dir") or "").parent
    mode = "spark.sql.ui.explainMode"
    spark.conf.unset(mode)  # as Spark's pages show it
    yield folder
    spark.conf.set(mode, jvm.SETTINGS[mode])
    (folder / "mqflow.toml").write_text("")


def let_in(folder: Path, password: str) -> None:
    (folder / "password").write_text(f"{password}\n")
    (folder / "mqflow.toml").write_text(f'user = "alice"\npassword_file = "{folder / "password"}"\n')


def everything_in(*folders: Path) -> str:
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    assert files
    return "\n".join(file.read_bytes().decode(errors="replace") for file in files)


def test_no_password_is_where_options_and_plans_are_shown(
    spark: SparkSession, url: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    let_in(folder, SECRET)
    browsed = spark.read.format("mqflow_queue").options(url=url, queue=QUEUE, columns="body").load()
    browsed.explain("extended")
    assert 5 == browsed.count()
    manifest, checkpoint = tmp_path / "manifest", tmp_path / "checkpoint"
    drained = spark.readStream.format("mqflow_queue").options(url=url, queue=QUEUE, manifest=str(manifest)).load()
    query = (
        keyed(drained.select("body"), 1, "body")
        .writeStream.format("mqflow_mq")
        .options(url=url, queue=TARGET, name="job", partitions="1")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    query.explain(extended=True)

    shown = capsys.readouterr().out + str([progress.json for progress in query.recentProgress])
    kept = everything_in(folder / "events", checkpoint, manifest)
    assert "mqflow_queue" in shown
    assert QUEUE in kept, "nothing is kept where it is looked for"
    assert SECRET not in shown + kept


def test_an_error_without_a_password_names_the_setting_of_the_password(spark: SparkSession, url: str, folder: Path) -> None:
    with pytest.raises(PySparkException, match=r"set user and password_file in mqflow\.toml, or MQFLOW_USER"):
        spark.read.format("mqflow_queue").options(url=url, queue=QUEUE).load().count()


def test_the_error_of_a_refused_user_does_not_show_the_password(spark: SparkSession, url: str, folder: Path) -> None:
    let_in(folder, f"not-{SECRET}")

    with pytest.raises(PySparkException, match="MQRC_NOT_AUTHORIZED") as caught:
        spark.read.format("mqflow_queue").options(url=url, queue=QUEUE).load().count()

    assert SECRET not in str(caught.value) + everything_in(folder / "events")
