"""The real ibmmq and pymqi on the embedded queue manager: the results that a program gets.

First the rules of IBM's documentation that no public suite of the packages checks; then the rest.
"""

import pytest

from mqflow.mqi.headers.descriptor_extension import DescriptorExtension, to_bytes
from tests.standin.harness import Program, only_in

pytestmark = pytest.mark.xdist_group("standin")


def test_a_message_put_is_got_with_its_descriptor(program: Program) -> None:
    queue, got = program.open(), program.md()

    queue.put(b"hello", program.md(CorrelId=b"c" * 24, Format=b"MQSTR   "))

    assert b"hello" == queue.get(None, got, program.gmo())
    assert (b"c" * 24, b"MQSTR   ") == (got.CorrelId, got.Format)
    assert got.MsgId != bytes(24)


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


def test_the_backout_count_is_kept_in_a_version_1_descriptor_as_well(program: Program) -> None:
    queue, md = program.open(), program.mq.MD(Version=1)
    queue.put(b"poison")
    queue.get(None, program.md(), program.gmo(program.c.MQGMO_SYNCPOINT))
    program.manager.backout()

    queue.get(None, md, program.gmo())

    assert 1 == md.BackoutCount


def test_disconnecting_commits_the_unit_of_work(program: Program) -> None:
    pmo = program.mq.PMO(Options=program.c.MQPMO_SYNCPOINT)
    program.manager.put1(b"Q", b"in doubt", program.md(), pmo)
    assert 1 == program.depth()

    program.manager.disconnect()

    assert b"in doubt" == program.open(manager=program.other).get()


def test_losing_the_last_reference_to_a_connection_commits_too(program: Program) -> None:
    pmo = program.mq.PMO(Options=program.c.MQPMO_SYNCPOINT)
    manager = program.connect()
    manager.put1(b"Q", b"by accident", program.md(), pmo)

    del manager

    assert b"by accident" == program.open().get()


def test_a_message_that_is_cut_off_is_gone_when_truncation_is_accepted(program: Program) -> None:
    queue, c = program.open(), program.c
    queue.put(b"0123456789")

    error = program.refused(
        c.MQRC_TRUNCATED_MSG_ACCEPTED, lambda: queue.get(4, None, program.gmo(c.MQGMO_ACCEPT_TRUNCATED_MSG))
    )

    assert (c.MQCC_WARNING, b"0123", 10) == (error.comp, error.message, error.original_length)
    assert 0 == program.depth()


def test_a_message_that_does_not_fit_stays_when_truncation_is_not_accepted(program: Program) -> None:
    queue, c = program.open(), program.c
    queue.put(b"0123456789")

    error = program.refused(c.MQRC_TRUNCATED_MSG_FAILED, lambda: queue.get(4, None, program.gmo()))

    assert (c.MQCC_WARNING, 10) == (error.comp, error.original_length)
    assert b"0123456789" == queue.get()


def test_a_message_longer_than_the_packages_first_buffer_is_got_whole(program: Program) -> None:
    queue = program.open()
    queue.put(b"x" * 100_000)

    assert b"x" * 100_000 == queue.get()


def test_a_temporary_dynamic_queue_goes_with_the_handle_that_made_it(program: Program) -> None:
    program.kit.define("MODEL", "QMODEL", deftype="TEMPDYN")
    mq, c = program.mq, program.c
    od = mq.OD(ObjectName=b"MODEL", DynamicQName=b"REPLY.*")
    queue = mq.Queue(program.manager, od, c.MQOO_INPUT_EXCLUSIVE | c.MQOO_OUTPUT)
    names = [each.name for each in program.kit.queue_manager.administration.queues() if each.name.startswith("REPLY.")]

    queue.close()

    assert [od.ObjectName.decode().rstrip("\0 ")] == names
    program.refused(c.MQRC_UNKNOWN_OBJECT_NAME, lambda: program.open(c.MQOO_OUTPUT, names[0]))


def test_a_queue_open_exclusively_cannot_be_opened_for_input(program: Program) -> None:
    c = program.c
    held = program.open(c.MQOO_INPUT_EXCLUSIVE)

    program.refused(c.MQRC_OBJECT_IN_USE, lambda: program.open(c.MQOO_INPUT_SHARED, manager=program.other))
    held.close()

    program.open(c.MQOO_INPUT_SHARED, manager=program.other)


