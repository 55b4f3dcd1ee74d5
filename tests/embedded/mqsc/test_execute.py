"""The effect of commands on a queue manager's definitions, and the responses."""

import pytest
from msgspec.structs import replace

from mqflow.embedded.administration.interface import QueueStatistics, QueueStatus
from mqflow.embedded.mqsc import EXIT_FAILED, Response, Verdict, run
from mqflow.embedded.mqsc.report import lines_of, summary
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.errors import error_for
from mqflow.mqi.options import QueueType
from mqflow.mqi.reason_codes import Reason
from tests.embedded.mqsc.definitions import Definitions


def only(script: str, administration: Definitions) -> Response:
    [response] = run(script, administration).responses
    return response


def done(script: str, administration: Definitions) -> Response:
    response = only(script, administration)
    assert response.verdict is Verdict.DONE, response.text
    return response


def test_a_defined_queue_has_the_attributes_of_the_command(administration: Definitions) -> None:
    done("DEFINE QLOCAL('ORDERS.IN') BOTHRESH(3) BOQNAME('ORDERS.BOQ')", administration)

    queue = administration.by_name["ORDERS.IN"]
    assert (QueueType.LOCAL, 3, "ORDERS.BOQ") == (queue.kind, queue.backout_threshold, queue.backout_requeue_queue)


@pytest.mark.parametrize(
    ("noun", "default", "kind"),
    [
        ("QLOCAL", "SYSTEM.DEFAULT.LOCAL.QUEUE", QueueType.LOCAL),
        ("QALIAS", "SYSTEM.DEFAULT.ALIAS.QUEUE", QueueType.ALIAS),
        ("QMODEL", "SYSTEM.DEFAULT.MODEL.QUEUE", QueueType.MODEL),
    ],
)
def test_the_default_queue_gives_the_attributes_that_a_definition_leaves_out(
    noun: str, default: str, kind: QueueType, administration: Definitions
) -> None:
    administration.define(QueueAttributes(name=default, kind=kind, default_priority=7, description="default"))

    done(f"DEFINE {noun}(A) DESCR('mine')", administration)

    queue = administration.by_name["A"]
    assert (kind, 7, "mine") == (queue.kind, queue.default_priority, queue.description)


def test_a_model_queue_makes_temporary_queues_unless_it_says_otherwise(administration: Definitions) -> None:
    done("DEFINE QMODEL(A)", administration)

    assert administration.by_name["A"].definition_type == 3


def test_a_definition_like_another_takes_its_settings_and_not_its_history(administration: Definitions) -> None:
    administration.define(QueueAttributes(name="A", max_depth=10, depth=4, creation_date="2026-01-01", open_input_count=2))

    done("DEFINE QLOCAL(B) LIKE(A) BOTHRESH(5)", administration)

    assert QueueAttributes(name="B", max_depth=10, backout_threshold=5) == administration.by_name["B"]


def test_a_definition_that_replaces_gives_every_attribute_it_leaves_out_its_default(administration: Definitions) -> None:
    """IBM q020770: "not only the maximum message length, but also all the other attributes"."""
    administration.define(QueueAttributes(name="A", put_inhibited=True))

    done("DEFINE QLOCAL(A) MAXMSGL(10000) REPLACE", administration)

    assert QueueAttributes(name="A", max_message_bytes=10_000) == administration.by_name["A"]


def test_altering_leaves_every_other_attribute_as_it_is(administration: Definitions) -> None:
    """IBM q020770: "This command changes a single attribute ...; all the other attributes remain the same"."""
    before = QueueAttributes(name="A", put_inhibited=True)
    administration.define(before)

    done("ALTER QLOCAL(A) MAXMSGL(10000)", administration)

    assert replace(before, max_message_bytes=10_000) == administration.by_name["A"]


def test_defining_an_existing_queue_is_refused(administration: Definitions) -> None:
    administration.define(QueueAttributes(name="A", max_depth=1))

    response = only("DEFINE QLOCAL(A)", administration)

    assert (Verdict.FAILED, Reason.OBJECT_ALREADY_EXISTS) == (response.verdict, response.reason)
    assert response.text.startswith("AMQ8150: ")
    assert administration.by_name["A"].max_depth == 1


