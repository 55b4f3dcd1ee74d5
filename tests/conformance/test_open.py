"""The refusals of MQOPEN, and the opens that exclude each other. Source: IBM, MQOPEN options; q049660 (alias events)."""

from collections.abc import Callable

import pytest

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, ObjectType, OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import GetOptions
from tests.conformance.programs import EVERYTHING, SELECTORS, Program
from tests.conformance.under_test import UnderTest, refused

SHARED = OpenOption.INPUT_SHARED
EXCLUSIVE = OpenOption.INPUT_EXCLUSIVE
AS_DEFINED = OpenOption.INPUT_AS_Q_DEF
BROWSE = OpenOption.BROWSE
OUTPUT = OpenOption.OUTPUT


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        pytest.param("NOT.THERE", Reason.UNKNOWN_OBJECT_NAME, id="no such queue"),
        pytest.param("q", Reason.UNKNOWN_OBJECT_NAME, id="names are case-sensitive"),
        pytest.param("A B", Reason.OBJECT_NAME_ERROR, id="embedded blank"),
        pytest.param("", Reason.OBJECT_NAME_ERROR, id="empty"),
        pytest.param("Q" * 49, Reason.OBJECT_NAME_ERROR, id="longer than 48"),
        pytest.param("Q-1", Reason.OBJECT_NAME_ERROR, id="a character that names do not have"),
        pytest.param("LOST.ALIAS", Reason.UNKNOWN_ALIAS_BASE_Q, id="alias of nothing"),
        pytest.param("ALIAS.OF.ALIAS", Reason.ALIAS_BASE_Q_TYPE_ERROR, id="alias of an alias, IBM q049660"),
    ],
)
def test_a_name_that_leads_nowhere(queue_manager: UnderTest, queue: str, program: Program, name: str, reason: Reason) -> None:
    queue_manager.define_alias("LOST.ALIAS", "NOT.THERE")
    queue_manager.define_alias("ALIAS", queue)
    queue_manager.define_alias("ALIAS.OF.ALIAS", "ALIAS")

    with refused(reason):
        program.open(name)


def test_a_name_of_48_characters_is_a_name(queue_manager: UnderTest, program: Program) -> None:
    queue_manager.define("Q" * 48)

    assert "Q" * 48 == program.open("Q" * 48).name


def test_a_refusal_is_a_sentence(program: Program) -> None:
    with refused(Reason.UNKNOWN_OBJECT_NAME) as raised:
        program.open("NOT.THERE")

    assert str(raised.value).startswith("MQOPEN on NOT.THERE (QM1) failed: MQRC_UNKNOWN_OBJECT_NAME (2085).")


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(OpenOption(0), id="nothing at all"),
        pytest.param(OpenOption.FAIL_IF_QUIESCING, id="no use of the object"),
        pytest.param(SHARED | EXCLUSIVE, id="two kinds of input"),
        pytest.param(AS_DEFINED | SHARED, id="as defined and shared"),
        pytest.param(OUTPUT | OpenOption.SAVE_ALL_CONTEXT, id="SAVE_ALL_CONTEXT without input"),
        pytest.param(BROWSE | OpenOption.SAVE_ALL_CONTEXT, id="SAVE_ALL_CONTEXT with browse only"),
        pytest.param(SHARED | OpenOption.PASS_ALL_CONTEXT, id="PASS_ALL_CONTEXT without output"),
        pytest.param(SHARED | OpenOption.SET_IDENTITY_CONTEXT, id="SET_IDENTITY_CONTEXT without output"),
        pytest.param(OUTPUT | OpenOption.BIND_ON_OPEN | OpenOption.BIND_NOT_FIXED, id="two ways to bind"),
        pytest.param(SHARED | OpenOption.READ_AHEAD | OpenOption.NO_READ_AHEAD, id="read ahead and not"),
        pytest.param(SHARED | OpenOption(0x40000000), id="an unknown option"),
    ],
)
def test_options_that_do_not_go_together_are_2046(queue: str, program: Program, options: OpenOption) -> None:
    with refused(Reason.OPTIONS_ERROR):
        program.open(queue, options)


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (SHARED, SHARED, None),
        (SHARED, EXCLUSIVE, Reason.OBJECT_IN_USE),
        (EXCLUSIVE, SHARED, Reason.OBJECT_IN_USE),
        (EXCLUSIVE, EXCLUSIVE, Reason.OBJECT_IN_USE),
        (EXCLUSIVE, AS_DEFINED, Reason.OBJECT_IN_USE),
        (EXCLUSIVE, BROWSE, None),
        (EXCLUSIVE, OUTPUT, None),
        (EXCLUSIVE, OpenOption.INQUIRE, None),
        (BROWSE, EXCLUSIVE, None),
        (OUTPUT, EXCLUSIVE, None),
        (AS_DEFINED, SHARED, None),
    ],
)
@pytest.mark.parametrize("same_connection", [True, False])
def test_input_handles_keep_each_other_out(
    queue: str,
    program: Program,
    other: Program,
    first: OpenOption,
    second: OpenOption,
    reason: Reason | None,
    *,
    same_connection: bool,
) -> None:
    program.open(queue, first)
    opener = program if same_connection else other

    if reason is None:
        opener.open(queue, second)
    else:
        with refused(reason):
            opener.open(queue, second)


