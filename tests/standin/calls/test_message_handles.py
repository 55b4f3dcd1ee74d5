"""Message handles and properties, by the packages: into a message with MQPUT, and out of it with MQGET."""

import pytest

from tests.standin.harness import Program, only_in

pytestmark = pytest.mark.xdist_group("standin")


def test_properties_travel_from_one_message_handle_to_another(program: Program) -> None:
    queue, mq, c = program.open(), program.mq, program.c
    sent, received = mq.MessageHandle(program.manager), mq.MessageHandle(program.manager)
    sent.properties.set(b"colour", "blue")
    sent.properties.set(b"amount", 5, property_type=c.MQTYPE_INT32, value_length=4)
    pmo = mq.PMO(Version=3, NewMsgHandle=sent.msg_handle)
    queue.put(b"body", program.md(Format=b"MQSTR   "), pmo)
    gmo, md = program.gmo(c.MQGMO_PROPERTIES_IN_HANDLE, MsgHandle=received.msg_handle), program.md()

    body = queue.get(4, md, gmo)  # room for the body, and none for the properties

    assert (b"body", b"MQSTR   ") == (body, md.Format)
    assert ("blue", 5) == (received.properties.get(b"colour"), received.properties.get(b"amount"))


def test_properties_come_as_a_header_by_default(program: Program) -> None:
    queue, mq = program.open(), program.mq
    sent, md = mq.MessageHandle(program.manager), program.md()
    sent.properties.set(b"colour", "blue")
    queue.put(b"body", program.md(Format=b"MQSTR   "), mq.PMO(Version=3, NewMsgHandle=sent.msg_handle))

    body = queue.get(None, md, program.gmo())

    assert (b"MQHRF2  ", b"RFH ", b"body") == (md.Format, body[:4], body[-4:])
    assert b"<usr><colour>blue</colour></usr>" in body


def test_properties_can_be_left_behind(program: Program) -> None:
    queue, mq, md = program.open(), program.mq, program.md()
    sent = mq.MessageHandle(program.manager)
    sent.properties.set(b"colour", "blue")
    queue.put(b"body", program.md(Format=b"MQSTR   "), mq.PMO(Version=3, NewMsgHandle=sent.msg_handle))

    body = queue.get(None, md, program.gmo(program.c.MQGMO_NO_PROPERTIES))

    assert (b"MQSTR   ", b"body") == (md.Format, body)


def test_a_property_that_is_not_there_is_2471(program: Program) -> None:
    handle = program.mq.MessageHandle(program.manager)

    program.refused(program.c.MQRC_PROPERTY_NOT_AVAILABLE, lambda: handle.properties.get(b"nothing"))


def test_room_for_the_data_is_enough_with_properties_of_any_size(program: Program) -> None:
    queue, mq, c = program.open(), program.mq, program.c
    sent, received = mq.MessageHandle(program.manager), mq.MessageHandle(program.manager)
    sent.properties.set(b"long", "p" * 500)
    for body in (b"0123456789", b"next"):
        queue.put(body, program.md(), mq.PMO(Version=3, NewMsgHandle=sent.msg_handle))
    gmo = program.gmo(c.MQGMO_PROPERTIES_IN_HANDLE, MsgHandle=received.msg_handle)

    error = program.refused(c.MQRC_TRUNCATED_MSG_FAILED, lambda: queue.get(9, program.md(), gmo))
    assert (10, 2) == (error.original_length, program.depth())
    gmo.Options |= c.MQGMO_ACCEPT_TRUNCATED_MSG
    error = program.refused(c.MQRC_TRUNCATED_MSG_ACCEPTED, lambda: queue.get(9, program.md(), gmo))

    assert (b"012345678", 10, 1) == (error.message, error.original_length, program.depth())
    assert b"next" == queue.get(4, program.md(), gmo)


def test_a_message_without_properties_empties_the_handle(program: Program) -> None:
    queue, mq, c = program.open(), program.mq, program.c
    handle = mq.MessageHandle(program.manager)
    handle.properties.set(b"colour", "blue")
    queue.put(b"plain")

    queue.get(None, program.md(), program.gmo(c.MQGMO_PROPERTIES_IN_HANDLE, MsgHandle=handle.msg_handle))

    program.refused(c.MQRC_PROPERTY_NOT_AVAILABLE, lambda: handle.properties.get(b"colour"))


def test_properties_in_a_handle_need_version_4_of_the_options(program: Program) -> None:
    queue, c = program.open(), program.c

    gmo = program.mq.GMO(Version=3, Options=c.MQGMO_PROPERTIES_IN_HANDLE)

    program.refused(c.MQRC_WRONG_GMO_VERSION, lambda: queue.get(None, program.md(), gmo))