@pytest.mark.parametrize(
    ("command", "call"),
    [
        ("ALTER QLOCAL(A) MAXDEPTH(1)", ("alter", "A", False)),
        ("ALTER QLOCAL(A) MAXDEPTH(1) FORCE", ("alter", "A", True)),
        ("DELETE QLOCAL(A)", ("delete", "A", False)),
        ("DELETE QLOCAL(A) PURGE", ("delete", "A", True)),
        ("CLEAR QLOCAL(A)", ("clear", "A")),
    ],
)
def test_the_queue_manager_is_asked_for(command: str, call: tuple[object, ...], administration: Definitions) -> None:
    administration.define(QueueAttributes(name="A"))

    done(command, administration)

    assert [call] == administration.calls


@pytest.mark.parametrize(
    ("reason", "number"),
    [
        (Reason.OBJECT_IN_USE, "AMQ8148: "),
        (Reason.Q_NOT_EMPTY, "AMQ8143: "),
        (Reason.UNKNOWN_OBJECT_NAME, "AMQ8147: "),
        (Reason.NOT_AUTHORIZED, "DELETE on A (QM1) failed: "),
    ],
)
def test_a_refusal_of_the_queue_manager_is_reported_with_its_reason(
    reason: Reason, number: str, administration: Definitions
) -> None:
    administration.define(QueueAttributes(name="A"))
    administration.refusals["A"] = reason

    response = only("DELETE QLOCAL(A)", administration)

    assert (Verdict.FAILED, reason) == (response.verdict, response.reason)
    assert response.text.startswith(number)
    assert f"({int(reason)})" in response.text


@pytest.mark.parametrize(
    "command", ["ALTER QLOCAL(A) MAXDEPTH(1)", "DELETE QLOCAL(A)", "CLEAR QLOCAL(A)", "DEFINE QLOCAL(B) LIKE(A)"]
)
def test_a_queue_of_another_kind_is_not_touched(command: str, administration: Definitions) -> None:
    alias = QueueAttributes(name="A", kind=QueueType.ALIAS, target="T")
    administration.define(alias)

    response = only(command, administration)

    assert (Verdict.FAILED, Reason.OBJECT_TYPE_ERROR) == (response.verdict, response.reason)
    assert "It is a QALIAS, not a QLOCAL" in response.text
    assert {"A": alias} == administration.by_name


@pytest.mark.parametrize(
    "command",
    ["ALTER QLOCAL(A)", "DELETE QLOCAL(A)", "CLEAR QLOCAL(A)", "DEFINE QLOCAL(B) LIKE(A)", "DISPLAY QLOCAL(A)", "DIS QS(A*)"],
)
def test_a_queue_that_is_not_there_is_a_failure_with_its_name(command: str, administration: Definitions) -> None:
    response = only(command, administration)

    assert (Verdict.FAILED, Reason.UNKNOWN_OBJECT_NAME) == (response.verdict, response.reason)
    assert response.text.startswith("AMQ8147: ")
    assert " on A" in response.text


class Vanishing(Definitions):
    """The queue B is deleted after the queue manager has listed its queues."""

    def queue_status(self, name: str) -> QueueStatus:
        self._vanished(name)
        return QueueStatus(
            name=name, depth=0, open_input_count=0, open_output_count=0, uncommitted=0, oldest_message_age_s=None
        )

    def reset_queue_statistics(self, name: str) -> QueueStatistics:
        self._vanished(name)
        return super().reset_queue_statistics(name)

    def _vanished(self, name: str) -> None:
        if name == "B":
            raise error_for(Reason.UNKNOWN_OBJECT_NAME, "DISPLAY QSTATUS", name, "QM1")


