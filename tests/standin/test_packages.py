"""The real ibmmq and pymqi on the embedded queue manager: what a program that uses them sees.

First what no public suite of theirs notices, from IBM's documentation; then the rest of a program's day.
"""

import threading
from collections.abc import Mapping

import pytest

from mqflow.standin import install
from tests.standin.harness import Program, in_ibmmq, in_package

pytestmark = pytest.mark.xdist_group("standin")


@in_package
def test_a_message_put_is_got_with_its_descriptor(program: Program) -> None:
    queue, got = program.open(), program.md()

    queue.put(b"hello", program.md(CorrelId=b"c" * 24, Format=b"MQSTR   "))

    assert b"hello" == queue.get(None, got, program.gmo())
    assert (b"c" * 24, b"MQSTR   ") == (got.CorrelId, got.Format)
    assert got.MsgId != bytes(24)


@in_package
def test_each_backout_of_a_get_adds_one_to_the_backout_count(program: Program) -> None:
    queue = program.open()
    queue.put(b"poison")
    counts = []

    for _ in range(3):
        md = program.md()
        queue.get(None, md, program.gmo(program.c.MQGMO_SYNCPOINT))
        counts.append(md.BackoutCount)
        program.manager.backout()

    assert [0, 1, 2] == counts


@in_package
def test_the_backout_count_is_kept_in_a_version_1_descriptor_as_well(program: Program) -> None:
    queue, md = program.open(), program.mq.MD(Version=1)
    queue.put(b"poison")
    queue.get(None, program.md(), program.gmo(program.c.MQGMO_SYNCPOINT))
    program.manager.backout()

    queue.get(None, md, program.gmo())

    assert 1 == md.BackoutCount


@in_package
def test_disconnecting_commits_the_unit_of_work(program: Program) -> None:
    pmo = program.mq.PMO(Options=program.c.MQPMO_SYNCPOINT)
    program.manager.put1(b"Q", b"in doubt", program.md(), pmo)
    assert 1 == program.depth()

    program.manager.disconnect()

    assert b"in doubt" == program.open(manager=program.other).get()


@in_package
def test_losing_the_last_reference_to_a_connection_commits_too(program: Program) -> None:
    pmo = program.mq.PMO(Options=program.c.MQPMO_SYNCPOINT)
    manager = program.connect()
    manager.put1(b"Q", b"by accident", program.md(), pmo)

    del manager

    assert b"by accident" == program.open().get()


@in_package
def test_a_message_that_is_cut_off_is_gone_when_truncation_is_accepted(program: Program) -> None:
    queue, c = program.open(), program.c
    queue.put(b"0123456789")

    error = program.refused(
        c.MQRC_TRUNCATED_MSG_ACCEPTED, lambda: queue.get(4, None, program.gmo(c.MQGMO_ACCEPT_TRUNCATED_MSG))
    )

    assert (c.MQCC_WARNING, b"0123", 10) == (error.comp, error.message, error.original_length)
    assert 0 == program.depth()


@in_package
def test_a_message_that_does_not_fit_stays_when_truncation_is_not_accepted(program: Program) -> None:
    queue, c = program.open(), program.c
    queue.put(b"0123456789")

    error = program.refused(c.MQRC_TRUNCATED_MSG_FAILED, lambda: queue.get(4, None, program.gmo()))

    assert (c.MQCC_WARNING, 10) == (error.comp, error.original_length)
    assert b"0123456789" == queue.get()


@in_package
def test_a_message_longer_than_the_packages_first_buffer_is_got_whole(program: Program) -> None:
    queue = program.open()
    queue.put(b"x" * 100_000)

    assert b"x" * 100_000 == queue.get()


@in_package
def test_a_temporary_dynamic_queue_goes_with_the_handle_that_made_it(program: Program) -> None:
    program.kit.define("MODEL", "QMODEL", deftype="TEMPDYN")
    mq, c = program.mq, program.c
    od = mq.OD(ObjectName=b"MODEL", DynamicQName=b"REPLY.*")
    queue = mq.Queue(program.manager, od, c.MQOO_INPUT_EXCLUSIVE | c.MQOO_OUTPUT)
    names = [each.name for each in program.kit.queue_manager.administration.queues() if each.name.startswith("REPLY.")]

    queue.close()

    assert [od.ObjectName.decode().rstrip("\0 ")] == names
    program.refused(c.MQRC_UNKNOWN_OBJECT_NAME, lambda: program.open(c.MQOO_OUTPUT, names[0]))


