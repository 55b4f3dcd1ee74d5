"""`mqflow put --delay`, `delay list` and `delay cancel`: delayed messages are listed and cancelled."""

import json

import anyio
import pytest

from mqflow.cli.processes.delay_processors import DelayProcessors
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE, Stager
from mqflow.verbs import GetOptions
from mqflow.world import SYSTEM_WORLD
from tests.cli.conftest import Run

pytestmark = pytest.mark.usefixtures("queues")


def test_a_delayed_message_is_listed_and_not_on_its_queue(run: Run) -> None:
    message_id = run("put", "ORDERS.IN", "x", "--delay", "2h").stdout.strip()

    [record] = [json.loads(line) for line in run("delay", "list", "--json").stdout.splitlines()]
    assert (message_id, "ORDERS.IN", 7_200_000, 1) == tuple(
        record[key] for key in ("message_id", "target", "delay_ms", "body_bytes")
    )
    assert 7_100_000 < record["due_in_ms"] <= 7_200_000
    assert 3 == run("get", "ORDERS.IN").exit_code


def test_the_soonest_is_listed_first(run: Run) -> None:
    sent = [run("put", "ORDERS.IN", "x", "--delay", delay).stdout.strip() for delay in ("3d", "5m", "2h")]

    listed = [line.split() for line in run("delay", "list").stdout.splitlines()]

    assert [(sent[1], "in", "min"), (sent[2], "in", "min"), (sent[0], "in", "d")] == [
        (words[0], words[3], words[5]) for words in listed
    ]


def test_a_delayed_message_is_cancelled(run: Run) -> None:
    kept, taken = (run("put", "ORDERS.IN", "x", "--delay", "2h").stdout.strip() for _ in range(2))

    assert (0, f"{taken}\n") == ((result := run("delay", "cancel", taken)).exit_code, result.stdout)
    assert [kept] == [line.split()[0] for line in run("delay", "list").stdout.splitlines()]


def test_a_message_that_is_not_delayed_cannot_be_cancelled(run: Run) -> None:
    result = run("delay", "cancel", "41" * 24)

    assert 1 == result.exit_code
    assert "is not on" in result.stderr


def test_an_empty_staging_queue_is_not_an_error(run: Run) -> None:
    result = run("delay", "list")

    assert (0, "", "There is no delayed message on SYSTEM.DDELAY.LOCAL.QUEUE.\n") == (
        result.exit_code,
        result.stdout,
        result.stderr,
    )


@pytest.mark.parametrize("delay", ["soon", "5y", "-", ""])
def test_an_invalid_delay_is_wrong_usage(run: Run, delay: str) -> None:
    result = run("put", "ORDERS.IN", "x", "--delay", delay)

    assert 2 == result.exit_code
    assert "90s, 500ms, 5m, 2h and 3d" in result.stderr


def test_a_delay_longer_than_the_expiry_is_refused(run: Run) -> None:
    result = run("put", "ORDERS.IN", "x", "--delay", "5m", "--expiry", "10")

    assert "MQRC_EXPIRY_ERROR (2013)" in result.stderr
    assert "There is no delayed message" in run("delay", "list").stderr


def test_the_staging_queue_of_the_settings_is_used(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQFLOW_DELAY_QUEUE", "LATER")
    assert 0 == run("mqsc", stdin="DEFINE QLOCAL(LATER)").exit_code
    message_id = run("put", "ORDERS.IN", "x", "--delay", "2h").stdout.strip()

    assert message_id == run("delay", "list").stdout.split()[0]
    assert 0 == run("delay", "cancel", message_id).exit_code
    assert "There is no delayed message on LATER." in run("delay", "list").stderr


@pytest.mark.anyio
@pytest.mark.parametrize("staging", [EMBEDDED_STAGING_QUEUE, "STAGED"])
async def test_the_serving_process_delivers_from_the_delay_queue_too(staging: str) -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        for name in ("STAGED", "LATER"):
            queue_manager.administration.define(QueueAttributes(name=name))
        connection = queue_manager.connect()
        Stager(staging, SYSTEM_WORLD).put_on(connection, "LATER", MessageDescriptor(), b"x", 1)
        connection.commit()
        handle = connection.open("LATER", OpenOption.INPUT_SHARED)
        waiting = GetOptions(options=GetOption.NO_SYNCPOINT | GetOption.WAIT, wait_ms=30_000)
        processors = DelayProcessors(queue_manager, disposition_queue="", delay_queue="STAGED")
        async with anyio.create_task_group() as group:
            group.start_soon(processors.run)
            got = await anyio.to_thread.run_sync(connection.get, handle, waiting)
            processors.stop()
            assert got is not None
            assert b"x" == got.body
