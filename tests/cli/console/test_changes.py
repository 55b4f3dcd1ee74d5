"""The changes of the console without a browser: the counts of a plan, the result of a change, and the audit log."""

import json
import os
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mqflow import App
from mqflow.app.errors import ConfigurationError
from mqflow.cli.console.audit import AuditLog
from mqflow.cli.console.changes import ChangeResult, RefusedError, Row, UnfitBodyError, original_text
from mqflow.embedded import mqsc
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import OpenOption, PutOption
from mqflow.policy.poison.disposition_record import many_from_bytes
from mqflow.runtime.dead_letters.redriver import Target
from mqflow.testing.faults import Fault, Faults, Moment
from mqflow.testing.virtual_clock import VirtualClock
from mqflow.verbs import GetOptions, Got
from tests.cli.console.conftest import TEXT, UNDECODABLE, Bench


def audited(bench: Bench) -> list[dict[str, Any]]:
    return [json.loads(line) for line in bench.audit.read_text().splitlines()]


def test_a_redrive_of_all_messages_moves_and_records_each(bench: Bench) -> None:
    for body in (b"one", b"two"):
        bench.fail(body)
    bench.connection.put1("ORDERS.BOQ", TEXT, b"stray", PutOption.NO_SYNCPOINT)

    plan = bench.changes.plan_redrive("ORDERS.BOQ")
    done = bench.changes.redrive(plan, "amelie")

    why = "The message does not name the queue that it came from: give the target with --to QUEUE."
    rows = (Row("ORDERS.IN", 2), Row("no origin", 1, why))
    assert ("ORDERS.BOQ", "all messages", None, 2, rows) == (plan.queue, plan.what, plan.to, plan.messages, plan.rows)
    assert ChangeResult(queue="ORDERS.BOQ", what="all messages", moved=2, rows=rows[:1]) == done
    assert (2, 1) == bench.depths("ORDERS.IN", "ORDERS.BOQ")
    began, ended = audited(bench)
    name = began["redrive"]
    common = {"action": "redrive", "by": "amelie", "queue": "ORDERS.BOQ", "what": "all messages", "to": "origin"}
    assert common | {"event": "began", "messages": 2, "redrive": name, "at": began["at"]} == began
    counts = {"moved": 2, "stayed": 0, "in_doubt": 0, "gone": 0, "error": ""}
    assert common | counts | {"event": "ended", "redrive": name, "at": ended["at"]} == ended


def test_the_record_of_a_redrive_names_the_person_and_the_redrive(bench: Bench) -> None:
    assert 0 == mqsc.run("DEFINE QLOCAL(DISPOSED)", bench.queue_manager.administration).exit_code()
    bench.settings = replace(bench.settings, disposition_queue="DISPOSED")
    bench.use(None)
    bench.fail(b"one")

    bench.changes.redrive(bench.changes.plan_redrive("ORDERS.BOQ"), "amelie")

    got = bench.connection.get(bench.connection.open("DISPOSED", OpenOption.INPUT_SHARED), GetOptions())
    assert got is not None
    [record] = many_from_bytes(got.body)
    assert ("amelie moved it with the console", "mqflow console", audited(bench)[0]["redrive"]) == (
        record.exc_message,
        record.consumer,
        record.redrive_id,
    )


@pytest.mark.parametrize(("number", "to"), [(0, ""), (1, "OTHER.IN")])
def test_a_redrive_of_one_message_moves_only_this_one(bench: Bench, number: int, to: str) -> None:
    assert 0 == mqsc.run("DEFINE QLOCAL(OTHER.IN)", bench.queue_manager.administration).exit_code()
    identifiers = [bench.fail(body) for body in (b"one", b"two")]
    chosen = identifiers[number]

    plan = bench.changes.plan_redrive("ORDERS.BOQ", message_id=chosen, where=("error", "nothing"), to=to)
    done = bench.changes.redrive(plan, "amelie")

    assert (f"the message {chosen.hex()}", Target(to) if to else None, 1) == (plan.what, plan.to, plan.messages)
    assert (1, (Row(to or "ORDERS.IN", 1),)) == (done.moved, done.rows)
    assert (1, 1) == bench.depths("ORDERS.BOQ", to or "ORDERS.IN")


def test_a_condition_chooses_the_messages_that_meet_it(bench: Bench) -> None:
    bench.fail(b"one")
    bench.fail(b"two", UNDECODABLE)

    plan = bench.changes.plan_redrive("ORDERS.BOQ", where=("error", "DecodeError"))

    assert ("all messages with error=DecodeError", 1, (Row("ORDERS.IN", 1),)) == (plan.what, plan.messages, plan.rows)