@in_package
def test_a_queue_open_exclusively_cannot_be_opened_for_input(program: Program) -> None:
    c = program.c
    held = program.open(c.MQOO_INPUT_EXCLUSIVE)

    program.refused(c.MQRC_OBJECT_IN_USE, lambda: program.open(c.MQOO_INPUT_SHARED, manager=program.other))
    held.close()

    program.open(c.MQOO_INPUT_SHARED, manager=program.other)


@in_package
def test_a_queue_that_is_inhibited_for_gets_refuses_them_and_nothing_else(program: Program) -> None:
    queue, c = program.open(), program.c
    program.kit.mqsc("ALTER QLOCAL(Q) GET(DISABLED)")

    queue.put(b"stays")

    program.refused(c.MQRC_GET_INHIBITED, queue.get)
    program.kit.mqsc("ALTER QLOCAL(Q) GET(ENABLED)")
    assert b"stays" == queue.get()


@in_package
def test_text_is_converted_to_the_character_set_asked_for(program: Program) -> None:
    queue, c = program.open(), program.c
    queue.put("Grüße".encode("cp1252"), program.md(Format=b"MQSTR   ", CodedCharSetId=1252))
    md = program.md(CodedCharSetId=1208)

    body = queue.get(100, md, program.gmo(c.MQGMO_CONVERT))

    assert ("Grüße".encode(), 1208) == (body, md.CodedCharSetId)


@in_package
def test_what_cannot_be_converted_comes_as_it_is_with_a_warning(program: Program) -> None:
    queue, c = program.open(), program.c
    queue.put(b"\x00\x01", program.md(Format=b"MYFORMAT", CodedCharSetId=1252))
    md = program.md(CodedCharSetId=1208)

    error = program.refused(c.MQRC_FORMAT_ERROR, lambda: queue.get(100, md, program.gmo(c.MQGMO_CONVERT)))

    assert (c.MQCC_WARNING, b"\x00\x01") == (error.comp, error.message)
    assert 0 == program.depth()


@in_package
def test_nothing_there_is_2033_and_a_queue_that_is_not_there_2085(program: Program) -> None:
    queue, c = program.open(), program.c

    program.refused(c.MQRC_NO_MSG_AVAILABLE, queue.get)
    program.refused(c.MQRC_UNKNOWN_OBJECT_NAME, lambda: program.open(c.MQOO_OUTPUT, "NOWHERE"))


@in_package
def test_another_queue_manager_is_not_known(program: Program) -> None:
    manager = program.mq.QueueManager(None)

    program.refused(program.c.MQRC_Q_MGR_NAME_ERROR, lambda: manager.connect_with_options(b"QM2"))


@in_package
def test_a_put_under_syncpoint_shows_when_it_is_committed(program: Program) -> None:
    queue, reader = program.open(), program.open(manager=program.other)
    pmo = program.mq.PMO(Options=program.c.MQPMO_SYNCPOINT)

    queue.put(b"later", program.md(), pmo)
    program.refused(program.c.MQRC_NO_MSG_AVAILABLE, reader.get)
    program.manager.commit()

    assert b"later" == reader.get()


@in_package
def test_the_backout_settings_of_a_queue_are_inquired_blank_padded(program: Program) -> None:
    program.kit.define("ORDERS.IN", bothresh=3, boqname="ORDERS.BOQ")
    queue, c = program.open(name="ORDERS.IN"), program.c

    assert 3 == queue.inquire(c.MQIA_BACKOUT_THRESHOLD)
    assert b"ORDERS.BOQ".ljust(48) == queue.inquire(c.MQCA_BACKOUT_REQ_Q_NAME)


@in_package
def test_the_queue_manager_says_that_it_is_no_ibm_mq(program: Program) -> None:
    said = program.manager.inquire(program.c.MQCA_Q_MGR_DESC)

    assert b"not IBM MQ" in said