@pytest.mark.parametrize("command", ["DISPLAY QSTATUS(*)", "RESET QSTATS(*)"])
def test_a_queue_that_is_deleted_meanwhile_hides_no_other_queue(command: str) -> None:
    """A reset that fails after the first queue loses the counts of this queue."""
    administration = Vanishing()
    for name in "ABC":
        administration.define(QueueAttributes(name=name))

    shown = done(command, administration).records

    assert ["A", "C"] == [record.cells[0].word for record in shown]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("DISPLAY QLOCAL(NOPE)", "DISPLAY QLOCAL on NOPE (QM1) failed"),
        ("DISPLAY QLOCAL(*) WHERE(MAXDEPTH GT 9)", "Nothing of this name passes the filter"),
        (
            "DISPLAY AUTHREC PRINCIPAL('bob')",
            "AMQ8147: DISPLAY AUTHREC (QM1) failed: MQRC_UNKNOWN_OBJECT_NAME (2085). Nothing matches the command.",
        ),
        (
            "DISPLAY SUB(NOPE)",
            "DISPLAY SUB on NOPE (QM1) failed: MQRC_UNKNOWN_OBJECT_NAME (2085). Nothing matches the command.",
        ),
        ("DISPLAY CONN(12)", "DISPLAY CONN on 12 (QM1) failed: MQRC_UNKNOWN_OBJECT_NAME (2085). Nothing matches the command."),
        (
            "DISPLAY TPSTATUS(NOPE)",
            "DISPLAY TPSTATUS on NOPE (QM1) failed: MQRC_UNKNOWN_OBJECT_NAME (2085). Nothing matches the command.",
        ),
        ("DISPLAY TPSTATUS('#') WHERE(SUBCOUNT GT 9)", "Nothing of this name passes the filter"),
    ],
)
def test_a_display_that_finds_nothing_says_what_was_asked(command: str, said: str, administration: Definitions) -> None:
    administration.define(QueueAttributes(name="A", max_depth=9))

    text = only(command, administration).text
    assert said in text
    assert ("or DEFINE it" in text) == ("QLOCAL(NOPE)" in command)


def test_the_status_of_an_alias_is_refused_with_its_kind(administration: Definitions) -> None:
    administration.define(QueueAttributes(name="A", kind=QueueType.ALIAS, target="T"))

    response = only("DISPLAY QSTATUS(A)", administration)

    assert Reason.OBJECT_TYPE_ERROR == response.reason
    assert "It is a QALIAS, not a QLOCAL" in response.text


def test_a_command_whose_event_cannot_be_put_has_succeeded() -> None:
    class WithoutEvents(Definitions):
        def report_command(self, text: str, *, shows: bool) -> None:
            raise error_for(Reason.CONNECTION_BROKEN, "MQSC", detail=f"{text}, shows={shows}")

    administration = WithoutEvents()

    done("DEFINE QLOCAL(A)", administration)

    assert ["A"] == list(administration.by_name)


@pytest.mark.parametrize(
    ("command", "reported"),
    [("ALTER QMGR KeyRPwd(secret) DESCR('a')", "ALTER QMGR KeyRPwd(******) DESCR('a')"),
     ("DEFINE CHANNEL(C) CHLTYPE(CLNTCONN) PASSWORD('se''cret') DESCR('a')",
      "DEFINE CHANNEL(C) CHLTYPE(CLNTCONN) PASSWORD(**********) DESCR('a')"),
     ("DEFINE AUTHINFO(L) AUTHTYPE(IDPWLDAP) CONNAME('h') ldappwd ( 'secret' )",
      "DEFINE AUTHINFO(L) AUTHTYPE(IDPWLDAP) CONNAME('h') ldappwd ( ******** )")],
)  # fmt: skip
def test_the_event_of_a_command_has_asterisks_for_a_secret(command: str, reported: str) -> None:
    events: list[tuple[str, bool]] = []

    class Reported(Definitions):
        def report_command(self, text: str, *, shows: bool) -> None:
            events.append((text, shows))

    done(command, Reported())

    assert [(reported, False)] == events


def test_deleting_an_unknown_queue_succeeds_with_ignstate(administration: Definitions) -> None:
    done("DELETE QLOCAL(A) IGNSTATE(YES)", administration)

    assert [] == administration.calls


def test_altering_the_queue_manager_changes_the_attributes_of_the_command(administration: Definitions) -> None:
    done("ALTER QMGR DEADQ(SYSTEM.DEAD.LETTER.QUEUE) CHLAUTH(DISABLED)", administration)

    assert "SYSTEM.DEAD.LETTER.QUEUE" == administration.queue_manager.dead_letter_queue


def test_ping_names_the_queue_manager(administration: Definitions) -> None:
    assert "AMQ8415: Queue manager QM1 answers." == done("PING QMGR", administration).text


def test_a_command_that_fails_does_not_stop_the_script(administration: Definitions) -> None:
    results = run("DELETE QLOCAL(NOPE)\nnonsense\nSET LOG\nDEFINE QLOCAL(A)", administration)

    assert [Verdict.FAILED, Verdict.SYNTAX_ERROR, Verdict.UNSUPPORTED, Verdict.DONE] == [
        response.verdict for response in results.responses
    ]
    assert ["A"] == list(administration.by_name)