def test_a_message_that_has_left_the_queue_is_gone(bench: Bench) -> None:
    bench.fail(b"one")
    plan = bench.changes.plan_redrive("ORDERS.BOQ")
    bench.changes.redrive(plan, "bert")
    bench.fail(b"later")

    again = bench.changes.redrive(plan, "amelie")

    assert ChangeResult(queue="ORDERS.BOQ", what="all messages", moved=0, rows=(), gone=1) == again
    assert {"moved": 0, "stayed": 0, "gone": 1}.items() <= audited(bench)[-1].items()
    assert (1, 1) == bench.depths("ORDERS.IN", "ORDERS.BOQ")


def test_a_message_that_is_refused_stays_and_is_counted(bench: Bench) -> None:
    bench.fail(b"one")
    plan = bench.changes.plan_redrive("ORDERS.BOQ")
    mqsc.run("ALTER QLOCAL(ORDERS.IN) PUT(DISABLED)", bench.queue_manager.administration)

    done = bench.changes.redrive(plan, "amelie")

    assert (0, 1) == bench.depths("ORDERS.IN", "ORDERS.BOQ")
    assert (0, True) == (done.moved, "2051" in done.error + "".join(row.why_not for row in done.rows))
    last = audited(bench)[-1]
    assert (0, done.error, sum(row.messages for row in done.rows if row.why_not)) == (
        last["moved"],
        last["error"],
        last["stayed"],
    )


def test_a_redrive_that_cannot_begin_counts_no_message_as_gone(bench: Bench) -> None:
    bench.fail(b"one")
    plan = bench.changes.plan_redrive("ORDERS.BOQ")
    mqsc.run("ALTER QLOCAL(ORDERS.BOQ) GET(DISABLED)", bench.queue_manager.administration)

    done = bench.changes.redrive(plan, "amelie")

    assert ChangeResult(queue="ORDERS.BOQ", what="all messages", moved=0, rows=(), gone=0, error=done.error) == done
    assert "MQRC_GET_INHIBITED (2016)" in done.error
    assert {"moved": 0, "stayed": 0, "gone": 0, "error": done.error}.items() <= audited(bench)[-1].items()


LOST_ANSWER = Fault(verb="MQCMIT", moment=Moment.AFTER, nth=2)


def test_a_message_whose_commit_gets_no_answer_is_neither_moved_nor_stayed_and_is_named(bench: Bench) -> None:
    identifiers = [bench.fail(body) for body in (b"one", b"two", b"three")]
    plan = bench.changes.plan_redrive("ORDERS.BOQ")
    bench.reached = Faults(LOST_ANSWER).wrap(bench.queue_manager)

    done = bench.changes.redrive(plan, "amelie")

    doubt = f"Nobody knows whether the commit took effect. Look for {identifiers[1].hex()} on both queues."
    assert (1, (Row("ORDERS.IN", 1), Row("ORDERS.IN", 1, doubt)), True) == (done.moved, done.rows, "2009" in done.error)
    assert {"moved": 1, "stayed": 0, "in_doubt": 1, "gone": 0, "error": done.error}.items() <= audited(bench)[-1].items()


def test_an_edit_whose_commit_gets_no_answer_is_neither_moved_nor_stayed(bench: Bench) -> None:
    plan = bench.changes.plan_edit("ORDERS.BOQ", bench.fail(b"one"), "two")
    bench.reached = Faults(replace(LOST_ANSWER, nth=1)).wrap(bench.queue_manager)

    done = bench.changes.edit(plan, "amelie")

    assert (0, True) == (done.moved, "Nobody knows whether the message moved" in done.rows[0].why_not)
    assert {"moved": 0, "stayed": 0, "in_doubt": 1, "gone": 0}.items() <= audited(bench)[-1].items()


