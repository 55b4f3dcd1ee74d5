"""A DLQ handler in an application: beside listeners, during outages, with Python rules, and with a changing rules table."""

import json
import os
import threading
from pathlib import Path

import anyio
import pytest

from mqflow import App, ConfigurationError
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.events import DeadLetterActed, Event, InDoubt, Warned
from mqflow.mqi.headers.dead_letter import DLH_BYTES
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.dead_letters.actions import DeadLetter
from mqflow.policy.dead_letters.rules import Action, RulesError
from mqflow.testing.dead_letters import put_dead_letter
from mqflow.testing.faults import Fault, Moment
from mqflow.testing.kit import QueueManagerKit, carry_out
from tests.doubles import Blocking

DLQ = "DEAD.LETTERS"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "rules.tbl"
    path.write_text(f"INPUTQ({DLQ}) RETRYINT(5)\nACTION(RETRY) RETRY(3)\n")
    return path


@pytest.fixture
def mq(mq: QueueManagerKit) -> QueueManagerKit:
    for queue in (DLQ, "ORDERS.IN", "OTHER"):
        mq.define(queue)
    return mq


def acted(mq: QueueManagerKit) -> list[str]:
    """Return the rule of each action."""
    return [event.rule for event in mq.told(DeadLetterActed)]


def put(mq: QueueManagerKit, body: bytes, queue: str = "ORDERS.IN") -> None:
    connection = mq.queue_manager.connect()
    put_dead_letter(connection, DLQ, body, queue=queue)
    connection.disconnect()


async def test_a_dead_letter_comes_back_to_the_listener_it_was_for(mq: QueueManagerKit, table: Path) -> None:
    app = App()
    app.dead_letter_handler(table)
    seen: list[bytes] = []

    @app.listener("ORDERS.IN")
    async def take(order: bytes) -> None:
        seen.append(order)

    async with mq.run(app):
        put(mq, b"one")
        put(mq, b"two")
        await anyio.sleep(1)

    assert [b"one", b"two"] == seen


async def test_the_queue_managers_own_dead_letter_queue_is_the_default_and_named_in_a_warning(
    mq: QueueManagerKit, tmp_path: Path
) -> None:
    mq.mqsc(f"ALTER QMGR DEADQ('{DLQ}')")
    (tmp_path / "rules.tbl").write_text("ACTION(DISCARD)")
    app = App()
    app.dead_letter_handler(tmp_path / "rules.tbl")

    async with mq.run(app):
        put(mq, b"one")
        await anyio.sleep(1)
        mq.faults.add(Fault(verb="MQCMIT", moment=Moment.AFTER))
        put(mq, b"two")
        await anyio.sleep(5)
        mq.mqsc(f"ALTER QLOCAL({DLQ}) GET(DISABLED)")
        await anyio.sleep(5)

    assert ["line 1"] == acted(mq)
    assert [DLQ] == [event.queue for event in mq.told(InDoubt)]
    assert [DLQ] == [event.queue for event in mq.told(Warned) if "The DLQ handler waits" in event.text]
    assert 0 == mq.depth(DLQ)


async def test_attempts_go_on_over_an_outage(mq: QueueManagerKit, table: Path) -> None:
    mq.mqsc("ALTER QLOCAL(ORDERS.IN) PUT(DISABLED)")
    put(mq, b"one")
    app = App()
    app.dead_letter_handler(table)

    async with mq.run(app):
        await anyio.sleep(1)
        with mq.faults.outage():
            await anyio.sleep(20)
        mq.mqsc("ALTER QLOCAL(ORDERS.IN) PUT(ENABLED)")
        await anyio.sleep(60)

    tried = mq.told(DeadLetterActed)
    assert Reason.PUT_INHIBITED == tried[0].reason
    assert 0 == tried[-1].reason
    assert [1, 2] == sorted({event.attempt for event in tried})[:2]


