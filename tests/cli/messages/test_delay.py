"""`mqflow put --delay`, `delay list` and `delay cancel`: delayed messages are listed and cancelled."""

import json
from pathlib import Path

import anyio
import pytest

from mqflow.cli.processes.delay_processors import DelayProcessors
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption, Persistence
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE, Stager
from mqflow.testing.virtual_clock import VirtualClock
from mqflow.verbs import GetOptions
from mqflow.world import SYSTEM_WORLD, World
from tests.cli.conftest import Run
from tests.queue_contents import put

pytestmark = pytest.mark.usefixtures("queues")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> VirtualClock:
    """The clock of the commands: it shows 2026-01-01 00:00:00 UTC until a test advances it."""
    clock = VirtualClock()
    monkeypatch.setattr("mqflow.cli.connection_options.SYSTEM_WORLD", World(clock))
    monkeypatch.setattr("mqflow.cli.messages.delay.SYSTEM_CLOCK", clock)
    return clock


@pytest.mark.usefixtures("clock")
def test_a_delayed_message_is_listed_and_not_on_its_queue(run: Run) -> None:
    message_id = run("put", "ORDERS.IN", "ab", "--delay", "2h").stdout.strip()

    record = {"message_id": message_id, "target": "ORDERS.IN", "due_in_ms": 7_200_000, "delay_ms": 7_200_000, "body_bytes": 2}
    assert record == json.loads(run("delay", "list", "--json").stdout)
    assert 3 == run("get", "ORDERS.IN").exit_code


def test_the_soonest_is_listed_first_and_the_list_ends_at_its_limit(run: Run, clock: VirtualClock) -> None:
    run("put", "SYSTEM.DDELAY.LOCAL.QUEUE", "no delay header")
    sent = [run("put", "ORDERS.IN", "x", "--delay", delay).stdout.strip() for delay in ("3d", "5m", "2h")]
    clock.advance(60)

    whole, cut = run("delay", "list", "--limit", "3"), run("delay", "list", "--limit", "2")

    lines = [
        f"{sent[1]}  2026-01-01 00:05:00Z      in 4 min  ORDERS.IN\n",
        f"{sent[2]}  2026-01-01 02:00:00Z    in 119 min  ORDERS.IN\n",
        f"{sent[0]}  2026-01-04 00:00:00Z        in 2 d  ORDERS.IN\n",
    ]
    assert (0, "".join(lines), "") == (whole.exit_code, whole.stdout, whole.stderr)
    more = "There are more messages; --limit shows more than 2.\n"
    assert (0, "".join(lines[:2]), more) == (cut.exit_code, cut.stdout, cut.stderr)


@pytest.mark.usefixtures("clock")
def test_the_records_of_a_list_have_the_same_notes_as_its_text(run: Run) -> None:
    empty = [run("delay", "list", *form) for form in ((), ("--json",))]
    for _ in range(2):
        run("put", "ORDERS.IN", "x", "--delay", "2h")
    cut = [run("delay", "list", "--limit", "1", *form) for form in ((), ("--json",))]

    assert ["There is no delayed message on SYSTEM.DDELAY.LOCAL.QUEUE.\n"] * 2 == [each.stderr for each in empty]
    assert ["There are more messages; --limit shows more than 1.\n"] * 2 == [each.stderr for each in cut]
    assert [1, 1] == [len(each.stdout.splitlines()) for each in cut]


def test_messages_are_cancelled_and_a_message_that_is_not_delayed_is_named(run: Run) -> None:
    kept, first, second = (run("put", "ORDERS.IN", "x", "--delay", "2h").stdout.strip() for _ in range(3))

    cancelled = run("delay", "cancel", first, "41" * 24, second)
    again = run("delay", "cancel", first)

    gone = "{} is not on SYSTEM.DDELAY.LOCAL.QUEUE: it was delivered, or cancelled, or never delayed.\n".format
    assert (1, f"{first}\n{second}\n", gone("41" * 24)) == (cancelled.exit_code, cancelled.stdout, cancelled.stderr)
    assert (1, "", gone(first)) == (again.exit_code, again.stdout, again.stderr)
    assert [kept] == [line.split()[0] for line in run("delay", "list").stdout.splitlines()]
    assert (0, f"{kept}\n", "") == ((last := run("delay", "cancel", kept)).exit_code, last.stdout, last.stderr)


def test_zeros_are_no_identifier_and_cancel_nothing(run: Run) -> None:
    sent = [run("put", "ORDERS.IN", "x", "--delay", "2h").stdout.strip() for _ in range(3)]

    refused = run("delay", "cancel", "00" * 24)

    assert (2, "") == (refused.exit_code, refused.stdout)
    assert f"{'00' * 24!r} is not a message identifier: zeros stand for any message." in refused.stderr
    assert sent == [line.split()[0] for line in run("delay", "list").stdout.splitlines()]


def test_a_cancel_leaves_messages_that_are_not_delayed(run: Run, tmp_path: Path) -> None:
    delayed = run("put", "SMALL", "x", "--delay", "2h").stdout.strip()
    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path / "data")) as queue_manager:
        reply = MessageDescriptor(correlation_id=bytes.fromhex(delayed), persistence=Persistence.PERSISTENT, format="MQSTR")
        for queue in ("ORDERS.IN", EMBEDDED_STAGING_QUEUE):
            put(queue_manager, queue, b"a reply", descriptor=reply)

    other, staged, again = (run("delay", "cancel", delayed, *where) for where in (("--queue", "ORDERS.IN"), (), ()))

    assert (1, "") == (other.exit_code, other.stdout)
    assert (0, f"{delayed}\n", "") == (staged.exit_code, staged.stdout, staged.stderr)
    assert 1 == again.exit_code
    for queue in ("ORDERS.IN", EMBEDDED_STAGING_QUEUE):
        [left] = [json.loads(line) for line in run("browse", queue, "--json").stdout.splitlines()]
        assert ("a reply", 0) == (left["body"], left["descriptor"]["backout_count"])


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
    monkeypatch.setenv("MQFLOW_DELAY_QUEUE", "SMALL")
    message_id = run("put", "ORDERS.IN", "x", "--delay", "2h").stdout.strip()

    assert message_id == run("delay", "list").stdout.split()[0]
    assert 0 == run("delay", "cancel", message_id).exit_code
    assert "There is no delayed message on SMALL.\n" == run("delay", "list").stderr


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