@only_in("ibmmq", "pymqi cannot inquire by a wildcard's name, nor delete")
def test_properties_are_found_by_a_wildcard_one_after_the_other_and_deleted(program: Program) -> None:
    c, handle = program.c, program.mq.MessageHandle(program.manager)
    for name, value in (("one", "1"), ("two", "2"), ("jms.Dst", "queue://Q")):
        handle.properties.set(name, value)

    first = handle.properties.get("usr.%", impo_options=c.MQIMPO_INQ_FIRST)
    second = handle.properties.get("usr.%", impo_options=c.MQIMPO_INQ_NEXT)
    program.refused(c.MQRC_PROPERTY_NOT_AVAILABLE, lambda: handle.properties.get("usr.%", impo_options=c.MQIMPO_INQ_NEXT))

    assert [("1", "one"), ("2", "two")] == [first, second]
    handle.properties.dlt("one")
    assert ("2", "two") == handle.properties.get("%")


@only_in("ibmmq", "pymqi cannot ask for a conversion of the type")
def test_a_property_is_converted_only_where_that_is_asked_for(program: Program) -> None:
    mq, c, handle = program.mq, program.c, program.mq.MessageHandle(program.manager)
    handle.properties.set("amount", "5")
    converting = mq.IMPO(Options=c.MQIMPO_CONVERT_TYPE)

    assert 5 == handle.properties.get("amount", impo=converting, property_type=c.MQTYPE_INT32)
    assert "5" == handle.properties.get("amount", property_type=c.MQTYPE_INT32)
    handle.properties.set("amount", "five")
    program.refused(
        c.MQRC_PROP_NUMBER_FORMAT_ERROR, lambda: handle.properties.get("amount", impo=converting, property_type=c.MQTYPE_INT32)
    )


def test_a_value_longer_than_its_buffer_says_how_long_it_is(program: Program) -> None:
    handle = program.mq.MessageHandle(program.manager)
    handle.properties.set(b"long", "x" * 100)

    program.refused(program.c.MQRC_PROPERTY_VALUE_TOO_BIG, lambda: handle.properties.get(b"long", max_value_length=10))

    assert "x" * 100 == handle.properties.get(b"long", max_value_length=100)


@only_in("pymqi", "ibmmq reads the headers itself where OpenTelemetry is installed, and fails before the call")
def test_data_that_only_look_like_properties_come_as_they_are_with_a_warning(program: Program) -> None:
    queue, c, md = program.open(), program.c, program.md()
    queue.put(b"RFH no header at all", program.md(Format=b"MQHRF2  "))

    error = program.refused(c.MQRC_RFH_FORMAT_ERROR, lambda: queue.get(100, md, program.gmo(c.MQGMO_NO_PROPERTIES)))

    assert (b"RFH no header at all", b"MQHRF2  ") == (error.message, md.Format)


def test_a_name_that_is_reserved_is_2442_where_names_are_validated(program: Program) -> None:
    mq, c = program.mq, program.c
    handle, free = mq.MessageHandle(program.manager), mq.MessageHandle(program.manager, mq.CMHO(Options=c.MQCMHO_NO_VALIDATION))

    program.refused(c.MQRC_PROPERTY_NAME_ERROR, lambda: handle.properties.set(b"JMSAnything", "x"))
    program.refused(c.MQRC_PROPERTY_TYPE_ERROR, lambda: handle.properties.set(b"a", "x", property_type=3))
    free.properties.set(b"JMSAnything", "x")

    assert "x" == free.properties.get(b"usr.JMSAnything")


def test_the_copy_options_of_a_property_travel_with_it(program: Program) -> None:
    queue, mq, c = program.open(), program.mq, program.c
    first, received = mq.MessageHandle(program.manager), mq.MessageHandle(program.manager)
    for name, copied in ((b"forwarded", c.MQCOPY_FORWARD), (b"answered", c.MQCOPY_REPLY), (b"usual", c.MQCOPY_DEFAULT)):
        first.properties.set(name, "x", pd=mq.PD(CopyOptions=copied))
    in_handle = program.gmo(c.MQGMO_PROPERTIES_IN_HANDLE, MsgHandle=received.msg_handle)
    queue.put(b"first", program.md(), mq.PMO(Version=3, OriginalMsgHandle=first.msg_handle))

    queue.get(None, program.md(), in_handle)
    queue.put(b"reply", program.md(), mq.PMO(Version=3, OriginalMsgHandle=received.msg_handle, Action=c.MQACTP_REPLY))
    queue.get(None, program.md(), in_handle)

    assert "x" == received.properties.get(b"answered")
    program.refused(c.MQRC_PROPERTY_NOT_AVAILABLE, lambda: received.properties.get(b"forwarded"))
    program.refused(c.MQRC_PROPERTY_NOT_AVAILABLE, lambda: received.properties.get(b"usual"))


