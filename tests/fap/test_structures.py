"""Every structure of the protocol is read as it was written, in both byte orders; bytes that are cut are refused."""

import contextlib
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mqflow.fap.async_messages import MessageRequest, Selection
from mqflow.fap.fields import FlowError, Reader, Writer
from mqflow.fap.negotiation import InitialData, Offer, answer
from mqflow.fap.structures import GetFields, ObjectFields, PutFields, SubscriptionFields
from mqflow.fap.transmission_segments import Flag, Flow, Flows, Header, SegmentType, segments_of, to_segment
from mqflow.mqi.options import MatchOption, SubscribeOption
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.verbs import ObjectDescriptor
from tests.fap.client_half import initial_data, request_body
from tests.mqi.strategies import fields, int32, texts

orders = st.sampled_from(["<", ">"])
counts = st.integers(0, 2**31 - 1)
strings = texts

objects = st.builds(
    lambda version, name, queue_manager, string, selection: ObjectFields(
        version=version,
        descriptor=ObjectDescriptor(
            name,
            queue_manager=queue_manager,
            object_string=string if version == 4 else "",
            selection=selection if version == 4 else "",
        ),
    ),
    st.integers(1, 4),
    fields(48),
    fields(48),
    strings,
    strings,
)
puts = st.builds(
    PutFields, version=st.just(3), options=int32, timeout=int32, context=int32, resolved_queue=fields(48), level=int32
)
gets = st.builds(
    GetFields, version=st.just(4), options=int32, wait_ms=int32, resolved_queue=fields(48), match=int32,
    message_token=st.binary(min_size=16, max_size=16), returned_bytes=int32, message_handle=st.integers(-(2**63), 2**63 - 1),
)  # fmt: skip
subscriptions = st.builds(
    lambda options, string, name, data, selection, level: SubscriptionFields(
        version=1,
        descriptor=SubscriptionDescriptor(
            options=options, object_string=string, name=name, user_data=data, selection=selection, level=level
        ),
    ),
    st.sampled_from(list(SubscribeOption)),
    strings,
    strings,
    strings,
    strings,
    int32,
)
Structure = ObjectFields | PutFields | GetFields | SubscriptionFields


@given(st.one_of(objects, puts, gets, subscriptions), orders)
def test_a_structure_is_read_as_it_was_written(given_fields: Structure, order: Literal["<", ">"]) -> None:
    writer = Writer(order)
    given_fields.write(writer)
    reader = Reader(writer.done(), order, "a structure")

    assert given_fields == type(given_fields).read(reader)
    assert 0 == reader.left


@given(st.one_of(objects, puts, gets, subscriptions), st.data())
def test_a_structure_that_is_cut_is_refused(given_fields: Structure, data: st.DataObject) -> None:
    writer = Writer(">")
    given_fields.write(writer)
    whole = writer.done()
    fixed = 168 if isinstance(given_fields, ObjectFields) else 100
    end = data.draw(st.integers(0, fixed - 1))

    with pytest.raises(FlowError):
        type(given_fields).read(Reader(whole[:end], ">", "a structure"))


@given(
    st.builds(InitialData, level=st.integers(4, 255), flags1=st.integers(0, 255), batch_messages_max=st.integers(0, 65_535),
              transmission_bytes_max=int32, message_bytes_max=int32, channel=fields(20), ccsid=st.integers(0, 65_535),
              queue_manager=fields(48), heartbeat_s=int32),
    orders,
)  # fmt: skip
def test_initial_data_are_read_as_they_were_written(data: InitialData, order: Literal["<", ">"]) -> None:
    assert data == InitialData.read(Reader(data.to_bytes(order), order, "initial data"))


@given(
    st.builds(MessageRequest, handle=int32, received_bytes=int32, wanted_bytes=int32, message_bytes_max=int32, options=int32,
              wait_ms=int32, queue_status=int32, flags=st.just(0x18), message_index=int32,
              selection=st.builds(Selection, index=st.integers(0, 65_535),
                  match=st.just(int(MatchOption.MSG_ID | MatchOption.CORREL_ID)),
                  message_id=st.binary(min_size=24, max_size=24), correlation_id=st.binary(min_size=24, max_size=24))),
)  # fmt: skip
def test_a_request_for_messages_is_read_as_it_was_written(request: MessageRequest) -> None:
    assert request == MessageRequest.read(Reader(request_body(request), ">", "a request"))


@given(
    st.lists(st.tuples(st.binary(max_size=500), st.integers(1, 3)), max_size=5),
    st.integers(40, 200),
    st.integers(1, 60),
    orders,
)
def test_flows_come_out_of_a_stream_however_it_is_cut(
    bodies: list[tuple[bytes, int]], segment_bytes_max: int, piece: int, order: Literal["<", ">"]
) -> None:
    sent = [Flow(Header(kind=SegmentType.MQPUT, conversation=number, order=order), body) for body, number in bodies]
    data = b"".join(segment for flow in sent for segment in segments_of(flow, segment_bytes_max))
    flows = Flows()

    heard = [flow for start in range(0, len(data), piece) for flow in flows.feed(data[start : start + piece])]

    assert [(flow.header.conversation, flow.body) for flow in sent] == [(flow.header.conversation, flow.body) for flow in heard]