def test_nothing_after_end_is_carried_out(administration: Definitions) -> None:
    run("DEFINE QLOCAL(A)\nEND\nDEFINE QLOCAL(B)", administration)

    assert ["A"] == list(administration.by_name)


@pytest.mark.parametrize(
    ("script", "code", "strict"),
    [
        ("DEFINE QLOCAL(A)", 0, 0),
        ("DEFINE QLOCAL(A) INDXTYPE(NONE)", 0, EXIT_FAILED),
        ("DEFINE COMMINFO(A)", 0, EXIT_FAILED),
        ("DELETE QLOCAL(NOPE)", EXIT_FAILED, EXIT_FAILED),
        ("nonsense", EXIT_FAILED, EXIT_FAILED),
    ],
)
def test_the_exit_code_of_a_script_shows_its_result(script: str, code: int, strict: int, administration: Definitions) -> None:
    results = run(script, administration)

    assert (code, strict) == (results.exit_code(), results.exit_code(strict=True))


def test_the_summary_counts_the_results_of_the_commands(administration: Definitions) -> None:
    script = "DEF QL(A) INDXTYPE(NONE)\nDEF QL(A)\nDEF QL(A) X\nDEF COMMINFO(A)\nDEF COMMINFO(B)"

    assert (
        "5 commands read.\n"
        "One command with a syntax error.\n"
        "One command could not be processed.\n"
        "2 commands not supported by the embedded queue manager yet: the script still defines its queues.\n"
        "1 attribute not supported yet and left out."
    ) == summary(run(script, administration))


def test_the_summary_of_a_script_without_trouble_says_so(administration: Definitions) -> None:
    assert ("One command read.\nNo command with a syntax error.\nAll valid commands were processed.") == summary(
        run("PING QMGR", administration)
    )


@pytest.mark.parametrize("reason", [Reason.CONNECTION_BROKEN, Reason.CALL_INTERRUPTED, Reason.Q_MGR_STOPPING])
def test_a_script_ends_when_its_connection_is_lost(reason: Reason, administration: Definitions) -> None:
    administration.refusals = {"A": reason}

    results = run("DEF QL(A)\nCLEAR QL(A)\nPING QMGR\nDEF QL(B)\nEND\nDEF QL(C)", administration)

    assert (EXIT_FAILED, 2, 2) == (results.exit_code(), len(results.responses), results.not_run)
    assert "2 commands did not run, because the connection is lost." == summary(results).splitlines()[-1]


def test_the_last_command_of_a_script_leaves_no_command_when_its_connection_is_lost(administration: Definitions) -> None:
    administration.refusals = {"A": Reason.CONNECTION_BROKEN}

    assert "One command could not be processed." == summary(run("DEF QL(A)\nCLEAR QL(A)", administration)).splitlines()[-1]


def test_a_mistake_is_shown_with_a_caret_under_it(administration: Definitions) -> None:
    source, caret, message = lines_of(only("DEFINE QLOCAL(A) MAXDEPTH(x)", administration))

    assert "x)" == source[caret.index("^") :]
    assert message.startswith("AMQ8405: Syntax error in line 1, column 27: MAXDEPTH(X) is not valid.")


def test_a_mistake_is_shown_without_the_passwords_of_its_line(administration: Definitions) -> None:
    command = "DEFINE CHANNEL(C) CHLTYPE(CLNTCONN) PASSWORD('secret') MAXDEPTH(1)"

    source, caret, _ = lines_of(only(command, administration))

    assert "PASSWORD(********) MAXDEPTH(1)" in source
    assert source.index("MAXDEPTH") == caret.index("^")


def test_a_mistake_far_into_a_long_line_is_shown_with_the_text_around_it(administration: Definitions) -> None:
    source, caret, _ = lines_of(only(f"DEFINE QLOCAL(A) DESCR('{'x' * 50}') {' ' * 500} NONSENSE", administration))

    assert "NONSENSE" == source[caret.index("^") :]
    assert len(source) < 130


def test_control_characters_of_a_script_are_not_printed(administration: Definitions) -> None:
    printed = "\n".join(lines_of(only("DEFINE QLOCAL(A) \x1b[31mRED\x07", administration)))

    assert printed.replace("\n", "").isprintable()