async def test_python_rules_come_before_the_table(mq: QueueManagerKit, table: Path) -> None:
    app = App()
    dead_letters = app.dead_letter_handler(table)

    @dead_letters.rule(Action.FWD, forward_queue="OTHER", keep_header=False)
    def urgent(letter: DeadLetter) -> bool:
        return letter.data.endswith(b"urgent")

    async with mq.run(app):
        put(mq, b"urgent")
        put(mq, b"not so")
        await anyio.sleep(1)

    assert ["urgent", "line 2"] == acted(mq)


async def test_a_table_that_changes_applies_at_once(mq: QueueManagerKit, table: Path) -> None:
    app = App()
    app.dead_letter_handler(table, reload=True)

    async with mq.run(app):
        await anyio.sleep(2)
        change(table, f"INPUTQ({DLQ})\nACTION(FWD) FWDQ(OTHER)\n")
        await anyio.sleep(2)
        put(mq, b"one")
        await anyio.sleep(2)
        change(table, "ACTION(NONSENSE)")
        await anyio.sleep(2)
        put(mq, b"two")
        await anyio.sleep(2)

    assert ["line 2", "line 2"] == acted(mq)
    assert ["OTHER", "OTHER"] == [queue_of(event) for event in mq.told(DeadLetterActed)]


async def test_a_table_that_changes_counts_from_the_next_start_on(mq: QueueManagerKit, table: Path) -> None:
    """Source: IBM, "Processing the rules table", "changes do not come into effect until the DLQ handler is restarted"."""
    app = App()
    app.dead_letter_handler(table)
    async with mq.run(app):
        await anyio.sleep(2)
        change(table, f"INPUTQ({DLQ})\nACTION(FWD) FWDQ(OTHER)\n")
        await anyio.sleep(60)
        put(mq, b"one")
        await anyio.sleep(2)
    started_again = App()
    started_again.dead_letter_handler(table)
    async with mq.run(started_again):
        put(mq, b"two")
        await anyio.sleep(2)

    assert ["ORDERS.IN", "OTHER"] == [queue_of(event) for event in mq.told(DeadLetterActed)]


def change(table: Path, text: str) -> None:
    table.write_text(text)
    os.utime(table, ns=(len(text), len(text)))  # a later time stamp, also on a fast machine


def queue_of(event: Event) -> str:
    assert isinstance(event, DeadLetterActed)
    return getattr(event.intent, "queue", "")


async def test_a_queue_that_refuses_for_a_while_is_waited_for(mq: QueueManagerKit, table: Path) -> None:
    put(mq, b"one")
    app = App()
    app.dead_letter_handler(table)

    async with mq.run(app):
        await anyio.sleep(1)
        mq.mqsc(f"ALTER QLOCAL('{DLQ}') GET(DISABLED)")
        await anyio.sleep(20)
        mq.mqsc(f"ALTER QLOCAL('{DLQ}') GET(ENABLED)")
        put(mq, b"two")
        await anyio.sleep(20)

    assert 2 == len(acted(mq))
    assert 1 == sum("The DLQ handler waits" in event.text for event in mq.told(Warned))


async def test_wait_no_ends_the_handler_and_not_the_application(mq: QueueManagerKit, tmp_path: Path) -> None:
    (tmp_path / "rules.tbl").write_text("WAIT(NO)\nACTION(DISCARD)")
    app = App()
    app.dead_letter_handler(tmp_path / "rules.tbl", queue=DLQ)
    seen: list[bytes] = []

    @app.listener("ORDERS.IN")
    async def take(order: bytes) -> None:
        seen.append(order)

    async with mq.run(app) as running:
        await anyio.sleep(5)
        await running.put("ORDERS.IN", b"still there")
        await anyio.sleep(1)

    assert [b"still there"] == seen


def test_a_table_with_errors_is_refused_when_it_is_declared(tmp_path: Path) -> None:
    (tmp_path / "rules.tbl").write_text("ACTION(X)\nRETRY(0) ACTION(RETRY)")

    with pytest.raises(RulesError, match="line 1, column 8") as refused:
        App().dead_letter_handler(tmp_path / "rules.tbl")

    assert 2 == len(refused.value.problems)


