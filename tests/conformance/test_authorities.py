"""Authorities: 2035, and the authorities that calls need. Source: IBM, "Authorizations for MQI calls", SET AUTHREC; rc2035."""

from collections.abc import Callable

import pytest

from mqflow.embedded.mqsc import Verdict, run
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import CloseOption, GetOption, ObjectType, OpenOption, PutOption, QueueType
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import GetOptions, ObjectDescriptor
from tests.client_packages import PACKAGES
from tests.conformance.programs import Program
from tests.conformance.under_test import UnderTest, refused

OUTPUT, INPUT, BROWSE, INQUIRE, SET = (
    OpenOption.OUTPUT, OpenOption.INPUT_SHARED, OpenOption.BROWSE, OpenOption.INQUIRE, OpenOption.SET,
)  # fmt: skip
AS_ANOTHER = OpenOption.ALTERNATE_USER_AUTHORITY
Allow = Callable[..., None]


def named(text: str, error: MQIError) -> None:
    """Check that the error has this text. Through the client packages an error has only a number, and nothing is checked."""
    assert not error.detail or text in error.detail


@pytest.fixture
def allow(queue_manager: UnderTest) -> Allow:
    """Grant authorities on a queue (``Q=...``), or on the queue manager if the name is empty; by default to `tester`."""

    def give(name: str, words: str, *, to: str = "PRINCIPAL('tester')", word: str = "AUTHADD") -> None:
        what = f"PROFILE('{name}') OBJTYPE(QUEUE)" if name else "OBJTYPE(QMGR)"
        [response] = run(f"SET AUTHREC {what} {to} {word}({words})", queue_manager.administration).responses
        assert response.verdict is Verdict.DONE, response.text

    return give


@pytest.fixture
def tester(queue_manager: UnderTest, queue: str, allow: Allow) -> Program:
    """A program whose user has only the authority to connect."""
    allow("", "CONNECT")
    return Program(queue_manager, application_name="conformance", user="tester")


def test_until_there_is_an_authority_record_everybody_may_do_everything(program: Program, queue: str) -> None:
    program.put(queue, b"x")

    assert b"x" == program.got(queue).body


def test_a_user_without_authority_cannot_connect(queue_manager: UnderTest, allow: Allow) -> None:
    allow("", "INQ")

    with refused(Reason.NOT_AUTHORIZED) as raised:
        Program(queue_manager, user="tester")

    assert "MQCONNX" == raised.value.verb


def test_an_administrator_needs_no_authority_records(queue_manager: UnderTest, allow: Allow) -> None:
    allow("", "CONNECT")

    Program(queue_manager).open("SYSTEM.DEAD.LETTER.QUEUE")
    Program(queue_manager, user="mqm").open("SYSTEM.DEAD.LETTER.QUEUE")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param(INPUT, "GET", id="MQOO_INPUT_SHARED"),
        pytest.param(OpenOption.INPUT_AS_Q_DEF, "GET", id="MQOO_INPUT_AS_Q_DEF"),
        pytest.param(OpenOption.INPUT_EXCLUSIVE, "GET", id="MQOO_INPUT_EXCLUSIVE"),
        pytest.param(BROWSE, "BROWSE", id="MQOO_BROWSE"),
        pytest.param(INQUIRE, "INQ", id="MQOO_INQUIRE"),
        pytest.param(SET, "SET", id="MQOO_SET"),
        pytest.param(OUTPUT, "PUT", id="MQOO_OUTPUT"),
        pytest.param(OUTPUT | OpenOption.PASS_IDENTITY_CONTEXT, "PUT,PASSID", id="MQOO_PASS_IDENTITY_CONTEXT"),
        pytest.param(OUTPUT | OpenOption.PASS_ALL_CONTEXT, "PUT,PASSALL", id="MQOO_PASS_ALL_CONTEXT"),
        pytest.param(INPUT | BROWSE | OUTPUT | INQUIRE, "GET,BROWSE,PUT,INQ", id="everything at once"),
    ],
)
def test_an_open_needs_an_authority_for_each_of_its_options(
    tester: Program, queue: str, allow: Allow, options: OpenOption, words: str
) -> None:
    for missing in words.split(","):
        allow(queue, words)
        allow(queue, missing, word="AUTHRMV")
        with refused(Reason.NOT_AUTHORIZED) as raised:
            tester.open(queue, options)
        named(f"User tester lacks {missing} on queue {queue}", raised.value)

    allow(queue, words)
    tester.close(tester.open(queue, options))


@pytest.mark.parametrize(("option", "word"), [("SET_IDENTITY_CONTEXT", "SETID"), ("SET_ALL_CONTEXT", "SETALL")])
def test_to_set_context_is_a_matter_of_the_queue_and_of_the_queue_manager(
    tester: Program, queue: str, allow: Allow, option: str, word: str
) -> None:
    allow(queue, f"PUT,{word}")
    with refused(Reason.NOT_AUTHORIZED) as raised:
        tester.open(queue, OUTPUT | OpenOption[option])
    named(f"lacks {word} on the queue manager", raised.value)

    allow("", word)
    tester.open(queue, OUTPUT | OpenOption[option])