@in_package
def test_attributes_are_set(program: Program) -> None:
    c = program.c
    queue = program.open(c.MQOO_SET | c.MQOO_INQUIRE)

    queue.set(c.MQIA_INHIBIT_PUT, c.MQQA_PUT_INHIBITED)

    assert c.MQQA_PUT_INHIBITED == queue.inquire(c.MQIA_INHIBIT_PUT)
    program.refused(c.MQRC_PUT_INHIBITED, lambda: program.manager.put1(b"Q", b"no"))


@in_package
def test_browsing_leaves_messages_where_they_are(program: Program) -> None:
    queue, c = program.open(), program.c
    for body in (b"one", b"two"):
        queue.put(body)
    first, following = program.gmo(c.MQGMO_BROWSE_FIRST), program.gmo(c.MQGMO_BROWSE_NEXT)

    assert [b"one", b"two"] == [queue.get(None, program.md(), gmo) for gmo in (first, following)]
    assert b"two" == queue.get(None, program.md(), program.gmo(c.MQGMO_MSG_UNDER_CURSOR))
    assert b"one" == queue.get()


@in_package
def test_version_1_options_match_by_identifier_whatever_their_bytes_say(program: Program) -> None:
    queue, mq = program.open(), program.mq
    for index in range(2):
        queue.put(b"%d" % index, program.md(CorrelId=b"%d" % index * 24))

    body = queue.get(None, program.md(CorrelId=b"1" * 24), mq.GMO(Version=1, MatchOptions=0))

    assert b"1" == body


@in_package
def test_a_version_1_descriptor_gets_the_group_in_front_of_the_data(program: Program) -> None:
    queue, c, mq = program.open(), program.c, program.mq
    queue.put(b"member", program.md(GroupId=b"g" * 24, MsgSeqNumber=2, MsgFlags=c.MQMF_MSG_IN_GROUP, Format=b"MQSTR   "))
    md = mq.MD(Version=1)

    body = queue.get(None, md, program.gmo())

    assert (b"MQHMDE  ", b"MDE ", b"g" * 24, b"member") == (md.Format, body[:4], body[32:56], body[72:])


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
def test_subscribing_is_refused_as_not_supported(program: Program) -> None:
    mq, c = program.mq, program.c
    descriptor = mq.SD(Options=c.MQSO_CREATE + c.MQSO_MANAGED)
    descriptor.set_vs("ObjectString", b"Prices/IBM")
    subscription = mq.Subscription(program.manager)

    program.refused(c.MQRC_FUNCTION_NOT_SUPPORTED, lambda: subscription.sub(sub_desc=descriptor))


@in_package
def test_a_connection_that_shares_no_handles_belongs_to_its_thread(program: Program) -> None:
    manager = program.connect(program.c.MQCNO_HANDLE_SHARE_NONE) if program.is_pymqi else program.mq.QueueManager(b"QM1")
    reasons: list[int] = []

    def elsewhere() -> None:
        reasons.append(program.refused(program.c.MQRC_HCONN_ERROR, manager.commit).reason)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()

    assert [program.c.MQRC_HCONN_ERROR] == reasons
    manager.commit()


@in_package
def test_a_shared_connection_waits_for_the_call_of_another_thread(program: Program) -> None:
    queue, c = program.open(), program.c
    gmo = program.gmo(c.MQGMO_WAIT, WaitInterval=30_000)
    got: list[bytes] = []
    waiting = threading.Thread(target=lambda: got.append(queue.get(None, program.md(), gmo)))
    waiting.start()

    program.open(manager=program.other).put(b"at last")
    waiting.join()
    program.manager.commit()

    assert [b"at last"] == got


@in_package
def test_user_and_password_reach_the_library(program: Program) -> None:
    program.connect(user="alice", password="secret")  # noqa: S106 - of nobody

    asked = program.kit.requests[-1]
    assert ("alice", b"secret") == (asked.user, asked.security["CSPPassword"])
    assert "secret" not in repr(asked)


def _said(values: Mapping[str, int | str | bytes], *names: str) -> tuple[object, ...]:
    return tuple(value.rstrip(b"\0") if isinstance(value, bytes) else value for value in map(values.__getitem__, names))


