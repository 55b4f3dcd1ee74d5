"""A CloudEvent is put and received in structured mode and in binary mode."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mqflow import App, Message, MessageDescriptor
from mqflow.app.handlers.outgoing_message import framed, outgoing
from mqflow.testing.kit import QueueManagerKit
from mqflow_cloudevents import CloudEvent, CloudEventsCodec, binary_mode

CODEC = CloudEventsCodec()
BARE = {"specversion": "1.0", "id": "7", "source": "/orders", "type": "order.booked"}


class Order(msgspec.Struct):
    number: int
    customer: str


EVENT = CloudEvent(
    id="7",
    source="/orders",
    type="order.booked",
    subject="A",
    time=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    extensions={"shard": 3, "final": True, "region": "eu"},
    data=Order(7, "Grüße"),
)


def message(body: str | bytes, properties: Mapping[str, Any] | None = None) -> Message:
    """Return the message that a put of this body with these properties makes."""
    descriptor, data = framed(outgoing("Q", body, properties=properties))
    return Message(descriptor, data, "Q")


def in_each_mode(event: CloudEvent[Any]) -> Mapping[str, Message]:
    body, message_format, ccsid = CODEC.encode(event)
    structured = Message(MessageDescriptor(format=message_format, ccsid=ccsid), body, "Q")
    return {"structured": structured, "binary": message(*binary_mode(event))}


@pytest.mark.mq_backend("asyncio", "trio")
async def test_a_handler_receives_an_event_of_either_mode_and_its_reply_is_an_event(mq: QueueManagerKit) -> None:
    app, events = App(codec=CODEC), list[CloudEvent[Order]]()

    @app.listener("ORDERS")
    async def book(event: CloudEvent[Order]) -> CloudEvent[Order]:
        events.append(event)
        return event

    mq.define("ORDERS")
    mq.define("REPLIES")
    payload, properties = binary_mode(EVENT)
    async with mq.run(app):
        await app.put("ORDERS", EVENT, reply_to="REPLIES")
        [reply] = await mq.drain("REPLIES")
        await mq.put("ORDERS", payload, properties=properties, reply_to_queue="REPLIES")
        await mq.drain("REPLIES")

    as_json = msgspec.structs.replace(EVENT, datacontenttype="application/json")
    assert [EVENT, as_json] == events
    assert ("MQSTR", 1208, "7") == (reply.descriptor.format, reply.descriptor.ccsid, reply.json()["id"])


def test_the_structured_mode_is_the_json_format_of_the_specification() -> None:
    assert {
        **BARE,
        "subject": "A",
        "time": "2026-01-02T03:04:05Z",
        "shard": 3,
        "final": True,
        "region": "eu",
        "data": {"number": 7, "customer": "Grüße"},
    } == msgspec.json.decode(CODEC.encode(EVENT)[0])


def test_attributes_are_properties_with_the_prefix_of_jms() -> None:
    payload, properties = binary_mode(EVENT)

    assert '{"number":7,"customer":"Grüße"}' == payload
    assert {
        "cloudEvents_specversion": "1.0",
        "cloudEvents_id": "7",
        "cloudEvents_source": "/orders",
        "cloudEvents_type": "order.booked",
        "cloudEvents_subject": "A",
        "cloudEvents_time": "2026-01-02T03:04:05Z",
        "cloudEvents_shard": 3,
        "cloudEvents_final": True,
        "cloudEvents_region": "eu",
        "cloudEvents_datacontenttype": "application/json",
    } == properties


@pytest.mark.parametrize("mode", ["structured", "binary"])
@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("application/json", {"a": [1, None]}),
        ("application/vnd.acme+json", [1, 2]),
        ("application/json; charset=utf-8", "a text"),
        ("text/plain", "a text"),
        ("application/xml", "<a/>"),
        ("application/octet-stream", b"\x00\xff"),
        (None, b"\x00\xff"),
        ("application/json", None),
        (None, None),
    ],
)
def test_the_data_survive_each_mode(mode: str, kind: str | None, data: Any) -> None:
    event = CloudEvent(id="7", source="/", type="t", datacontenttype=kind, data=data)

    assert event == CODEC.decode(in_each_mode(event)[mode], CloudEvent if data != [1, 2] else CloudEvent[list[int]])


@pytest.mark.parametrize("mode", ["structured", "binary"])
@pytest.mark.parametrize("wanted", [CloudEvent[bytes], CloudEvent[bytes | None]])
@pytest.mark.parametrize("kind", ["text/plain", "application/json", "application/octet-stream", None])
@pytest.mark.parametrize("data", [b"abcd", b"hello", b'{"number":1}'])
def test_bytes_survive_each_mode_with_any_type_of_content(mode: str, wanted: Any, kind: str | None, data: bytes) -> None:
    event = CloudEvent(id="7", source="/", type="t", datacontenttype=kind, data=data)

    assert data == CODEC.decode(in_each_mode(event)[mode], wanted).data


@pytest.mark.parametrize("mode", ["structured", "binary"])
@pytest.mark.parametrize("wanted", [CloudEvent[bytes], CloudEvent[bytes | None]])
@pytest.mark.parametrize("text", ["abcd", "hello", "Grüße"])
def test_a_text_is_not_base64_for_a_handler_of_bytes(mode: str, wanted: Any, text: str) -> None:
    event = CloudEvent(id="7", source="/", type="t", datacontenttype="text/plain", data=text)

    assert text.encode() == CODEC.decode(in_each_mode(event)[mode], wanted).data


@pytest.mark.parametrize("mode", ["structured", "binary"])
@pytest.mark.parametrize(
    ("kind", "data", "wanted", "found"),
    [
        ("application/octet-stream", b"", CloudEvent[bytes], b""),
        (None, b"", CloudEvent[bytes], b""),
        ("text/plain", "", CloudEvent[str], ""),
        ("text/plain", b"", CloudEvent[str], ""),
        ("application/json", "", CloudEvent[str], ""),
        ("application/json", b'{"number":1,"customer":"A"}', CloudEvent[Order], Order(1, "A")),
        ("application/json", b'{"number":1}', CloudEvent, {"number": 1}),
        ("text/plain", b"abcd", CloudEvent[str], "abcd"),
    ],
)
def test_data_are_of_the_type_that_is_wanted_in_each_mode(
    mode: str, kind: str | None, data: Any, wanted: Any, found: object
) -> None:
    event = CloudEvent(id="7", source="/", type="t", datacontenttype=kind, data=data)

    assert found == CODEC.decode(in_each_mode(event)[mode], wanted).data


def test_the_prefix_ce_is_read_too() -> None:
    properties = {f"ce_{name}": value for name, value in BARE.items()}

    assert CloudEvent(id="7", source="/orders", type="order.booked", data="x") == CODEC.decode(
        message("x", properties), CloudEvent
    )


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"id": None}, "missing required field `id`"),
        ({"id": ""}, "Expected `str` of length >= 1"),
        ({"source": 7}, "Expected `str`, got `int`"),
        ({"specversion": None}, "neither its properties nor its body have a specversion"),
        ({"specversion": "0.3"}, "Invalid enum value '0.3'"),
        ({"time": "yesterday"}, "Invalid RFC3339"),
        ({"time": "2026-01-02T03:04:05"}, "timezone"),
        ({"shard": [1]}, "extensions"),
        ({"data": {"number": "x"}}, "Expected `int`, got `str`"),
        ({"data_base64": "?"}, "base64"),
    ],
)
def test_a_body_that_is_no_event_is_undecodable(change: Mapping[str, Any], problem: str) -> None:
    members = {
        name: value for name, value in {**BARE, "data": {"number": 1, "customer": ""}, **change}.items() if value is not None
    }

    with pytest.raises(ValueError, match=re.escape(problem)):
        CODEC.decode(message(msgspec.json.encode(members).decode()), CloudEvent[Order])


@pytest.mark.parametrize("body", ["[1]", "{", "order"])
def test_a_body_that_is_no_json_object_is_undecodable(body: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        CODEC.decode(message(body), CloudEvent)


def test_data_in_binary_mode_have_the_type_of_the_handler() -> None:
    properties = {f"ce_{name}": value for name, value in BARE.items()} | {"ce_datacontenttype": "application/json"}

    with pytest.raises(msgspec.ValidationError, match="missing required field `customer`"):
        CODEC.decode(message('{"number": 1}', properties), CloudEvent[Order])
    with pytest.raises(msgspec.ValidationError, match="got `null`"):
        CODEC.decode(message("", properties), CloudEvent[Order])


@pytest.mark.parametrize(
    ("change", "error", "problem"),
    [
        ({"extensions": {"Shard": 1}}, ValueError, "'Shard' is no name of an extension"),
        ({"extensions": {"data": 1}}, ValueError, "'data' is no name of an extension"),
        ({"time": datetime(2026, 1, 2)}, ValueError, "timezone"),  # noqa: DTZ001 - refused for it
        ({"id": ""}, ValueError, "length >= 1"),
        ({"datacontenttype": "text/plain"}, TypeError, "data of text/plain are text or bytes, not a Order"),
        ({"data": {1j}}, TypeError, "complex"),
        ({"data": {"total": float("nan")}}, ValueError, "total is nan, and JSON has no such number"),
        ({"data": [float("inf")]}, ValueError, "is inf, and JSON has no such number"),
    ],
)
def test_an_event_that_cannot_be_written_is_refused_in_each_mode(change: Any, error: type[Exception], problem: str) -> None:
    event = msgspec.structs.replace(EVENT, **change)

    for write in (CODEC.encode, binary_mode):
        with pytest.raises(error, match=problem):
            write(event)


def test_another_type_is_refused_on_both_ways() -> None:
    with pytest.raises(TypeError, match=r"write `event: CloudEvent\[...\]`, not <class 'dict'>"):
        CODEC.decode(message("{}"), dict)
    with pytest.raises(TypeError, match="puts a CloudEvent, not a dict"):
        CODEC.encode({})


@pytest.mark.mq_backend("asyncio")
async def test_the_application_of_the_readme_puts_events_in_both_modes(mq: QueueManagerKit) -> None:
    text = (Path(__file__).parents[1] / "README.md").read_text().split('title="app.py"\n')[1].split("```")[0]
    names: dict[str, Any] = {"__name__": "readme"}
    exec(text.replace('codec="cloudevents"', "codec=CloudEventsCodec()"), names)  # noqa: S102 - the text of our own README
    for queue in ("ORDERS.IN", "ORDERS.BOOKED", "ORDERS.AUDIT"):
        mq.define(queue)

    async with mq.run(names["app"]):
        await mq.put("ORDERS.IN", CODEC.encode(EVENT)[0].decode())
        [structured], [binary] = [await mq.drain(queue) for queue in ("ORDERS.BOOKED", "ORDERS.AUDIT")]

    assert CODEC.decode(structured, CloudEvent) == msgspec.structs.replace(
        CODEC.decode(binary, CloudEvent), datacontenttype=None
    )
    assert ("order.booked", {"number": 7}) == (binary.properties["cloudEvents_type"], binary.json())