def test_a_queue_that_is_inhibited_for_gets_refuses_them_and_nothing_else(program: Program) -> None:
    queue, c = program.open(), program.c
    program.kit.mqsc("ALTER QLOCAL(Q) GET(DISABLED)")

    queue.put(b"stays")

    program.refused(c.MQRC_GET_INHIBITED, queue.get)
    program.kit.mqsc("ALTER QLOCAL(Q) GET(ENABLED)")
    assert b"stays" == queue.get()


def test_text_is_converted_to_the_character_set_asked_for(program: Program) -> None:
    queue, c = program.open(), program.c
    queue.put("Grüße".encode("cp1252"), program.md(Format=b"MQSTR   ", CodedCharSetId=1252))
    md = program.md(CodedCharSetId=1208)

    body = queue.get(100, md, program.gmo(c.MQGMO_CONVERT))

    assert ("Grüße".encode(), 1208) == (body, md.CodedCharSetId)


def test_a_message_that_cannot_be_converted_is_returned_unchanged_with_a_warning(program: Program) -> None:
    queue, c = program.open(), program.c
    queue.put(b"\x00\x01", program.md(Format=b"MYFORMAT", CodedCharSetId=1252))
    md = program.md(CodedCharSetId=1208)

    error = program.refused(c.MQRC_FORMAT_ERROR, lambda: queue.get(100, md, program.gmo(c.MQGMO_CONVERT)))

    assert (c.MQCC_WARNING, b"\x00\x01") == (error.comp, error.message)
    assert 0 == program.depth()


def test_nothing_there_is_2033_and_a_queue_that_is_not_there_2085(program: Program) -> None:
    queue, c = program.open(), program.c

    program.refused(c.MQRC_NO_MSG_AVAILABLE, queue.get)
    program.refused(c.MQRC_UNKNOWN_OBJECT_NAME, lambda: program.open(c.MQOO_OUTPUT, "NOWHERE"))


def test_a_put_under_syncpoint_shows_when_it_is_committed(program: Program) -> None:
    queue, reader = program.open(), program.open(manager=program.other)
    pmo = program.mq.PMO(Options=program.c.MQPMO_SYNCPOINT)

    queue.put(b"later", program.md(), pmo)
    program.refused(program.c.MQRC_NO_MSG_AVAILABLE, reader.get)
    program.manager.commit()

    assert b"later" == reader.get()


def test_the_backout_settings_of_a_queue_are_inquired_blank_padded(program: Program) -> None:
    program.kit.define("ORDERS.IN", bothresh=3, boqname="ORDERS.BOQ")
    queue, c = program.open(name="ORDERS.IN"), program.c

    assert 3 == queue.inquire(c.MQIA_BACKOUT_THRESHOLD)
    assert b"ORDERS.BOQ".ljust(48) == queue.inquire(c.MQCA_BACKOUT_REQ_Q_NAME)


def test_the_queue_manager_says_that_it_is_no_ibm_mq(program: Program) -> None:
    said = program.manager.inquire(program.c.MQCA_Q_MGR_DESC)

    assert b"not IBM MQ" in said
    assert b"09040000" == program.manager.inquire(program.c.MQCA_VERSION)


def test_attributes_are_set(program: Program) -> None:
    c = program.c
    queue = program.open(c.MQOO_SET | c.MQOO_INQUIRE)

    queue.set(c.MQIA_INHIBIT_PUT, c.MQQA_PUT_INHIBITED)

    assert c.MQQA_PUT_INHIBITED == queue.inquire(c.MQIA_INHIBIT_PUT)
    program.refused(c.MQRC_PUT_INHIBITED, lambda: program.manager.put1(b"Q", b"no"))


def test_browsing_leaves_messages_where_they_are(program: Program) -> None:
    queue, c = program.open(), program.c
    for body in (b"one", b"two"):
        queue.put(body)
    first, following = program.gmo(c.MQGMO_BROWSE_FIRST), program.gmo(c.MQGMO_BROWSE_NEXT)

    assert [b"one", b"two"] == [queue.get(None, program.md(), gmo) for gmo in (first, following)]
    assert b"two" == queue.get(None, program.md(), program.gmo(c.MQGMO_MSG_UNDER_CURSOR))
    assert b"one" == queue.get()


def test_version_1_options_match_by_identifier_with_any_bytes_behind_them(program: Program) -> None:
    queue, mq = program.open(), program.mq
    for index in range(2):
        queue.put(b"%d" % index, program.md(CorrelId=b"%d" % index * 24))

    body = queue.get(None, program.md(CorrelId=b"1" * 24), mq.GMO(Version=1, MatchOptions=0))

    assert b"1" == body


