"""How a get shows message properties, by PROPCTL and by its options. The tests of `mqi` check the properties themselves.

Source: IBM q103350 (PropertyControl), q096760 (MsgHandle), "MQ Get Message Options" (property options), rc2421, rc2460.
"""

import pytest

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers.chain import join
from mqflow.mqi.headers.rfh2 import RFH2
from mqflow.mqi.headers.rfh2_folder import read_folder
from mqflow.mqi.options import Format, GetOption, PutOption
from mqflow.mqi.properties.rfh2_properties import PropertyControl, from_header, with_properties
from mqflow.mqi.properties.set import MessageProperty, PropertyType
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import Got
from tests.conformance.programs import Program
from tests.conformance.under_test import UnderTest, refused

COLOUR = MessageProperty(name="usr.colour", type=PropertyType.STRING, value="blue")
SIZE = MessageProperty(name="mq_usr.size", type=PropertyType.INT32, value=5)
TEXT = MessageDescriptor(format=Format.STRING, ccsid=1208)

IN_HANDLE = GetOption.PROPERTIES_IN_HANDLE
NO_PROPERTIES = GetOption.NO_PROPERTIES
FORCE = GetOption.PROPERTIES_FORCE_MQRFH2
COMPATIBILITY = GetOption.PROPERTIES_COMPATIBILITY


def put(program: Program, queue: str, *properties: MessageProperty, body: bytes = b"body") -> tuple[MessageDescriptor, bytes]:
    """Put a text with these properties, and return the body as put."""
    descriptor, data = with_properties(TEXT, body, properties)
    program.connection.put(program.handle(queue), descriptor, data, PutOption.NO_SYNCPOINT)
    return descriptor, data


def shown(got: Got) -> tuple[str, bytes, int, int]:
    return got.descriptor.format, got.body, got.data_bytes, got.reason


BARE = ("MQSTR", b"body", 4, Reason.NONE)

# The property_control of the queue; the properties of the message; whether a get shows them.
BY_QUEUE = (
    (PropertyControl.ALL, (COLOUR,), True),
    (PropertyControl.ALL, (SIZE,), True),
    (PropertyControl.FORCE_MQRFH2, (SIZE,), True),
    (PropertyControl.V6COMPAT, (SIZE,), True),
    (PropertyControl.NONE, (COLOUR,), False),
    (PropertyControl.COMPATIBILITY, (COLOUR, SIZE), True),
    (PropertyControl.COMPATIBILITY, (SIZE,), False),
)


@pytest.mark.parametrize(("control", "properties", "seen"), BY_QUEUE)
def test_a_get_that_says_nothing_shows_properties_as_the_queue_defines(
    queue_manager: UnderTest, program: Program, control: PropertyControl, properties: tuple[MessageProperty, ...], *, seen: bool
) -> None:
    queue_manager.define("Q", property_control=int(control))
    descriptor, data = put(program, "Q", *properties)
    got = program.got("Q")

    whole = (descriptor.format, data, len(data), Reason.NONE)
    assert (whole if seen else BARE, b"") == (shown(got), got.properties)


BY_OPTION = (
    (NO_PROPERTIES, (COLOUR,), False),
    (FORCE, (SIZE,), True),
    (COMPATIBILITY, (COLOUR,), True),
    (COMPATIBILITY, (SIZE,), False),
)


@pytest.mark.parametrize("control", PropertyControl)
@pytest.mark.parametrize(("option", "properties", "seen"), BY_OPTION)
def test_an_option_of_the_get_stands_over_the_queue(
    queue_manager: UnderTest,
    program: Program,
    control: PropertyControl,
    option: GetOption,
    properties: tuple[MessageProperty, ...],
    *,
    seen: bool,
) -> None:
    queue_manager.define("Q", property_control=int(control))
    _, data = put(program, "Q", *properties)

    assert (data if seen else b"body") == program.got("Q", option, message_handle=True).body


@pytest.mark.parametrize("control", [control for control in PropertyControl if control is not PropertyControl.FORCE_MQRFH2])
def test_a_message_handle_takes_all_properties_with_any_propctl(
    queue_manager: UnderTest, program: Program, control: PropertyControl
) -> None:
    queue_manager.define("Q", property_control=int(control))
    put(program, "Q", SIZE, COLOUR)
    got = program.got("Q", message_handle=True)

    assert (BARE, (SIZE, COLOUR)) == (shown(got), from_header(got.properties))


def test_only_a_queue_with_force_keeps_them_out_of_a_message_handle(queue_manager: UnderTest, program: Program) -> None:
    queue_manager.define("Q", property_control=int(PropertyControl.FORCE_MQRFH2))
    _, data = put(program, "Q", COLOUR)
    put(program, "Q", COLOUR)

    forced, asked = program.got("Q", message_handle=True), program.got("Q", IN_HANDLE, message_handle=True)
    assert (data, b"") == (forced.body, forced.properties)
    assert (b"body", (COLOUR,)) == (asked.body, from_header(asked.properties))


