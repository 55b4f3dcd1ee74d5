"""The AsyncAPI document of an application: each declaration is there once, with what the code says and no secret."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

import pytest
from msgspec import Struct
from pydantic import BaseModel

from mqflow import App, ConfigurationError, Context, Header, Message, Property, Router
from mqflow.app.asyncapi import asyncapi_document
from mqflow.app.config.settings import load


class Order(Struct):
    """An order."""

    number: int
    note: str = ""


class Invoice(BaseModel):
    order: int


@dataclass
class Level:
    article: str


class Fixed:
    def decode(self, message: Message, payload_type: Any) -> Any:  # noqa: ARG002 - the protocol has it
        return message.body

    def encode(self, payload: Any) -> tuple[bytes, str, int]:
        return bytes(payload), "MQSTR", 1208


def described(app: App, **keywords: Any) -> dict[str, Any]:
    return asyncapi_document(app, title="shop", version="1.0.0", **keywords)


def only(found: dict[str, Any]) -> Any:
    [value] = found.values()
    return value


def binary(**more: Any) -> dict[str, Any]:
    return {"ibmmq": {"type": "binary", "bindingVersion": "0.1.0", **more}}


def text(**more: Any) -> dict[str, Any]:
    return {"ibmmq": {"type": "string", "bindingVersion": "0.1.0", **more}}


def test_a_listener_of_a_queue_is_an_operation_that_receives_on_the_channel_of_the_queue() -> None:
    app = App()

    @app.listener("ORDERS.IN", strict_order=True)
    async def book(order: Order) -> None:
        """Book an order.

        Each order is booked once.
        """

    found = described(app)

    reference = "#/channels/ORDERS.IN"
    queue = {"objectName": "ORDERS.IN", "exclusive": True}
    assert {
        "ORDERS.IN": {
            "address": "ORDERS.IN",
            "messages": {
                "Order": {
                    "name": "Order",
                    "contentType": "application/json",
                    "payload": {"$ref": "#/components/schemas/Order"},
                    "bindings": text(),
                }
            },
            "bindings": {"ibmmq": {"destinationType": "queue", "queue": queue, "bindingVersion": "0.1.0"}},
        }
    } == found["channels"]
    assert {
        "action": "receive", "channel": {"$ref": reference}, "messages": [{"$ref": f"{reference}/messages/Order"}],
        "title": f"{__name__}.{book.__qualname__}", "summary": "Book an order.", "description": "Each order is booked once.",
    } == found["operations"]["book"]  # fmt: skip
    assert ["number"] == found["components"]["schemas"]["Order"]["required"]


def test_a_listener_of_a_topic_has_the_topic_string_and_whether_its_subscription_is_durable() -> None:
    app = App()

    @app.listener(topic="stock/#", durable="S")
    async def note(levels: list[Level]) -> None: ...

    channel = only(described(app)["channels"])

    topic = {"string": "stock/#", "durablePermitted": True}
    assert {"destinationType": "topic", "topic": topic, "bindingVersion": "0.1.0"} == channel["bindings"]["ibmmq"]
    assert ["Level"] == list(channel["messages"])  # the message of a batch is one element


def test_a_publisher_is_an_operation_that_sends_and_has_the_expiry_in_milliseconds() -> None:
    app = App()

    @app.listener("ORDERS.IN")
    @app.publisher("INVOICES", expiry_s=1.5)
    async def book(order: Order) -> Invoice | None: ...

    found = described(app)

    assert "send" == found["operations"]["book.INVOICES"]["action"]
    message = only(found["channels"]["INVOICES"]["messages"])
    assert ("Invoice", {"$ref": "#/components/schemas/Invoice"}) == (message["name"], message["payload"])
    assert text(expiry=1_500) == message["bindings"]
    assert "reply" not in found["operations"]["book"]
    assert {"Order", "Invoice"} == set(found["components"]["schemas"])


def test_a_result_without_a_publisher_is_a_reply_to_the_reply_to_queue() -> None:
    app = App()

    @app.listener("PRICES")
    async def price(article: str) -> dict[str, int]:
        return {article: 1}

    found = described(app)

    reply = found["operations"]["price"]["reply"]
    assert ("$message.header#/ReplyToQ", "#/channels/price.reply") == (reply["address"]["location"], reply["channel"]["$ref"])
    assert None is found["channels"]["price.reply"]["address"]
    assert "object" == only(found["channels"]["price.reply"]["messages"])["payload"]["type"]


def test_each_kind_of_payload_has_its_content_type_and_its_form_in_mq() -> None:
    app = App()

    @app.listener("TEXT")
    async def of_text(body: str) -> None: ...

    @app.listener("BYTES")
    async def of_bytes(body: bytes) -> None: ...

    @app.listener("MESSAGE")
    async def of_message(message: Message, ctx: Context) -> None: ...

    @app.listener("CODEC", codec=Fixed())
    async def of_codec(order: Order) -> None: ...

    messages = {address: only(channel["messages"]) for address, channel in described(app)["channels"].items()}

    assert {
        "TEXT": {"name": "of_text", "contentType": "text/plain", "payload": {"type": "string"}, "bindings": text()},
        "BYTES": {"name": "of_bytes", "contentType": "application/octet-stream", "bindings": binary()},
        "MESSAGE": {"name": "of_message", "bindings": binary()},
        "CODEC": {"name": "Order", "payload": {"$ref": "#/components/schemas/Order"}, "bindings": binary()},
    } == messages


def test_parameters_from_the_message_are_its_headers() -> None:
    app = App()

    @app.listener("IN")
    async def take(
        order: Order, tenant: Annotated[str, Property("tenant")], kind: Annotated[str | None, Header("JMSType")] = None
    ) -> None: ...

    headers = only(only(described(app)["channels"])["messages"])["headers"]

    assert ["tenant"] == headers["required"]
    assert {"tenant": {"type": "string"}, "JMSType": {"anyOf": [{"type": "string"}, {"type": "null"}]}} == headers["properties"]


def test_two_handlers_of_a_queue_share_its_channel_and_keep_a_message_of_their_own_if_it_differs() -> None:
    app = App()

    @app.listener("IN", where=bool)
    async def first(order: Order, tenant: Annotated[str, Property("tenant")]) -> None: ...

    @app.listener("IN")
    async def second(order: Order) -> None: ...

    found = described(app)

    assert ["IN"] == list(found["channels"])
    assert ["Order", "Order.second"] == list(found["channels"]["IN"]["messages"])
    assert "#/channels/IN/messages/Order.second" == found["operations"]["second"]["messages"][0]["$ref"]


def test_a_router_adds_its_prefix_and_two_uses_are_two_operations() -> None:
    router, app = Router(), App()

    @router.listener("IN")
    async def book(order: Order) -> None: ...

    app.include_router(router, prefix="A.")
    app.include_router(router, prefix="B.")

    found = described(app)

    assert ["A.IN", "B.IN"] == list(found["channels"])
    assert ["book", "book.2"] == list(found["operations"])


def test_names_that_differ_in_a_character_that_no_key_can_have_are_two_channels() -> None:
    app = App()

    @app.listener("A/B")
    async def first(body: str) -> None: ...

    @app.listener("A%B")
    async def second(body: str) -> None: ...

    assert {"A_B": "A/B", "A_B.2": "A%B"} == {key: each["address"] for key, each in described(app)["channels"].items()}


def test_a_schedule_sends_to_its_queue() -> None:
    app = App()
    app.schedule(timedelta(minutes=5), "TICKS", name="tick")

    found = described(app)

    assert ["TICKS"] == list(found["channels"])
    assert "send" == only(found["operations"])["action"]
    assert "Puts a message at each moment of the schedule every 300 s." == only(found["operations"])["summary"]


def test_a_server_has_host_queue_manager_and_channel_and_never_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQFLOW_USER", "planted-user")
    monkeypatch.setenv("MQFLOW_PASSWORD", "planted-password")
    monkeypatch.setenv("MQFLOW_TLS_CIPHER_SPEC", "ANY_TLS12_OR_HIGHER")
    app = App("ibmmq://mq.example:1415,[::1]/QM1?channel=APP.SVRCONN", settings=load({}))

    found = described(app)

    binding = {"cipherSpec": "ANY_TLS12_OR_HIGHER", "multiEndpointServer": True, "bindingVersion": "0.1.0"}
    rest = {"pathname": "/QM1/APP.SVRCONN", "protocol": "ibmmq-secure", "bindings": {"ibmmq": binding}}
    assert {"mq1": {"host": "mq.example:1415", **rest}, "mq2": {"host": "[::1]:1414", **rest}} == found["servers"]
    assert "planted" not in str(found)
    assert "servers" not in described(App("embedded:./data?qmgr=QM1"))


def test_two_models_with_one_name_are_refused_with_the_name() -> None:
    app = App()
    other = type("Invoice", (BaseModel,), {"__annotations__": {"total": str}})

    @app.listener("A")
    async def first(invoice: Invoice) -> None: ...

    async def second(invoice: Any) -> None: ...

    second.__annotations__["invoice"] = other
    app.listener("B")(second)

    with pytest.raises(ConfigurationError, match="two payload types have the name Invoice"):
        described(app)


def test_an_included_application_has_channels_of_its_own_that_name_its_servers() -> None:
    urls = ("ibmmq://mq.example/QM1?channel=APP", "ibmmq://archive.example/QM2?channel=APP")
    app, archive = App(urls[0]), App(urls[1], name="archive")
    app.include_app(archive)
    app.schedule(60, "IN", name="minute")
    for each in (app, archive):

        @each.listener("IN")
        async def book(body: str) -> str:
            return body

    found = described(app)

    assert {"mq1": "mq.example:1414", "archive1": "archive.example:1414"} == {
        key: server["host"] for key, server in found["servers"].items()
    }
    title = "On the queue manager of archive"
    assert {
        "IN": ("mq1", None),
        "book.reply": ("mq1", None),
        "archive.IN": ("archive1", title),
        "archive.book.reply": ("archive1", title),
    } == {key: (each["servers"][0]["$ref"][10:], each.get("title")) for key, each in found["channels"].items()}
    assert {"book": "IN", "minute.schedule": "IN", "archive.book": "archive.IN"} == {
        key: each["channel"]["$ref"].rpartition("/")[2] for key, each in found["operations"].items()
    }