@pytest.mark.parametrize("error", [ConfigurationError("There is no queue manager yet."), RuntimeError("a defect")])
def test_the_audit_log_has_the_end_of_each_change_that_it_has_the_begin_of(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    redrive = bench.changes.plan_redrive("ORDERS.BOQ")
    edit = bench.changes.plan_edit("ORDERS.BOQ", bench.fail(b"one"), "two")

    def refused() -> None:
        raise error

    monkeypatch.setattr(bench.desk, "opened", refused)

    with suppress(RuntimeError, ConfigurationError):
        bench.changes.redrive(redrive, "amelie")
    with suppress(RuntimeError, ConfigurationError):
        bench.changes.edit(edit, "amelie")

    assert ["began", "ended"] * 2 == [line["event"] for line in audited(bench)]
    assert [str(error) in line["error"] for line in audited(bench)[1::2]] == [True, True]


def test_a_change_whose_result_is_not_logged_says_what_moved(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.fail(b"one")
    plan = bench.changes.plan_redrive("ORDERS.BOQ")
    sync, full = os.fsync, iter((False, True))

    def synced(file: int) -> None:
        if next(full):
            raise OSError(28, "No space left on device")
        sync(file)

    monkeypatch.setattr("mqflow.cli.console.audit.os.fsync", synced)

    done = bench.changes.redrive(plan, "amelie")

    problem = f"The audit log {bench.audit} has no line with this result. No space left on device."
    assert (1, problem, (1,)) == (done.moved, done.not_logged, bench.depths("ORDERS.IN"))


def test_an_edit_puts_the_new_text_on_the_target_and_records_it(bench: Bench) -> None:
    identifier = bench.fail(b"one\r\nline")

    plan = bench.changes.plan_edit("ORDERS.BOQ", identifier, "two\r\nlines")
    done = bench.changes.edit(plan, "amelie")

    assert ("one\r\nline", "two\r\nlines", b"two\r\nlines", Target("ORDERS.IN")) == (
        plan.before, plan.after, plan.data, Target(plan.target.queue)
    )  # fmt: skip
    what = f"the edited message {identifier.hex()}"
    assert ("ORDERS.BOQ", what, 1, (Row(str(plan.target), 1),), 0, "") == (
        done.queue, done.what, done.moved, done.rows, done.gone, done.error
    )  # fmt: skip
    assert (1, 0) == bench.depths("ORDERS.IN", "ORDERS.BOQ")
    began, ended = audited(bench)
    facts = {"action": "edit", "by": "amelie", "queue": "ORDERS.BOQ", "what": identifier.hex(), "to": str(plan.target)}
    assert facts | {"event": "began", "messages": 1, "at": began["at"]} == began
    counts = {"moved": 1, "stayed": 0, "in_doubt": 0, "gone": 0, "error": ""}
    assert facts | counts | {"event": "ended", "at": ended["at"]} == ended


def test_an_edit_that_is_refused_moves_nothing_and_says_why(bench: Bench) -> None:
    identifier = bench.fail(b"one")
    plan = bench.changes.plan_edit("ORDERS.BOQ", identifier, "two")
    mqsc.run("ALTER QLOCAL(ORDERS.IN) PUT(DISABLED)", bench.queue_manager.administration)

    done = bench.changes.edit(plan, "amelie")

    assert (0, True, (Row(str(plan.target), 1, done.rows[0].why_not),)) == (
        done.moved,
        "2051" in done.rows[0].why_not,
        done.rows,
    )
    assert {"moved": 0, "stayed": 1, "error": done.rows[0].why_not}.items() <= audited(bench)[-1].items()
    assert (0, 1) == bench.depths("ORDERS.IN", "ORDERS.BOQ")


@pytest.mark.parametrize(
    ("body", "sent", "why"),
    [(b"one", "one", "The text has not changed. To move the message as it is, use Redrive."),
     (b"bell\x07", "bell", "A form of a browser cannot give this body back byte for byte. `mqflow edit` opens a text in your")],
)  # fmt: skip
def test_an_edit_that_makes_no_sense_is_refused(bench: Bench, body: bytes, sent: str, why: str) -> None:
    identifier = bench.fail(body)

    with pytest.raises(RefusedError) as refused:
        bench.changes.plan_edit("ORDERS.BOQ", identifier, sent)

    assert str(refused.value).startswith(why)


def test_an_edit_whose_check_by_the_application_raises_is_refused_with_the_error(bench: Bench) -> None:
    app = App()

    @app.listener("ORDERS.IN", where=lambda message: message.properties["usr.customer"] == "A")
    async def book(order: str) -> None: ...

    bench.use(app)
    identifier = bench.fail(b"one")

    with pytest.raises(UnfitBodyError, match=r"^The message cannot be put back like this: KeyError: 'usr.customer'$"):
        bench.changes.plan_edit("ORDERS.BOQ", identifier, "two")


def test_one_of_several_messages_with_a_msgid_is_not_edited(bench: Bench) -> None:
    twin = MessageDescriptor(format="MQSTR", ccsid=1208, message_id=b"\xab" * 24)
    for body in (b"one", b"two"):
        bench.fail(body, descriptor=twin)

    with pytest.raises(RefusedError, match=r"^2 messages on ORDERS.BOQ have this MsgId, so the console does not edit one"):
        bench.changes.editable("ORDERS.BOQ", twin.message_id)


def test_a_message_without_an_origin_needs_a_target(bench: Bench) -> None:
    stray = bench.connection.put1("ORDERS.BOQ", TEXT, b"stray", PutOption.NO_SYNCPOINT).descriptor.message_id

    with pytest.raises(RefusedError, match=r"^The message does not name the queue .*: give the target queue\.$"):
        bench.changes.editable("ORDERS.BOQ", stray)
    _, text, target = bench.changes.editable("ORDERS.BOQ", stray, to="ORDERS.IN")
    assert ("stray", Target("ORDERS.IN")) == (text, target)


@pytest.mark.parametrize(("size", "editable"), [(1_000_000, True), (1_000_001, False)])
def test_a_body_of_a_million_bytes_is_the_longest_that_is_edited(size: int, *, editable: bool) -> None:
    assert editable is (original_text(Got(descriptor=TEXT, body=b"x" * size, data_bytes=size)) is not None)


def test_the_audit_log_appends_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    clock = VirtualClock()
    for number in range(2):
        AuditLog(tmp_path / "log", clock).write(number=number, data=b"\xab")

    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [{"number": number, "data": "ab"} for number in range(2)] == [
        {name: value for name, value in line.items() if name != "at"} for line in lines
    ]
    assert 0o600 == (tmp_path / "log").stat().st_mode & 0o777
    with pytest.raises(
        ConfigurationError, match=r"cannot be written: No such file or directory\. Name another with --audit\.$"
    ):
        AuditLog(tmp_path / "nowhere" / "log", clock)


def test_messages_of_a_plan_are_counted_by_identity(bench: Bench) -> None:
    twin = MessageDescriptor(format="MQSTR", ccsid=1208, message_id=b"\xab" * 24)
    for _ in range(2):
        bench.fail(b"same", descriptor=twin)

    plan = bench.changes.plan_redrive("ORDERS.BOQ")

    assert (2, 2) == (plan.messages, Counter(plan.identities).total())
    assert 2 == bench.changes.redrive(plan, "amelie").moved


def test_a_redrive_of_a_group_moves_no_message_of_another_group_with_the_same_identifiers(bench: Bench) -> None:
    twin = MessageDescriptor(format="MQSTR", ccsid=1208, message_id=b"\xab" * 24)
    bench.fail(b"price", descriptor=twin)
    bench.fail(b"{", UNDECODABLE, descriptor=twin)
    [chosen] = [each for each in bench.desk.groups("ORDERS.BOQ").groups if each.exception == "DecodeError"]

    done = bench.changes.redrive(bench.changes.plan_redrive("ORDERS.BOQ", group=chosen.name), "amelie")

    [left] = bench.desk.groups("ORDERS.BOQ").groups
    assert (1, "ValueError") == (done.moved, left.exception)


def test_a_line_of_the_audit_log_is_written_whole_or_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = AuditLog(tmp_path / "log", VirtualClock())
    monkeypatch.setattr("os.write", lambda _, data: len(data) - 1)

    with pytest.raises(OSError, match="took only a part of a line"):
        log.write(number=1)


def test_a_line_that_was_cut_off_spoils_no_other_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, write = AuditLog(tmp_path / "log", VirtualClock()), os.write
    with monkeypatch.context() as patched, suppress(OSError):
        patched.setattr("os.write", lambda file, data: write(file, data[:9]))
        log.write(number=1)

    log.write(number=2)
    AuditLog(tmp_path / "log", VirtualClock()).write(number=3)

    _, *lines = (tmp_path / "log").read_text().splitlines()
    assert [2, 3] == [json.loads(line)["number"] for line in lines]


def test_a_text_that_the_character_set_of_the_message_does_not_have_is_refused(bench: Bench) -> None:
    identifier = bench.fail(b"one", descriptor=MessageDescriptor(format="MQSTR", ccsid=819))

    with pytest.raises(RefusedError, match=r"^The message cannot be put back like this: "):
        bench.changes.plan_edit("ORDERS.BOQ", identifier, "\u20ac")