#: Properties that a reader accepts, but that no writer makes: they cannot be handed over apart from the data.
UNWRITABLE = {
    "a reference to a control character": "<usr><a>&#1;</a></usr>",
    "a name with an empty part": "<usr><a..b>1</a..b></usr>",
    "a name of 40 parts": f"<usr><{'.'.join('a' * 40)}>1</{'.'.join('a' * 40)}></usr>",
}


@pytest.mark.parametrize("raw", UNWRITABLE.values(), ids=UNWRITABLE.keys())
def test_a_message_whose_properties_do_not_fit_a_handle_comes_unchanged_and_does_not_block_the_queue(
    queue: str, program: Program, raw: str
) -> None:
    """2421. A program that can put a message must not stop the programs that get from the queue."""
    descriptor, data = join(TEXT, [RFH2(folders=(read_folder(raw),))], b"body")
    program.connection.put(program.handle(queue), descriptor, data, PutOption.NO_SYNCPOINT)
    got = program.got(queue, message_handle=True)

    assert (Format.RF_HEADER_2, data, Reason.RFH_FORMAT_ERROR, b"") == (
        got.descriptor.format, got.body, got.reason, got.properties,
    )  # fmt: skip


def test_properties_in_a_handle_need_one(queue: str, program: Program) -> None:
    """2460."""
    with refused(Reason.HMSG_ERROR):
        program.get(queue, IN_HANDLE)


def test_options_for_properties_exclude_each_other(queue: str, program: Program) -> None:
    """2046."""
    with refused(Reason.OPTIONS_ERROR):
        program.get(queue, NO_PROPERTIES | FORCE)


def test_propctl_of_the_opened_alias_decides_for_a_get(queue_manager: UnderTest, program: Program) -> None:
    queue_manager.define("Q", property_control=int(PropertyControl.ALL))
    queue_manager.define_alias("ALIAS", "Q", property_control=int(PropertyControl.NONE))
    put(program, "Q", COLOUR)
    handle = program.open("ALIAS")

    assert BARE == shown(program.got(handle))


def test_room_for_the_data_is_enough_where_properties_are_not_among_them(queue: str, program: Program) -> None:
    put(program, queue, COLOUR, body=b"0123456789")
    _, data = put(program, queue, COLOUR)

    failed = program.got(queue, NO_PROPERTIES, buffer_bytes_max=9)
    assert (Reason.TRUNCATED_MSG_FAILED, b"012345678", 10) == (failed.reason, failed.body, failed.data_bytes)
    fitted = program.got(queue, NO_PROPERTIES, buffer_bytes_max=10)
    assert (Reason.NONE, b"0123456789") == (fitted.reason, fitted.body)
    whole = program.got(queue, GetOption.ACCEPT_TRUNCATED_MSG, buffer_bytes_max=10)
    assert (Reason.TRUNCATED_MSG_ACCEPTED, data[:10], len(data)) == (whole.reason, whole.body, whole.data_bytes)


def test_properties_that_a_browse_hides_stay_in_the_message(queue: str, program: Program) -> None:
    _, data = put(program, queue, COLOUR)

    assert b"body" == program.got(queue, GetOption.BROWSE_FIRST | NO_PROPERTIES).body
    assert data == program.got(queue).body


def test_data_without_their_properties_are_converted(queue: str, program: Program) -> None:
    descriptor, data = with_properties(TEXT, "ü".encode(), (COLOUR,))
    program.connection.put(program.handle(queue), descriptor, data, PutOption.NO_SYNCPOINT)
    got = program.got(queue, GetOption.CONVERT | IN_HANDLE, message_handle=True, ccsid=819)

    assert ("MQSTR", b"\xfc", 819, (COLOUR,)) == (
        got.descriptor.format,
        got.body,
        got.descriptor.ccsid,
        from_header(got.properties),
    )


@pytest.mark.parametrize(("option", "reason"), [(NO_PROPERTIES, Reason.RFH_FORMAT_ERROR), (FORCE, Reason.NONE)])
def test_data_that_only_look_like_properties_come_as_they_are(
    queue: str, program: Program, option: GetOption, reason: Reason
) -> None:
    """The warning is 2421 if the get had to read the header."""
    program.put(queue, b"RFH no header", format="MQHRF2")

    assert ("MQHRF2", b"RFH no header", 13, reason) == shown(program.got(queue, option))
    assert program.get(queue) is None


def test_a_message_without_properties_has_none_in_a_handle_either(queue: str, program: Program) -> None:
    put(program, queue)
    got = program.got(queue, IN_HANDLE, message_handle=True)

    assert (BARE, b"") == (shown(got), got.properties)
