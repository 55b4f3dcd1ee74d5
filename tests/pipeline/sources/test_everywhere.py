"""The lander's command, the queue source and the queue sink on every kind of connection: served, ibmmq and pymqi.

They run in the process of the tests, as in a Spark worker. The packages are unmodified, on the stand-in library.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StringType, StructField, StructType

from mqflow.cli.main import main
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.server.listener import serve
from mqflow.landing.recovery import STATE_QUEUE
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.pipeline import SinkError
from mqflow.pipeline.sinks.queue import MARKER_QUEUE, QueueSink
from mqflow.pipeline.sources.queue import QueueSource
from mqflow.standin import install
from tests.client_packages import PACKAGES, import_here
from tests.embedded.disk_faults.disk import memory_folder
from tests.landing.journals import bodies
from tests.queue_contents import browsed, put

QUEUE, TARGET = "ORDERS.IN", "TARGET"
BODY = StructType([StructField("body", StringType())])


@dataclass
class Place:
    """A queue manager and its URL."""

    owner: EmbeddedQueueManager
    url: str

    def put(self, *numbers: int) -> None:
        put(self.owner, QUEUE, *(b"%d" % number for number in numbers), descriptor=MessageDescriptor(persistence=1))

    def bodies(self, name: str = QUEUE) -> list[int]:
        return [int(got.body) for got in browsed(self.owner, name)]


@pytest.fixture(params=["served", *PACKAGES])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with EmbeddedQueueManager("QM1") as owner, memory_folder() as folder:
        for name in (QUEUE, TARGET, STATE_QUEUE, MARKER_QUEUE):
            owner.administration.define(QueueAttributes(name=name))
        if request.param == "served":
            with serve(owner, folder / "qm"):
                yield Place(owner, f"embedded+unix:{folder / 'qm'}?qmgr=QM1")
            return
        import_here(request.param)
        with install(owner):
            yield Place(owner, f"{request.param}://mq.example:1414/QM1?channel=APP.SVRCONN")


@pytest.mark.parametrize("how", [(), ("--browse-first",)], ids=["get", "browse"])
def test_the_command_lands_a_queue(how: tuple[str, ...], place: Place, tmp_path: Path) -> None:
    place.put(*range(30))

    for numbers in ((), (30, 31)):
        place.put(*numbers)
        command = ["land", QUEUE, "--journal", str(tmp_path / "j"), "--once", "--linger", "0ms", "--url", place.url, *how]
        landed = CliRunner().invoke(main, command)
        assert 0 == landed.exit_code, landed.output

    assert list(range(32)) == bodies(tmp_path / "j", QUEUE)
    assert [] == place.bodies()


def test_a_queue_is_browsed_and_stays(place: Place) -> None:
    place.put(*range(5))
    reader: Any = QueueSource({"url": place.url, "queue": QUEUE, "columns": "body,qmgr"}).reader(BODY)

    [batch] = [batch for part in reader.partitions() for batch in reader.read(part)]

    assert [(b"%d" % number, "QM1") for number in range(5)] == [(row["body"], row["qmgr"]) for row in batch.to_pylist()]
    assert list(range(5)) == place.bodies()


def test_a_queue_is_drained_by_a_manifest(place: Place, tmp_path: Path) -> None:
    place.put(*range(7))
    options = {"url": place.url, "queue": QUEUE, "manifest": str(tmp_path / "m"), "maxRowsPerTrigger": "4"}
    reader: Any = QueueSource(options).streamReader(BODY)
    start, found = reader.initialOffset(), []
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        for part in reader.partitions(start, end):
            found += [int(body) for batch in reader.read(part) for body in batch["body"].to_pylist()]
        start = end
    reader.stop()

    assert list(range(7)) == found
    assert [] == place.bodies()


def test_a_drain_that_was_cut_off_goes_on_on_another_connection(place: Place, tmp_path: Path) -> None:
    place.put(*range(3))
    options = {"url": place.url, "queue": QUEUE, "manifest": str(tmp_path / "m")}
    first: Any = QueueSource(options).streamReader(BODY)
    end = first.latestOffset(first.initialOffset(), ReadAllAvailable())
    first.stop()
    place.put(3)

    second: Any = QueueSource(options).streamReader(BODY)
    last = second.latestOffset(end, ReadAllAvailable())
    found = [
        int(body) for part in second.partitions(end, last) for batch in second.read(part) for body in batch["body"].to_pylist()
    ]
    second.stop()

    assert end != last
    assert [3] == found
    assert [] == place.bodies()


def test_rows_are_put_once_and_other_rows_are_refused(place: Place) -> None:
    rows = pa.record_batch({"body": [str(number) for number in range(9)]})
    options = {"url": place.url, "queue": TARGET, "name": "job", "partitions": "1", "rowsPerUnit": "4"}

    for _ in range(2):
        QueueSink(options).writer(BODY, overwrite=False).write(iter([rows]))
    with pytest.raises(SinkError, match="differs in a replay"):
        QueueSink(options).writer(BODY, overwrite=False).write(iter([rows.slice(1)]))

    assert list(range(9)) == place.bodies(TARGET)
