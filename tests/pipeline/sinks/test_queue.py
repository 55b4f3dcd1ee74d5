"""`mqflow_mq`: tables and streams on queues, by a real Spark, with the queue manager and the workers in separate processes."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own pages have it

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.server.listener import serve
from mqflow.journal import Kind
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.pipeline import OptionError, SinkError
from mqflow.pipeline.sinks.queue import MARKER_QUEUE, keyed
from mqflow.pipeline.sinks.row_messages import check_columns, in_order, messages
from mqflow.testing.journals import generate_journal
from mqflow.verbs import Got
from tests.embedded.disk_faults.disk import memory_folder
from tests.queue_contents import browsed

TARGET = "TARGET"


class Served:
    """A queue manager with a socket."""

    def __init__(self, owner: EmbeddedQueueManager, socket: Path) -> None:
        self.owner = owner
        self.url = f"embedded+unix:{socket}?qmgr=QM1"

    def messages(self, name: str = TARGET) -> list[Got]:
        return browsed(self.owner, name)


@pytest.fixture
def served() -> Iterator[Served]:
    with EmbeddedQueueManager("QM1") as owner, memory_folder() as folder:
        for name in (TARGET, "OTHER", MARKER_QUEUE):
            owner.administration.define(QueueAttributes(name=name))
        with serve(owner, folder / "qm"):
            yield Served(owner, folder / "qm")


def write(rows: DataFrame, served: Served, **options: str) -> None:
    rows.write.format("mqflow_mq").mode("append").options(url=served.url, **options).save()


def test_a_table_is_put_once_for_each_name_however_often_it_is_written(spark: SparkSession, served: Served) -> None:
    rows = keyed(spark.range(50).select(F.format_string("%03d", "id").alias("body")), 2, "body")

    write(rows, served, queue=TARGET, name="job-1", partitions="2", rowsPerUnit="7")
    write(rows, served, queue=TARGET, name="job-1", partitions="2", rowsPerUnit="9")

    found = served.messages()
    assert [b"%03d" % number for number in range(50)] == sorted(got.body for got in found)
    assert 50 == len({got.descriptor.message_id for got in found})
    assert {("MQSTR", 1208)} == {(got.descriptor.format, got.descriptor.ccsid) for got in found}


def test_a_row_says_where_it_goes_and_what_it_is_and_context_is_kept_where_asked(spark: SparkSession, served: Served) -> None:
    was = MessageDescriptor(
        message_id=b"M" * 24, user_identifier="anna", put_application_name="web", put_date="20240229", put_time="11595999"
    )
    rows = spark.createDataFrame(
        [("OTHER", b"body", was.to_bytes(), 7)], "queue string, body binary, mqmd binary, priority int"
    )

    write(rows, served, name="job", partitions=str(rows.rdd.getNumPartitions()), context="set_all")

    [got] = served.messages("OTHER")
    kept = got.descriptor
    assert (b"M" * 24, "anna", "web", "20240229", "11595999", 7) == (
        kept.message_id, kept.user_identifier, kept.put_application_name, kept.put_date, kept.put_time, kept.priority,
    )  # fmt: skip


def test_a_stream_is_put_once_though_a_batch_is_replayed_and_tasks_fail(
    spark: SparkSession, served: Served, tmp_path: Path
) -> None:
    journal, failed = tmp_path / "journal", tmp_path / "failed"
    generate_journal(journal, Kind.PAYLOAD, segments=4, rows=25, lane="L")

    def fail_once(number: int) -> int:
        if number == 30 and not failed.exists():
            failed.touch()
            raise RuntimeError("planted: this task fails once")
        return number

    trouble = F.udf(fail_once, "int", useArrow=False)
    rows = spark.readStream.format("mqflow_journal").option("maxRowsPerTrigger", "50").load(str(journal))
    at = (F.col("segment") - 1) * 25 + F.col("ordinal")
    put = keyed(rows.select("msg_id", trouble(at.cast("int")).cast("string").alias("body")), 2, "msg_id")

    def run() -> None:
        put.writeStream.format("mqflow_mq").options(
            url=served.url, queue=TARGET, name="stream", partitions="2", rowsPerUnit="10"
        ).option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start().awaitTermination()

    run()
    (tmp_path / "checkpoint" / "commits" / "1").unlink()
    (tmp_path / "checkpoint" / "commits" / ".1.crc").unlink(missing_ok=True)
    run()

    assert failed.exists()
    assert sorted(str(number).encode() for number in range(100)) == sorted(got.body for got in served.messages())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"queue": TARGET, "partitions": "2"}, "needs the option 'name'"),
        ({"queue": TARGET, "name": "n"}, "needs the option 'partitions'"),
        ({"name": "n", "partitions": "2"}, "the target queue is missing"),
        ({"queue": TARGET, "name": "n", "partitions": "2", "mode": "once"}, "Use one of: exact, atleastonce"),
        ({"queue": TARGET, "name": "n", "partitions": "2", "password": "hunter2"}, "Spark shows options in plans"),
        ({"queue": TARGET, "name": "n", "partitions": "2", "markerQueue": "NONE"}, "UNKNOWN_OBJECT_NAME"),
    ],
)
def test_what_cannot_be_put_is_refused_before_anything_is(served: Served, options: dict[str, str], sentence: str) -> None:
    from pyspark.sql.types import StringType, StructType  # noqa: PLC0415 - one use

    from mqflow.pipeline.sinks.queue import QueueSink  # noqa: PLC0415 - as above

    schema = StructType().add("body", StringType())  # the JVM would read text
    with pytest.raises(Exception, match=sentence) as caught:
        QueueSink({"url": served.url, **options}).writer(schema, overwrite=False)
    assert "hunter2" not in str(caught.value)


def test_rows_are_only_added_and_a_batch_of_a_stream_must_have_a_number(served: Served) -> None:
    from pyspark.sql.types import StringType, StructType  # noqa: PLC0415 - as above

    from mqflow.pipeline.sinks.queue import QueueSink  # noqa: PLC0415 - as above

    schema = StructType().add("body", StringType())
    sink = QueueSink({"url": served.url, "queue": TARGET, "name": "n", "partitions": "2"})

    with pytest.raises(SinkError, match=r"a queue cannot be overwritten\. Use mode\('append'\)"):
        sink.writer(schema, overwrite=True)
    with pytest.raises(SinkError, match=r"rows can only be added to a queue\. Use outputMode\('append'\)"):
        sink.streamWriter(schema, overwrite=True)
    with pytest.raises(SinkError, match=r"the sink cannot tell batches apart\. Nothing was put"):  # no task of Spark runs here
        sink.streamWriter(schema, overwrite=False).write(iter(()))


def test_rows_in_more_partitions_than_the_sink_has_are_refused_and_none_is_put_twice(
    spark: SparkSession, served: Served, tmp_path: Path
) -> None:
    rows = keyed(spark.range(10).select(F.col("id").cast("string").alias("body")), 1, "body")
    write(rows, served, queue=TARGET, name="job", partitions="1")

    with pytest.raises(PySparkException, match="has 1 partitions and cannot have 2"):
        write(keyed(rows, 2, "body"), served, queue=TARGET, name="job", partitions="2")
    assert 10 == len(served.messages())


def test_rows_are_put_in_an_order_that_does_not_depend_on_the_shuffle() -> None:
    one = pa.record_batch({"at": [3, 1], "body": ["x", "y"]})
    other = pa.record_batch({"at": [2, 1], "body": ["z", "a"]})

    orders = [
        [row["body"] for batch in in_order(batches, ("at",)) for row in batch.to_pylist()]
        for batches in ([one, other], [other, one])
    ]

    assert [["a", "y", "z", "x"]] * 2 == orders
    assert [] == list(in_order([], ("at",)))


def test_a_cut_body_is_never_put_back() -> None:
    batch = pa.record_batch({"body": [b"half"], "body_truncated": [True]})

    with pytest.raises(SinkError, match="does not put half a message"):
        list(messages([batch], queue="Q", msg_id_from="", seed=""))


def test_a_body_that_is_not_there_is_no_empty_message() -> None:
    """A table with payload=none, without the column that says so."""
    gone = pa.record_batch({"body": pa.array([None], pa.binary()), "msg_id": [b"I" * 24]})
    empty = pa.record_batch({"body": [b""]})

    with pytest.raises(SinkError, match="has no body"):
        list(messages([gone], queue="Q", msg_id_from="", seed=""))
    assert [b""] == [each.body for each in messages([empty], queue="Q", msg_id_from="", seed="")]
    assert [b""] == [each.body for each in messages([gone.select(["msg_id"])], queue="Q", msg_id_from="", seed="")]


def test_a_column_that_says_nothing_of_a_message_is_refused() -> None:
    with pytest.raises(OptionError, match="column lane is not part of a message"):
        check_columns(["body", "lane"], "Q", "")
    check_columns(["body", "lane"], "Q", "lane")


@pytest.mark.parametrize(("msg_id_from", "order_by"), [("at", ()), ("", ("body", "at"))], ids=["msgIdFrom", "orderBy"])
def test_an_option_that_names_no_column_is_refused(msg_id_from: str, order_by: tuple[str, ...]) -> None:
    with pytest.raises(OptionError, match=r"='at' is not a column\. Columns: body"):
        check_columns(["body"], "Q", msg_id_from, order_by)


@pytest.mark.parametrize("queue", [None, ""])
def test_a_row_without_a_queue_is_refused_if_no_option_names_one(queue: str | None) -> None:
    batch = pa.record_batch({"body": [b""], "queue": pa.array([queue], pa.string())})

    with pytest.raises(SinkError, match="a row has no queue"):
        list(messages([batch], queue="", msg_id_from="", seed=""))
    assert ["Q"] == [each.queue for each in messages([batch], queue="Q", msg_id_from="", seed="")]


def test_the_time_that_is_left_becomes_the_expiry_and_is_never_unlimited() -> None:
    batch = pa.record_batch({"body": [b""] * 4, "expiry_left_ms": pa.array([1_999, 99, 0, None], pa.int64())})

    assert [19, 1, 1, -1] == [each.descriptor.expiry_tenths for each in messages([batch], queue="Q", msg_id_from="", seed="")]


def test_a_message_identifier_is_the_rows_own_or_made_of_values_that_do_not_change() -> None:
    batch = pa.record_batch({"body": ["a", "b", "c"], "msg_id": pa.array([b"I" * 24, None, bytes(24)], pa.binary())})
    first = [each.descriptor.message_id for each in messages([batch], queue="Q", msg_id_from="", seed="s")]
    again = [each.descriptor.message_id for each in messages(batch_by_batch(batch), queue="Q", msg_id_from="", seed="s")]
    derived = [each.descriptor.message_id for each in messages([batch], queue="Q", msg_id_from="body", seed="s")]

    assert first == again
    assert b"I" * 24 == first[0]
    assert 3 == len(set(first)) == len(set(derived))
    assert b"I" * 24 not in derived


def batch_by_batch(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    return (batch.slice(at, 1) for at in range(batch.num_rows))


def test_a_failing_put_fails_the_stream_with_the_reason(spark: SparkSession, served: Served, tmp_path: Path) -> None:
    generate_journal(tmp_path / "journal", Kind.PAYLOAD, segments=1, rows=5)
    rows = spark.readStream.format("mqflow_journal").load(str(tmp_path / "journal")).select("body")
    query = (
        keyed(rows, 1, "body")
        .writeStream.format("mqflow_mq")
        .options(url=served.url, queue="NOBODY", name="stream", partitions="1")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )

    with pytest.raises(StreamingQueryException, match="MQRC_UNKNOWN_OBJECT_NAME"):
        query.awaitTermination()