def test_a_version_1_descriptor_gets_the_group_in_front_of_the_data(program: Program) -> None:
    queue, c, mq = program.open(), program.c, program.mq
    queue.put(b"member", program.md(GroupId=b"g" * 24, MsgSeqNumber=2, MsgFlags=c.MQMF_MSG_IN_GROUP, Format=b"MQSTR   "))
    md = mq.MD(Version=1)

    body = queue.get(None, md, program.gmo())

    assert (b"MQHMDE  ", b"MDE ", b"g" * 24, b"member") == (md.Format, body[:4], body[32:56], body[72:])


def test_a_subscription_gets_the_publications_on_its_topics(program: Program) -> None:
    mq, c = program.mq, program.c
    descriptor = mq.SD(Options=c.MQSO_CREATE + c.MQSO_MANAGED)
    descriptor.set_vs("ObjectString", b"Prices/#")
    subscription = mq.Subscription(program.manager)
    subscription.sub(sub_desc=descriptor)

    for topic_string, body in ((b"Prices/Oil", b"oil"), (b"News", b"news"), (b"Prices/Gas", b"gas")):
        topic = mq.Topic(program.manager, topic_string=topic_string)
        topic.open(open_opts=c.MQOO_OUTPUT)
        topic.pub(body)
        topic.close()

    bodies = [subscription.get(None, program.md(), program.gmo()) for _ in range(2)]
    program.refused(c.MQRC_NO_MSG_AVAILABLE, lambda: subscription.get(None, program.md(), program.gmo()))
    subscription.close(close_sub_queue=True)

    assert [b"oil", b"gas"] == bodies


def test_a_resumed_subscription_returns_its_real_attributes(program: Program) -> None:
    mq, c = program.mq, program.c
    made = mq.SD(Options=c.MQSO_CREATE + c.MQSO_MANAGED + c.MQSO_DURABLE)
    made.set_vs("ObjectString", b"Prices/#")
    made.set_vs("SubName", b"desk-1")
    first = mq.Subscription(program.manager)
    first.sub(sub_desc=made)
    first.close(sub_close_options=c.MQCO_KEEP_SUB, close_sub_queue=True)

    resumed = mq.SD(Options=c.MQSO_RESUME)
    resumed.set_vs("SubName", b"desk-1")
    again = mq.Subscription(program.manager)
    again.sub(sub_desc=resumed)
    again.close(sub_close_options=c.MQCO_REMOVE_SUB, close_sub_queue=True)

    wanted = c.MQSO_MANAGED + c.MQSO_DURABLE + c.MQSO_WILDCARD_TOPIC + c.MQSO_RESUME
    assert (wanted, made.SubCorrelId) == (resumed.Options, resumed.SubCorrelId)


@only_in("ibmmq", "pymqi has no MQSTAT")
def test_mqstat_reports_a_failed_asynchronous_put_and_the_put_does_not(program: Program) -> None:
    c, queue = program.c, program.open()
    pmo = program.mq.PMO(Options=c.MQPMO_ASYNC_RESPONSE | c.MQPMO_NO_SYNCPOINT)
    queue.put(b"one", program.md(), pmo)
    program.kit.mqsc("ALTER QLOCAL(Q) PUT(DISABLED)")

    queue.put(b"two", program.md(), pmo)

    status = program.manager.stat(c.MQSTAT_TYPE_ASYNC_ERROR)
    assert (1, 0, 1) == (status.PutSuccessCount, status.PutWarningCount, status.PutFailureCount)
    assert (c.MQRC_PUT_INHIBITED, b"Q".ljust(48)) == (status.Reason, status.ObjectName)
    assert 0 == program.manager.stat(c.MQSTAT_TYPE_ASYNC_ERROR).PutFailureCount


@only_in("ibmmq", "pymqi has no MQSTAT")
def test_a_queue_with_defpresp_async_answers_a_client_early_unless_the_put_says_otherwise(program: Program) -> None:
    c = program.c
    program.kit.mqsc("ALTER QLOCAL(Q) DEFPRESP(ASYNC)")
    queue = program.open()
    program.kit.mqsc("ALTER QLOCAL(Q) PUT(DISABLED)")

    queue.put(b"early", program.md(), program.mq.PMO())
    synchronous = program.mq.PMO(Options=c.MQPMO_SYNC_RESPONSE)
    program.refused(c.MQRC_PUT_INHIBITED, lambda: queue.put(b"late", program.md(), synchronous))

    status = program.manager.stat(c.MQSTAT_TYPE_ASYNC_ERROR)
    assert (1, c.MQRC_PUT_INHIBITED) == (status.PutFailureCount, status.Reason)