def test_forward_needs_a_queue() -> None:
    with pytest.raises(ValueError, match="forward_queue"):
        App().dead_letter_handler().rule(Action.FWD)


@pytest.mark.parametrize("attempts", [0, -1, 1.5])
def test_a_rule_that_could_never_apply_is_refused(attempts: int) -> None:
    with pytest.raises(ValueError, match=r"attempts=.*: it takes a number, 1 or more"):
        App().dead_letter_handler().rule(Action.RETRY, attempts=attempts)


def test_a_session_with_a_thread_is_served_too_and_hooks_stay_on_the_loop(tmp_path: Path, backend: str) -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        carry_out(queue_manager.administration, [f"DEFINE QLOCAL('{DLQ}')"])
        connection = queue_manager.connect()
        for number, queue in enumerate(("STAYS", "GOES", "STAYS")):
            put_dead_letter(connection, DLQ, b"%d" % number, queue=queue)
        (tmp_path / "rules.tbl").write_text("WAIT(YES)\nDESTQ(STAYS) ACTION(IGNORE)\nACTION(DISCARD)")
        threads: set[int] = set()
        done = []

        def note(event: Event) -> None:
            if isinstance(event, DeadLetterActed):
                threads.add(threading.get_ident())
                done.append(event.rule)

        app = App(hooks=[note])
        app.dead_letter_handler(tmp_path / "rules.tbl", queue=DLQ)

        async def main() -> None:
            async with app.running(Blocking(queue_manager)):
                while len(done) < 3:  # noqa: ASYNC110 - bounded by the time limit of the test
                    await anyio.sleep(0.001)

        anyio.run(main, backend=backend)

        assert {threading.get_ident()} == threads
        assert ["line 2", "line 3", "line 2"] == done


@pytest.mark.parametrize("flowing", [0, 3], ids=["looked at first", "taken at once"])
async def test_a_letter_that_a_function_stumbles_over_stays_and_the_others_are_handled(
    mq: QueueManagerKit, tmp_path: Path, flowing: int
) -> None:
    last = tmp_path / "rules.tbl"
    last.write_text(f"INPUTQ({DLQ}) RETRYINT(5)\nACTION(DISCARD)\n")
    app = App()
    rules = app.dead_letter_handler(last)

    @rules.rule(Action.FWD, forward_queue="OTHER", keep_header=False)
    def is_urgent(letter: DeadLetter) -> bool:
        return bool(json.loads(letter.data[DLH_BYTES:])["urgent"])

    async with mq.run(app):
        for _ in range(flowing):
            put(mq, b'{"urgent":true}')
        put(mq, b'{"no":"such key"}')
        put(mq, b'{"urgent":true}')
        await anyio.sleep(60)

    assert [b'{"urgent":true}'] * (flowing + 1) == [found.body for found in mq.browse("OTHER")]
    assert [b'{"no":"such key"}'] == [found.body for found in mq.browse(DLQ)]
    [warning] = mq.told(Warned)
    assert "is_urgent" in warning.text
    assert "KeyError: 'urgent'" in warning.text


def test_a_function_that_would_match_every_letter_is_refused(table: Path) -> None:
    async def never(letter: DeadLetter) -> bool:
        return False

    with pytest.raises(ConfigurationError, match="never is async"):
        App().dead_letter_handler(table).rule(Action.DISCARD)(never)  # type: ignore[arg-type]  # the tested mistake


def spoil(table: Path) -> None:
    table.write_bytes(b"\xff\xfe* another encoding\n")


async def test_a_table_that_becomes_unreadable_leaves_the_rules_of_before(mq: QueueManagerKit, table: Path) -> None:
    app = App()
    app.dead_letter_handler(table, reload=True)

    async with mq.run(app):
        spoil(table)
        await anyio.sleep(60)
        put(mq, b"one")
        [back] = await mq.drain("ORDERS.IN")

    assert b"one" == back.body