def test_an_exclusive_open_through_an_alias_keeps_others_from_the_queue(
    queue_manager: UnderTest, queue: str, program: Program, other: Program
) -> None:
    queue_manager.define_alias("ALIAS", queue)
    program.open("ALIAS", EXCLUSIVE)

    with refused(Reason.OBJECT_IN_USE):
        other.open(queue, SHARED)


def test_closing_an_exclusive_handle_lets_others_in(queue: str, program: Program, other: Program) -> None:
    handle = program.open(queue, EXCLUSIVE)
    program.close(handle)

    other.open(queue, SHARED)


def test_disconnecting_closes_every_handle(queue: str, program: Program, other: Program) -> None:
    program.open(queue, EXCLUSIVE)
    program.disconnect()

    other.open(queue, SHARED)


def test_defsopt_decides_an_open_as_defined(queue_manager: UnderTest, program: Program, other: Program) -> None:
    queue_manager.define("EXCL", default_input_open_option=int(EXCLUSIVE))
    program.open("EXCL", AS_DEFINED)

    with refused(Reason.OBJECT_IN_USE):
        other.open("EXCL", SHARED)


def test_a_noshare_queue_is_opened_for_input_once(queue_manager: UnderTest, program: Program, other: Program) -> None:
    queue_manager.define("ONE", shareable=False)
    program.open("ONE", SHARED)

    with refused(Reason.OBJECT_IN_USE):
        other.open("ONE", SHARED)


def test_an_inhibited_queue_can_be_opened(queue_manager: UnderTest, program: Program) -> None:
    queue_manager.define("CLOSED", put_inhibited=True, get_inhibited=True)

    program.open("CLOSED", EVERYTHING)


@pytest.mark.parametrize(
    ("options", "use", "reason"),
    [
        pytest.param(OUTPUT, "get", Reason.NOT_OPEN_FOR_INPUT, id="get"),
        pytest.param(BROWSE, "get", Reason.NOT_OPEN_FOR_INPUT, id="get from a browse handle"),
        pytest.param(SHARED, "browse", Reason.NOT_OPEN_FOR_BROWSE, id="browse"),
        pytest.param(SHARED, "put", Reason.NOT_OPEN_FOR_OUTPUT, id="put"),
        pytest.param(SHARED, "inquire", Reason.NOT_OPEN_FOR_INQUIRE, id="inquire"),
        pytest.param(SHARED, "set", Reason.NOT_OPEN_FOR_SET, id="set"),
    ],
)
def test_a_handle_allows_only_the_calls_of_its_options(
    queue: str, program: Program, options: OpenOption, use: str, reason: Reason
) -> None:
    handle = program.open(queue, options)
    uses: dict[str, Callable[[], object]] = {
        "get": lambda: program.get(handle),
        "browse": lambda: program.browse(handle),
        "put": lambda: program.put(handle),
        "inquire": lambda: program.connection.inquire(handle, [SELECTORS["depth"]]),
        "set": lambda: program.connection.set(handle, {SELECTORS["get_inhibited"]: 1}),
    }

    with refused(reason):
        uses[use]()