def test_the_queue_decides_about_a_get_without_a_handle(program: Program) -> None:
    program.kit.define("HIDDEN", propctl="NONE")
    queue, mq, md = program.open(name="HIDDEN"), program.mq, program.md()
    sent, received = mq.MessageHandle(program.manager), mq.MessageHandle(program.manager)
    sent.properties.set(b"colour", "blue")
    for _ in range(2):
        queue.put(b"body", program.md(Format=b"MQSTR   "), mq.PMO(Version=3, NewMsgHandle=sent.msg_handle))

    assert (b"body", b"MQSTR   ") == (queue.get(None, md, program.gmo()), md.Format)
    assert b"body" == queue.get(None, program.md(), program.gmo(MsgHandle=received.msg_handle))
    assert "blue" == received.properties.get(b"colour")


def test_the_fields_of_the_descriptor_are_properties_of_a_message_got(program: Program) -> None:
    queue, mq, c = program.open(), program.mq, program.c
    handle, md = mq.MessageHandle(program.manager), program.md()
    queue.put(b"body", program.md(Priority=7))

    queue.get(None, md, program.gmo(c.MQGMO_PROPERTIES_IN_HANDLE, MsgHandle=handle.msg_handle))

    assert (7, md.MsgId) == (handle.properties.get(b"Root.MQMD.Priority"), handle.properties.get(b"JMSMessageID"))


@only_in("ibmmq", "pymqi has no name in return")
def test_a_property_is_shown_by_its_synonym_and_another_name_begins_again(program: Program) -> None:
    c, handle = program.c, program.mq.MessageHandle(program.manager)
    for name in ("one", "JMSType", "two"):
        handle.properties.set(name, name)

    found = [handle.properties.get("%", impo_options=c.MQIMPO_INQ_NEXT)[1] for _ in range(3)]
    anew = handle.properties.get("JMS%", impo_options=c.MQIMPO_INQ_NEXT)

    assert (["one", "JMSType", "two"], ("JMSType", "JMSType")) == (found, anew)


@only_in("ibmmq", "pymqi passes no options for where to set")
def test_a_property_is_set_and_deleted_at_the_cursor(program: Program) -> None:
    mq, c, handle = program.mq, program.c, program.mq.MessageHandle(program.manager)
    under, before = mq.SMPO(Options=c.MQSMPO_SET_PROP_UNDER_CURSOR), mq.SMPO(Options=c.MQSMPO_SET_PROP_BEFORE_CURSOR)
    program.refused(c.MQRC_PROPERTY_NOT_AVAILABLE, lambda: handle.properties.set("x", "x", smpo=under))
    handle.properties.set("a", "1")

    handle.properties.get("a")
    handle.properties.set("b", "2", smpo=under)
    handle.properties.set("c", "3", smpo=before)

    assert "2" == handle.properties.get("%", impo_options=c.MQIMPO_INQ_PROP_UNDER_CURSOR)[0]
    assert ("3", "c") == handle.properties.get("%", impo_options=c.MQIMPO_INQ_FIRST)
    program.refused(c.MQRC_PROPERTY_NOT_AVAILABLE, lambda: handle.properties.get("a"))


def test_the_descriptor_keeps_the_character_set_of_the_data_when_properties_are_put(program: Program) -> None:
    """A program puts its next message with the same MQMD: its UTF-16 text must not be called UTF-8 then."""
    queue, mq = program.open(), program.mq
    sent, md = mq.MessageHandle(program.manager), program.md(Format=b"MQSTR   ", CodedCharSetId=1200)
    sent.properties.set(b"colour", "blue")

    queue.put("first".encode("utf-16-le"), md, mq.PMO(Version=3, NewMsgHandle=sent.msg_handle))
    of_first = md.CodedCharSetId
    queue.put("second".encode("utf-16-le"), md)
    queue.get(None, program.md(), program.gmo(program.c.MQGMO_NO_PROPERTIES))
    got = program.md()
    queue.get(None, got, program.gmo())

    assert (1200, 1200) == (of_first, got.CodedCharSetId)