@pytest.mark.parametrize(
    ("option", "words"),
    [(PutOption.NONE, "PUT"), (PutOption.PASS_IDENTITY_CONTEXT, "PUT,PASSID"), (PutOption.PASS_ALL_CONTEXT, "PUT,PASSALL")],
)
def test_mqput1_needs_the_authorities_of_its_open(
    queue_manager: UnderTest, tester: Program, queue: str, allow: Allow, option: PutOption, words: str
) -> None:
    queue_manager.define("SOURCE")
    allow("SOURCE", "GET")
    Program(queue_manager).put("SOURCE", b"from")
    source = tester.open("SOURCE", INPUT | OpenOption.SAVE_ALL_CONTEXT)
    tester.got(source)
    put = option | PutOption.NO_SYNCPOINT
    for missing in words.split(","):
        allow(queue, words)
        allow(queue, missing, word="AUTHRMV")
        with refused(Reason.NOT_AUTHORIZED) as raised:
            tester.connection.put1(queue, MessageDescriptor(), b"", put, context=source)
        assert "MQPUT1" == raised.value.verb

    allow(queue, words)
    tester.connection.put1(queue, MessageDescriptor(), b"", put, context=source)

    assert 1 == queue_manager.depth(queue)


def test_a_user_with_inquire_can_inquire_the_queue_manager(tester: Program, allow: Allow) -> None:
    with refused(Reason.NOT_AUTHORIZED):
        tester.open("", INQUIRE, object_type=ObjectType.Q_MGR)

    allow("", "INQ")
    tester.open("", INQUIRE, object_type=ObjectType.Q_MGR)


def test_of_an_alias_the_alias_alone_is_checked(queue_manager: UnderTest, tester: Program, queue: str, allow: Allow) -> None:
    queue_manager.define_alias("ALIAS", queue)
    allow("ALIAS", "PUT")

    tester.connection.put(tester.open("ALIAS", OUTPUT), MessageDescriptor(), b"", PutOption.NO_SYNCPOINT)
    with refused(Reason.NOT_AUTHORIZED):
        tester.open(queue, OUTPUT)

    assert 1 == queue_manager.depth(queue)


def test_a_name_that_leads_nowhere_is_unknown_to_everybody(tester: Program) -> None:
    with refused(Reason.UNKNOWN_OBJECT_NAME):
        tester.open("NOT.THERE", OUTPUT)


def test_a_handle_outlives_the_authority_it_was_opened_with(tester: Program, queue: str, allow: Allow) -> None:
    """MQPUT and MQGET are not checked: "Four MQI calls might require authorization checks"."""
    allow(queue, "PUT,GET")
    handle = tester.open(queue, OUTPUT | INPUT)

    allow(queue, "ALL", word="AUTHRMV")
    tester.put(handle, b"x")

    assert b"x" == tester.got(handle).body


def test_the_most_specific_profile_counts_alone(queue_manager: UnderTest, tester: Program, allow: Allow) -> None:
    queue_manager.define("AB.CD")
    allow("AB.*", "PUT")
    allow("AB.C*", "GET")

    tester.open("AB.CD", INPUT)
    with refused(Reason.NOT_AUTHORIZED) as raised:
        tester.open("AB.CD", OUTPUT)

    named("PROFILE('AB.C*')", raised.value)  # a record of AB.CD itself would hide GET


def test_every_user_has_the_authorities_of_the_group_nobody(tester: Program, queue: str, allow: Allow) -> None:
    allow(queue, "PUT")
    allow(queue, "GET", to="GROUP('nobody')")

    tester.open(queue, OUTPUT | INPUT)


def test_a_user_with_altusr_uses_the_authority_of_another_user(tester: Program, queue: str, allow: Allow) -> None:
    allow(queue, "PUT", to="PRINCIPAL('other')")

    with refused(Reason.NOT_AUTHORIZED):
        tester.open(queue, OUTPUT, alternate_user="other")  # ignored without the option
    with refused(Reason.NOT_AUTHORIZED) as raised:
        tester.open(queue, OUTPUT | AS_ANOTHER, alternate_user="other")
    named("lacks ALTUSR on the queue manager", raised.value)

    allow("", "ALTUSR")
    tester.open(queue, OUTPUT | AS_ANOTHER, alternate_user="other")
    tester.connection.put1(
        ObjectDescriptor(queue, alternate_user="other"),
        MessageDescriptor(),
        b"",
        PutOption.NO_SYNCPOINT | PutOption.ALTERNATE_USER_AUTHORITY,
    )


