"""Message handles and properties, by the packages: into a message with MQPUT, and out of it with MQGET."""

import pytest

from tests.standin.harness import Program, in_package, only_in

pytestmark = pytest.mark.xdist_group("standin")


@in_package
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


@in_package
def test_properties_come_as_a_header_where_nobody_asks_otherwise(program: Program) -> None:
    queue, mq = program.open(), program.mq
    sent, md = mq.MessageHandle(program.manager), program.md()
    sent.properties.set(b"colour", "blue")
    queue.put(b"body", program.md(Format=b"MQSTR   "), mq.PMO(Version=3, NewMsgHandle=sent.msg_handle))

    body = queue.get(None, md, program.gmo())

    assert (b"MQHRF2  ", b"RFH ", b"body") == (md.Format, body[:4], body[-4:])
    assert b"<usr><colour>blue</colour></usr>" in body


@in_package
def test_properties_can_be_left_behind(program: Program) -> None:
    queue, mq, md = program.open(), program.mq, program.md()
    sent = mq.MessageHandle(program.manager)
    sent.properties.set(b"colour", "blue")
    queue.put(b"body", program.md(Format=b"MQSTR   "), mq.PMO(Version=3, NewMsgHandle=sent.msg_handle))

    body = queue.get(None, md, program.gmo(program.c.MQGMO_NO_PROPERTIES))

    assert (b"MQSTR   ", b"body") == (md.Format, body)


@in_package
def test_a_property_that_is_not_there_is_2471(program: Program) -> None:
    handle = program.mq.MessageHandle(program.manager)

    program.refused(program.c.MQRC_PROPERTY_NOT_AVAILABLE, lambda: handle.properties.get(b"nothing"))


@in_package
def test_room_for_the_data_is_enough_whatever_the_properties_take(program: Program) -> None:
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


@in_package
def test_a_message_without_properties_empties_the_handle(program: Program) -> None:
    queue, mq, c = program.open(), program.mq, program.c
    handle = mq.MessageHandle(program.manager)
    handle.properties.set(b"colour", "blue")
    queue.put(b"plain")

    queue.get(None, program.md(), program.gmo(c.MQGMO_PROPERTIES_IN_HANDLE, MsgHandle=handle.msg_handle))

    program.refused(c.MQRC_PROPERTY_NOT_AVAILABLE, lambda: handle.properties.get(b"colour"))


@in_package
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
    program.refused(c.MQRC_PROP_CONV_NOT_SUPPORTED, lambda: handle.properties.get("amount", property_type=c.MQTYPE_INT32))


@in_package
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