@only_in("ibmmq", "pymqi has no MQSTAT")
def test_a_failed_asynchronous_put_backs_out_its_unit_of_work(program: Program) -> None:
    """MQCMIT answers 2003, a warning; then MQSTAT knows the reason."""
    c, queue = program.c, program.open()
    program.kit.mqsc("ALTER QLOCAL(Q) MAXDEPTH(2)")
    pmo = program.mq.PMO(Options=c.MQPMO_ASYNC_RESPONSE | c.MQPMO_SYNCPOINT)
    for body in (b"one", b"two", b"three"):
        queue.put(body, program.md(), pmo)

    warning = program.refused(c.MQRC_BACKED_OUT, program.manager.commit)

    assert (c.MQCC_WARNING, 0) == (warning.comp, program.depth())
    status = program.manager.stat(c.MQSTAT_TYPE_ASYNC_ERROR)
    assert (2, 1, c.MQRC_Q_FULL) == (status.PutSuccessCount, status.PutFailureCount, status.Reason)
    queue.put(b"four", program.md(), pmo)
    program.manager.commit()
    assert 1 == program.depth()


@only_in("ibmmq", "pymqi has no MQSTAT")
def test_a_failed_asynchronous_put_of_a_non_persistent_message_leaves_its_unit_of_work(program: Program) -> None:
    """IBM's suite for Go commits such a unit of work: only the put of a persistent message fails the commit."""
    c, queue = program.c, program.open()
    program.kit.mqsc("ALTER QLOCAL(Q) MAXDEPTH(2)")
    pmo = program.mq.PMO(Options=c.MQPMO_ASYNC_RESPONSE | c.MQPMO_SYNCPOINT)
    for body in (b"one", b"two", b"three"):
        queue.put(body, program.md(Persistence=c.MQPER_NOT_PERSISTENT), pmo)

    program.manager.commit()

    status = program.manager.stat(c.MQSTAT_TYPE_ASYNC_ERROR)
    assert (2, 1, c.MQRC_Q_FULL) == (status.PutSuccessCount, status.PutFailureCount, status.Reason)
    assert 2 == program.depth()


def test_a_message_longer_than_its_channel_allows_is_2010(program: Program) -> None:
    manager = program.connect(channel={"MaxMsgLength": 10})

    manager.put1(b"Q", b"0123456789")
    program.refused(program.c.MQRC_DATA_LENGTH_ERROR, lambda: manager.put1(b"Q", b"0123456789A"))
    program.manager.put1(b"Q", b"0123456789A")
    queue = program.mq.Queue(manager, b"Q")

    assert b"0123456789" == queue.get()
    program.refused(program.c.MQRC_DATA_LENGTH_ERROR, lambda: queue.get(100))
    assert 1 == program.depth()


@only_in("ibmmq", "pymqi is a client, whose puts may answer early")
def test_an_asynchronous_put_of_a_local_program_fails_at_once(program: Program) -> None:
    manager = program.connect_alone()
    program.kit.mqsc("ALTER QLOCAL(Q) PUT(DISABLED)")
    pmo = program.mq.PMO(Options=program.c.MQPMO_ASYNC_RESPONSE)

    program.refused(program.c.MQRC_PUT_INHIBITED, lambda: manager.put1(b"Q", b"body", program.md(), pmo))


def test_a_version_1_descriptor_puts_the_group_that_stands_in_front_of_the_data(program: Program) -> None:
    queue, c, md = program.open(), program.c, program.md()
    extension = DescriptorExtension(format="MQSTR", group_id=b"g" * 24, sequence_number=2, message_flags=c.MQMF_MSG_IN_GROUP)

    queue.put(to_bytes(extension, encoding=546) + b"member", program.mq.MD(Version=1, Format=b"MQHMDE  "))

    assert b"member" == queue.get(None, md, program.gmo())
    assert (b"MQSTR   ", b"g" * 24, 2, c.MQMF_MSG_IN_GROUP) == (md.Format, md.GroupId, md.MsgSeqNumber, md.MsgFlags)
