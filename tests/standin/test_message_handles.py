"""Message handles and properties, by the packages: into a message with MQPUT, and out of it with MQGET."""

import pytest

from tests.standin.harness import Program, in_package

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