@in_package
def test_what_the_channel_says_reaches_the_library(program: Program) -> None:
    mq, c = program.mq, program.c
    channel = mq.CD(ChannelName=b"TLS.SVRCONN", ConnectionName=b"mq.example(1414)", SSLCipherSpec=b"ANY_TLS12_OR_HIGHER")
    sco = mq.SCO(KeyRepository=b"/keys/app", CertificateLabel=b"app")
    manager = mq.QueueManager(None)

    manager.connect_with_options(b"QM1", opts=c.MQCNO_HANDLE_SHARE_BLOCK, cd=channel, sco=sco)

    asked = program.kit.requests[-1]
    assert (b"TLS.SVRCONN", b"ANY_TLS12_OR_HIGHER") == _said(asked.channel, "ChannelName", "SSLCipherSpec")
    assert (b"/keys/app", b"app") == _said(asked.tls, "KeyRepository", "CertificateLabel")


@in_package
def test_the_message_stays_when_its_consumers_process_ends(program: Program) -> None:
    queue, c = program.open(), program.c
    queue.put(b"kept")
    queue.get(None, program.md(), program.gmo(c.MQGMO_SYNCPOINT))

    program.kit.queue_manager.stop()

    program.refused(c.MQRC_Q_MGR_STOPPING, program.manager.backout)


@in_ibmmq("pymqi has no MQCB")
def test_a_callback_is_called_with_each_message_and_not_after_the_stop(program: Program) -> None:
    mq, c, queue = program.mq, program.c, program.open(program.c.MQOO_INPUT_AS_Q_DEF)
    bodies: list[bytes] = []
    enough = threading.Event()

    def consume(*, msg: bytes, cbc: object, md: object, gmo: object, queue: object, queue_manager: object) -> None:
        bodies.append(msg)
        if len(bodies) == 2:
            enough.set()

    gmo = program.gmo(c.MQGMO_WAIT | c.MQGMO_NO_SYNCPOINT, WaitInterval=c.MQWI_UNLIMITED)
    queue.cb(operation=c.MQOP_REGISTER, md=mq.MD(), gmo=gmo, cbd=mq.CBD(CallbackFunction=consume))
    program.manager.ctl(c.MQOP_START, mq.CTLO())
    for body in (b"one", b"two"):
        program.other.put1(b"Q", body)
    assert enough.wait(30)
    program.refused(c.MQRC_HCONN_ASYNC_ACTIVE, program.manager.commit)

    program.manager.ctl(c.MQOP_STOP, mq.CTLO())
    program.other.put1(b"Q", b"three")

    assert [b"one", b"two"] == bodies
    program.manager.commit()


@in_ibmmq("pymqi has no MQCB")
def test_a_callback_commits_its_own_unit_of_work(program: Program) -> None:
    mq, c, queue = program.mq, program.c, program.open(program.c.MQOO_INPUT_AS_Q_DEF)
    counts: list[int] = []
    done = threading.Event()

    def consume(*, md: object, queue_manager: object, **_: object) -> None:
        counts.append(md.BackoutCount)  # type: ignore[attr-defined]  # the package has no types
        if len(counts) == 1:
            queue_manager.backout()  # type: ignore[attr-defined]  # as above
        else:
            queue_manager.commit()  # type: ignore[attr-defined]  # as above
            done.set()

    gmo = program.gmo(c.MQGMO_WAIT | c.MQGMO_SYNCPOINT, WaitInterval=c.MQWI_UNLIMITED)
    queue.cb(operation=c.MQOP_REGISTER, md=mq.MD(), gmo=gmo, cbd=mq.CBD(CallbackFunction=consume))
    program.other.put1(b"Q", b"twice")
    program.manager.ctl(c.MQOP_START, mq.CTLO())

    assert done.wait(30)
    program.manager.ctl(c.MQOP_STOP, mq.CTLO())
    assert ([0, 1], 0) == (counts, program.depth())