def test_with_another_users_authority_ones_own_does_not_count(tester: Program, queue: str, allow: Allow) -> None:
    allow("", "ALTUSR")
    allow(queue, "PUT")

    with refused(Reason.NOT_AUTHORIZED):
        tester.open(queue, OUTPUT | AS_ANOTHER, alternate_user="other")
    with refused(Reason.NOT_AUTHORIZED):
        tester.open(queue, OUTPUT | AS_ANOTHER)


def test_context_is_checked_for_the_user_that_connected(tester: Program, queue: str, allow: Allow) -> None:
    """AlternateUserId: "some checks, however, are still carried out with the current user identifier"."""
    passing = OUTPUT | AS_ANOTHER | OpenOption.PASS_ALL_CONTEXT
    allow("", "ALTUSR")
    allow(queue, "PUT,PASSALL", to="PRINCIPAL('other')")
    with refused(Reason.NOT_AUTHORIZED) as raised:
        tester.open(queue, passing, alternate_user="other")
    named("User tester lacks PASSALL", raised.value)

    allow(queue, "PASSALL")
    tester.open(queue, passing, alternate_user="other")


def test_the_creator_of_a_dynamic_queue_has_every_authority_on_it(
    queue_manager: UnderTest, tester: Program, allow: Allow
) -> None:
    queue_manager.define("MODEL", kind=QueueType.MODEL, definition_type=3)
    with refused(Reason.NOT_AUTHORIZED):
        tester.open("MODEL", INPUT)
    allow("MODEL", "GET")
    replies = tester.open("MODEL", INPUT, dynamic_name="REPLIES.*")

    tester.open(replies.name, OUTPUT | BROWSE)

    allow("", "CONNECT", to="PRINCIPAL('other')")
    with refused(Reason.NOT_AUTHORIZED):
        Program(queue_manager, user="other").open(replies.name, OUTPUT)


def test_only_its_creator_or_a_user_with_dlt_deletes_a_permanent_dynamic_queue(
    queue_manager: UnderTest, tester: Program, allow: Allow
) -> None:
    queue_manager.define("MODEL", kind=QueueType.MODEL, definition_type=2)
    allow("MODEL", "GET")
    kept = tester.open("MODEL", INPUT, dynamic_name="KEPT")
    allow("", "CONNECT", to="PRINCIPAL('other')")
    allow("KEPT", "INQ", to="PRINCIPAL('other')")
    tester.close(kept)
    other = Program(queue_manager, user="other")
    theirs = other.open("KEPT", INQUIRE)

    with refused(Reason.NOT_AUTHORIZED) as raised:
        other.close(theirs, CloseOption.DELETE)
    assert "MQCLOSE" == raised.value.verb
    allow("KEPT", "DLT", to="PRINCIPAL('other')")
    other.close(theirs, CloseOption.DELETE)

    assert queue_manager.administration.queue("KEPT") is None


def test_get_is_no_browse(tester: Program, queue: str, allow: Allow) -> None:
    allow(queue, "GET")

    with refused(Reason.NOT_AUTHORIZED):
        tester.open(queue, INPUT | BROWSE)
    assert tester.connection.get(tester.open(queue, INPUT), GetOptions(options=GetOption.NO_SYNCPOINT)) is None


def test_records_survive_the_queue_manager(queue_manager: UnderTest, tester: Program, queue: str, allow: Allow) -> None:
    if queue_manager.restart is None:
        pytest.skip("nothing of this one survives")
    allow(queue, "PUT")
    tester.disconnect()

    again = Program(queue_manager.restart(), user="tester")

    again.open(queue, OUTPUT)
    with refused(Reason.NOT_AUTHORIZED):
        again.open(queue, INPUT)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """The name of the topic object at the root."""
    if request.node.callspec.params["queue_manager"] in PACKAGES:
        pytest.skip("the stand-in refuses topics before the queue manager sees them")
    return "SYSTEM.BASE.TOPIC"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (OUTPUT, "PUB"),
        (OUTPUT | OpenOption.PASS_IDENTITY_CONTEXT, "PUB,PASSID"),
        (OUTPUT | OpenOption.PASS_ALL_CONTEXT, "PUB,PASSALL"),
    ],
)
def test_to_publish_needs_authority_on_a_topic_object_above(
    queue_manager: UnderTest, topic: str, tester: Program, options: OpenOption, words: str
) -> None:
    def allow(how: str, words: str) -> None:
        command = f"SET AUTHREC PROFILE({topic}) OBJTYPE(TOPIC) PRINCIPAL('tester') {how}({words})"
        [response] = run(command, queue_manager.administration).responses
        assert response.verdict is Verdict.DONE, response.text

    for missing in words.split(","):
        allow("AUTHADD", words)
        allow("AUTHRMV", missing)
        with refused(Reason.NOT_AUTHORIZED) as raised:
            tester.open("", options, object_type=ObjectType.TOPIC, object_string="Prices/Fruit")
        named(f"User tester lacks {missing} on topic", raised.value)

    allow("AUTHADD", words)
    tester.open("", options, object_type=ObjectType.TOPIC, object_string="Prices/Fruit")
