"""Parameters of a handler that receive one header field, or one property, of the message."""

from collections.abc import Callable
from typing import Annotated, Any

import anyio
import msgspec
import pytest

from mqflow import App, ConfigurationError, Header, Property
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers import chain, rfh2
from mqflow.mqi.options import Format, Persistence
from mqflow.testing.kit import QueueManagerKit
from tests.queue_contents import put
from tests.running import defining

pytestmark = pytest.mark.mq_backend("asyncio", "trio")
queues = defining("BOQ", bothresh=3, boqname="BOQ")


async def received(mq: QueueManagerKit, handler: Callable[..., Any], **message: Any) -> list[str]:
    """Run the handler with one message. Return the reasons of the messages that were moved."""
    app = App()
    app.listener("IN")(handler)
    async with mq.run(app):
        await mq.put("IN", "body", **message)
        await anyio.sleep(1)
        return [each.why.text for each in mq.browse("BOQ")]


async def test_a_handler_receives_header_fields_by_their_names_in_mq(mq: QueueManagerKit) -> None:
    seen: list[object] = []

    async def handle(
        body: str,
        correlation: Annotated[bytes, Header("CorrelId")],
        CorrelId: Annotated[bytes, Header()],  # noqa: N803 - without a name, the parameter has the name of the field
        priority: Annotated[int, Header("Priority")],
        persistence: Annotated[Persistence, Header("Persistence")],
        jms_id: Annotated[str, Header("JMSCorrelationID")],
    ) -> None:
        seen.append((body, correlation, CorrelId, priority, persistence, jms_id))

    identifier = b"ORDER-1".ljust(24, b"\0")
    assert [] == await received(mq, handle, correlation_id=identifier, priority=7, persistent=True)
    assert [("body", identifier, identifier, 7, Persistence.PERSISTENT, f"ID:{identifier.hex()}")] == seen


async def test_a_handler_receives_properties_in_the_types_of_its_annotations(mq: QueueManagerKit) -> None:
    seen: list[object] = []

    def handle(
        tenant: Annotated[str, Property()],
        count: Annotated[int, msgspec.Meta(ge=1), Property("lines")],
        note: Annotated[str | None, Property("note")],
        region: Annotated[str, Property("region")] = "EU",
    ) -> None:
        seen.append((tenant, count, note, region))

    assert [] == await received(mq, handle, properties={"tenant": "blue", "lines": "5"})
    assert [("blue", 5, None, "EU")] == seen


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({}, "the message has no property lines"),
        ({"lines": "many"}, "property lines: Expected `int`, got `str`"),
        ({"lines": 0}, "property lines: Expected `int` >= 1"),
    ],
)
async def test_a_message_without_the_property_or_with_another_type_is_undecodable(
    mq: QueueManagerKit, properties: dict[str, Any], said: str
) -> None:
    async def handle(count: Annotated[int, msgspec.Meta(ge=1), Property("lines")]) -> None:
        raise AssertionError("no message has the property")

    assert [said] == await received(mq, handle, properties=properties)


async def test_a_handler_receives_jmstype_of_a_jms_message(mq: QueueManagerKit) -> None:
    app, seen = App(), []
    mcd = rfh2.Folder("mcd", (rfh2.FolderProperty("Msd", "jms_text"), rfh2.FolderProperty("Type", "order.v2")))
    descriptor, data = chain.join(MessageDescriptor(format=Format.STRING, ccsid=1208), [rfh2.RFH2(folders=(mcd,))], b"body")

    @app.listener("IN")
    async def handle(kind: Annotated[str, Header("JMSType")]) -> None:
        seen.append(kind)

    async with mq.run(app):
        put(mq.queue_manager, "IN", data, descriptor=descriptor)
        await anyio.sleep(1)

    assert ["order.v2"] == seen


async def unknown(kind: Annotated[str, Header("CorellId")]) -> None:
    """Take a header that does not exist."""


async def mistyped(kind: Annotated[str, Header("CorrelId")]) -> None:
    """Take bytes as text."""


async def a_class(kind: Annotated[str, Property]) -> None:
    """Forget the brackets."""


async def in_a_batch(bodies: list[str], tenant: Annotated[str, Property()]) -> None:
    """Take one property of many messages."""


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        (unknown, "there is no header 'CorellId'. Did you mean CorrelId?"),
        (mistyped, "CorrelId is of type bytes, and never of type str"),
        (a_class, "Property is a class. Write Annotated[..., Property('kind')]"),
        (in_a_batch, "Header and Property belong to one message, and this handler takes a list"),
    ],
)
def test_a_mark_that_can_never_be_filled_is_refused_at_the_declaration(handler: Callable[..., Any], said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        App().listener("IN")(handler)

    assert said in str(refused.value)
    assert handler.__name__ in str(refused.value)