@in_ibmmq("pymqi has no MQCB")
def test_an_event_handler_hears_that_the_queue_manager_stops(program: Program) -> None:
    mq, c, queue = program.mq, program.c, program.open(program.c.MQOO_INPUT_AS_Q_DEF)
    reasons: list[int] = []
    heard = threading.Event()

    def handle(*, cbc: object, **_: object) -> None:
        reasons.append(cbc.Reason)  # type: ignore[attr-defined]  # the package has no types
        heard.set()

    gmo = program.gmo(c.MQGMO_WAIT, WaitInterval=c.MQWI_UNLIMITED)
    queue.cb(operation=c.MQOP_REGISTER, md=mq.MD(), gmo=gmo, cbd=mq.CBD(CallbackFunction=lambda **_: None))
    handler = mq.CBD(CallbackFunction=handle, CallbackType=c.MQCBT_EVENT_HANDLER)
    program.manager.cb(operation=c.MQOP_REGISTER, cbd=handler)
    program.manager.ctl(c.MQOP_START, mq.CTLO())

    program.kit.queue_manager.stop()

    assert heard.wait(30)
    assert [c.MQRC_Q_MGR_STOPPING] == reasons


@in_ibmmq("pymqi is a client, which has as many connections as it wants")
def test_a_second_local_connection_of_a_thread_is_the_first_one(program: Program) -> None:
    first = program.mq.QueueManager(b"QM1")

    error = program.refused(program.c.MQRC_ALREADY_CONNECTED, lambda: program.mq.QueueManager(b"QM1"))

    assert program.c.MQCC_WARNING == error.comp
    first.commit()


@in_package
def test_no_call_of_another_thread_waits_where_blocking_is_not_wanted(program: Program) -> None:
    c = program.c
    manager = program.connect(c.MQCNO_HANDLE_SHARE_NO_BLOCK)
    queue = program.open(manager=manager)
    started, body = threading.Event(), []

    def wait() -> None:
        started.set()
        body.append(queue.get(None, program.md(), program.gmo(c.MQGMO_WAIT, WaitInterval=30_000)))

    waiting = threading.Thread(target=wait)
    waiting.start()
    started.wait()
    while not program.kit.queue_manager.administration.queue_status("Q").open_input_count:
        pass
    reasons: set[int] = set()
    while c.MQRC_CALL_IN_PROGRESS not in reasons:  # until the other thread is inside its call
        try:
            manager.commit()
        except program.mq.MQMIError as error:
            reasons.add(error.reason)
    program.other.put1(b"Q", b"go on")
    waiting.join()

    assert ({c.MQRC_CALL_IN_PROGRESS}, [b"go on"]) == (reasons, body)


@in_ibmmq("pymqi has no MQSTAT")
def test_asynchronous_puts_are_counted_for_mqstat(program: Program) -> None:
    pmo = program.mq.PMO(Options=program.c.MQPMO_ASYNC_RESPONSE)
    program.manager.put1(b"Q", b"body", program.md(), pmo)

    status = program.manager.stat(program.c.MQSTAT_TYPE_ASYNC_ERROR)

    assert (1, 0, 0) == (status.PutSuccessCount, status.PutWarningCount, status.PutFailureCount)


@in_package
def test_threads_with_a_handle_each_get_every_message_once(program: Program) -> None:
    queue, c = program.open(), program.c
    sent = [b"%d" % number for number in range(400)]
    for body in sent:
        queue.put(body)
    got: list[bytes] = []

    def consume() -> None:
        own = program.open(c.MQOO_INPUT_SHARED, manager=program.connect())
        while program.depth():
            try:
                got.append(own.get(None, program.md(), program.gmo(c.MQGMO_NO_SYNCPOINT)))
            except program.mq.MQMIError as error:
                if error.reason != c.MQRC_NO_MSG_AVAILABLE:
                    raise

    threads = [threading.Thread(target=consume) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(sent) == sorted(got)


@in_package
def test_what_fails_in_the_library_itself_is_2195(program: Program) -> None:
    def fail(request: object) -> None:
        raise ZeroDivisionError

    with install(program.kit.queue_manager, on_connect=fail):
        program.refused(program.c.MQRC_UNEXPECTED_ERROR, program.connect)


@in_package
def test_a_stand_in_that_was_withdrawn_is_no_queue_manager_any_more(program: Program) -> None:
    with install(program.kit.queue_manager):
        program.connect()

    program.refused(program.c.MQRC_Q_MGR_NOT_AVAILABLE, program.connect)