@pytest.mark.parametrize(
    ("option", "right", "reason"),
    [
        (PutOption.PASS_IDENTITY_CONTEXT, OpenOption.PASS_IDENTITY_CONTEXT, Reason.NOT_OPEN_FOR_PASS_IDENT),
        (PutOption.PASS_ALL_CONTEXT, OpenOption.PASS_ALL_CONTEXT, Reason.NOT_OPEN_FOR_PASS_ALL),
        (PutOption.SET_IDENTITY_CONTEXT, OpenOption.SET_IDENTITY_CONTEXT, Reason.NOT_OPEN_FOR_SET_IDENT),
        (PutOption.SET_ALL_CONTEXT, OpenOption.SET_ALL_CONTEXT, Reason.NOT_OPEN_FOR_SET_ALL),
    ],
)
def test_a_context_option_needs_its_open_option(
    queue: str, program: Program, option: PutOption, right: OpenOption, reason: Reason
) -> None:
    handle = program.open(queue, OUTPUT)

    with refused(reason):
        program.put(handle, b"", option)


def test_more_handles_than_maxhands_are_2017(queue_manager: UnderTest, queue: str, program: Program) -> None:
    queue_manager.administration.alter_queue_manager({"max_handles": 2})
    program.open(queue)
    handle = program.open(queue)

    with refused(Reason.HANDLE_NOT_AVAILABLE):
        program.open(queue)

    program.close(handle)
    program.open(queue)


def test_another_queue_manager_cannot_be_reached(queue: str, program: Program) -> None:
    with refused(Reason.UNKNOWN_REMOTE_Q_MGR):
        program.open(queue, OUTPUT, queue_manager="ELSEWHERE")
    with refused(Reason.UNKNOWN_OBJECT_Q_MGR):
        program.open(queue, SHARED, queue_manager="ELSEWHERE")
    with refused(Reason.UNKNOWN_OBJECT_Q_MGR):  # rc2086; 2153 is for distribution lists
        program.open(queue, OUTPUT, queue_manager="NO NAME")
    with refused(Reason.UNKNOWN_OBJECT_Q_MGR):
        program.open(queue, OUTPUT, queue_manager="Q" * 49)
    with refused(Reason.UNKNOWN_OBJECT_Q_MGR):
        program.open("", OUTPUT, object_type=ObjectType.TOPIC, object_string="Prices", queue_manager="ELSEWHERE")
    for kind in (ObjectType.Q_MGR, ObjectType.NAMELIST, ObjectType.PROCESS):
        with refused(Reason.OPTION_NOT_VALID_FOR_TYPE):  # rc2045
            program.open("", OpenOption.INQUIRE, object_type=kind, queue_manager="ELSEWHERE")


def test_its_own_queue_manager_may_be_named(queue_manager: UnderTest, queue: str, program: Program) -> None:
    program.open(queue, OUTPUT, queue_manager=queue_manager.name)


@pytest.mark.parametrize("options", [OUTPUT, SHARED, BROWSE, OpenOption.SET])
def test_a_queue_manager_is_opened_for_inquire_only(program: Program, options: OpenOption) -> None:
    with refused(Reason.OPTION_NOT_VALID_FOR_TYPE):
        program.open("", options, object_type=ObjectType.Q_MGR)


def test_an_object_type_may_be_a_plain_number(queue: str, program: Program) -> None:
    program.open(queue, OUTPUT, object_type=1)
    program.open("", OpenOption.INQUIRE, object_type=5)


@pytest.mark.parametrize("object_type", [ObjectType.NAMELIST, ObjectType.PROCESS])
def test_there_are_no_objects_of_other_types(program: Program, object_type: ObjectType) -> None:
    with refused(Reason.UNKNOWN_OBJECT_NAME):
        program.open("ANY", OpenOption.INQUIRE, object_type=object_type)