@given(st.binary(max_size=300), st.integers(1, 50))
def test_bytes_of_any_kind_give_flows_or_are_refused(data: bytes, piece: int) -> None:
    flows = Flows()

    with contextlib.suppress(FlowError):  # any other error fails the test
        for start in range(0, len(data), piece):
            tuple(flows.feed(data[start : start + piece]))


def test_flows_under_way_have_a_limit() -> None:
    flows = Flows()
    flows.flow_bytes_max = 1_000
    flow = Flow(Header(kind=SegmentType.MQPUT, conversation=1), bytes(5_000))

    with pytest.raises(FlowError, match="more than 1000 bytes"):
        tuple(flows.feed(b"".join(segments_of(flow, 300))))


def begun(conversation: int, body: bytes = b"") -> bytes:
    """Return the first segment of a flow that goes on."""
    return to_segment(Header(kind=SegmentType.MQPUT, flags=Flag.FIRST, conversation=conversation), body)


def test_each_conversation_that_is_allowed_can_have_a_flow_under_way_and_no_other_one() -> None:
    flows = Flows()
    flows.conversations_max = 3
    tuple(flows.feed(b"".join(map(begun, (1, 2, 3)))))
    tuple(flows.feed(begun(2)))

    with pytest.raises(FlowError, match="more than 3 flows"):
        tuple(flows.feed(begun(4)))


def test_a_flow_that_begins_again_or_ends_gives_its_bytes_back() -> None:
    flows = Flows()
    flows.flow_bytes_max = 1_000
    end = to_segment(Header(kind=SegmentType.MQPUT, flags=Flag.LAST, conversation=1), bytes(300))

    for _ in range(5):
        assert () == tuple(flows.feed(begun(1, bytes(600))))
        assert () == tuple(flows.feed(begun(1, bytes(600))))
        assert [900] == [len(flow.body) for flow in flows.feed(end)]


@given(st.integers(4, 255), st.integers(1024, 2_000_000), counts, counts, counts)
def test_a_client_that_takes_the_answer_agrees_in_the_second_round(
    level: int, transmission: int, message: int, heartbeat: int, conversations: int
) -> None:
    client = InitialData(
        level=level,
        transmission_bytes_max=transmission,
        message_bytes_max=message,
        heartbeat_s=heartbeat,
        conversations_max=conversations,
    )
    offer = Offer(queue_manager="QM1", queue_manager_identifier="QM1")

    answered, _ = answer(client, offer)
    again, agreed = answer(answered, offer)

    assert agreed
    assert (answered.level, answered.transmission_bytes_max) == (again.level, again.transmission_bytes_max)


@pytest.mark.parametrize(("asked", "agreed"), [(-1, 300), (1, 300), (600, 600), (999_999, 999_999), (2**31 - 1, 999_999)])
def test_the_longer_heartbeat_interval_holds_up_to_mqs_longest(asked: int, agreed: int) -> None:
    client = replace(initial_data(), heartbeat_s=asked)

    answered, _ = answer(client, Offer(queue_manager="QM1", queue_manager_identifier="QM1"))

    assert agreed == answered.heartbeat_s


@pytest.mark.parametrize(
    ("kinds", "error"),
    [("00ff 00ffff", 0), ("08ff 00ffff", 0x01), ("00ff 0201ff", 0x02), ("08ff 0200ff", 0x03)],
    ids=["none", "COMPHDR(SYSTEM)", "COMPMSG(ZLIBFAST,RLE)", "both"],
)
def test_the_answer_refuses_compression(kinds: str, error: int) -> None:
    """The lists of the client are those of IBM's JMS classes with these attributes in their channel table."""
    sent, lists = bytearray(initial_data(12, conversations=10).to_bytes(">")), bytes.fromhex(kinds)
    sent[104 : 104 + len(lists)] = lists
    client = replace(InitialData.read(Reader(bytes(sent), ">", "initial data")), heartbeat_s=300)

    answered, agreed = answer(client, Offer(queue_manager="QM1", queue_manager_identifier="QM1"))

    assert (error, not error) == (answered.errors2, agreed)
    assert answer(answered, Offer(queue_manager="QM1", queue_manager_identifier="QM1"))[1]


@pytest.mark.parametrize("level", [1, 3])
def test_a_client_of_the_first_levels_is_refused(level: int) -> None:
    with pytest.raises(FlowError, match="the lowest that is served"):
        answer(initial_data(level), Offer(queue_manager="QM1", queue_manager_identifier="QM1"))


def test_a_client_that_takes_only_tiny_segments_is_refused() -> None:
    client = replace(initial_data(), transmission_bytes_max=100)

    with pytest.raises(FlowError, match="1,024 is the least"):
        answer(client, Offer(queue_manager="QM1", queue_manager_identifier="QM1"))