def test_an_unknown_object_type_is_2043(queue: str, program: Program) -> None:
    with refused(Reason.OBJECT_TYPE_ERROR):
        program.open(queue, OUTPUT, object_type=99)


def test_a_handle_names_its_queue(queue_manager: UnderTest, queue: str, program: Program) -> None:
    queue_manager.define_alias("ALIAS", queue)
    handle = program.open("ALIAS")

    assert ("ALIAS", queue, EVERYTHING) == (handle.name, handle.resolved_queue, handle.options)


def test_a_put_and_a_get_through_an_alias_reach_the_queue(queue_manager: UnderTest, queue: str, program: Program) -> None:
    queue_manager.define_alias("ALIAS", queue)
    put = program.put("ALIAS", b"one")
    got = program.got("ALIAS")

    assert (queue, queue, b"one") == (put.resolved_queue, got.resolved_queue, got.body)


@pytest.mark.parametrize("inhibited", ["ALIAS", "Q"])
def test_a_put_is_refused_where_alias_or_queue_is_inhibited(
    queue_manager: UnderTest, queue: str, program: Program, inhibited: str
) -> None:
    queue_manager.define_alias("ALIAS", queue)
    handle = program.open("ALIAS")
    queue_manager.administration.alter(inhibited, {"put_inhibited": True})

    with refused(Reason.PUT_INHIBITED):
        program.put(handle, b"")


@pytest.mark.parametrize("inhibited", ["ALIAS", "Q"])
def test_a_get_is_refused_where_alias_or_queue_is_inhibited(
    queue_manager: UnderTest, queue: str, program: Program, inhibited: str
) -> None:
    queue_manager.define_alias("ALIAS", queue)
    program.put(queue, b"one")
    handle = program.open("ALIAS")
    queue_manager.administration.alter(inhibited, {"get_inhibited": True})

    with refused(Reason.GET_INHIBITED):
        program.get(handle)


def test_an_inhibited_alias_leaves_the_queue_itself_usable(queue_manager: UnderTest, queue: str, program: Program) -> None:
    queue_manager.define_alias("ALIAS", queue, put_inhibited=True, get_inhibited=True)
    program.put(queue, b"one")

    assert [b"one"] == program.bodies(queue)


def test_put1_to_an_inhibited_queue_is_2051(queue_manager: UnderTest, program: Program) -> None:
    queue_manager.define("CLOSED", put_inhibited=True)

    with refused(Reason.PUT_INHIBITED) as raised:
        program.connection.put1("CLOSED", MessageDescriptor(), b"", PutOption.NO_SYNCPOINT)

    assert "MQPUT1 on CLOSED" in str(raised.value)


def test_a_forced_alteration_makes_older_handles_2041(queue_manager: UnderTest, queue: str, program: Program) -> None:
    queue_manager.define("OTHER")
    queue_manager.define_alias("ALIAS", queue)
    handle = program.open("ALIAS")
    queue_manager.administration.alter("ALIAS", {"target": "OTHER"}, force=True)

    with refused(Reason.OBJECT_CHANGED):
        program.put(handle, b"")

    program.close(handle)
    assert "OTHER" == program.put(program.open("ALIAS"), b"").resolved_queue


def test_an_alteration_that_matters_to_open_handles_needs_force(queue_manager: UnderTest, queue: str, program: Program) -> None:
    queue_manager.define_alias("ALIAS", queue)
    program.open("ALIAS")

    with refused(Reason.OBJECT_IN_USE):
        queue_manager.administration.alter("ALIAS", {"target": "OTHER"})


def test_an_open_queue_cannot_be_deleted(queue_manager: UnderTest, queue: str, program: Program) -> None:
    program.open(queue)

    with refused(Reason.OBJECT_IN_USE):
        queue_manager.administration.delete(queue)


def test_a_get_through_a_browse_handle_with_input_too_is_fine(queue: str, program: Program) -> None:
    handle = program.open(queue, BROWSE | SHARED)
    program.put(queue, b"one")

    got = program.connection.get(handle, GetOptions(options=GetOption.NO_SYNCPOINT))

    assert got is not None
