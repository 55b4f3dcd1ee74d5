"""AsyncAPI's own JSON schema accepts the documents of applications, whatever they declare."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from mqflow import App, Header, Message, Property
from mqflow.app.asyncapi import asyncapi_document
from tests.foreign.npm import unpacked

PACKAGE = "@asyncapi/specs@6.11.1"
SHA512 = (
    "0375812ea00a1a8276fba15616da63065090d6814272ce06c45ef3b081af36aa"
    "7f9251941e3940dda01c67d5cc3292c613cccf7980f3db1f4598ee834ae2ab69"
)


class Order(Struct):
    number: Annotated[int, "an annotation"]
    lines: list["Order"]
    weights: tuple[float, ...] | None = None


async def of_order(order: Order, tenant: Annotated[str, Property("tenant")]) -> Order | None: ...
async def of_text(body: str, kind: Annotated[str | None, Header("JMSType")] = None) -> dict[str, list[int]]:
    return {body: []}


async def of_bytes(body: bytes) -> bytes:
    return body


async def of_batch(orders: list[Order]) -> None: ...
async def of_message(message: Message) -> None: ...


HANDLERS = (of_order, of_text, of_bytes, of_batch, of_message)
QUEUES = st.text("ABC._/%09", min_size=1, max_size=48)
URLS = st.sampled_from(["embedded:./data?qmgr=QM1", "ibmmq://a:1,b/QM1?channel=C", "auto://[::1]/?channel=C", "ibmmq:///QM1"])


@pytest.fixture(scope="module")
def official(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = unpacked(PACKAGE, SHA512, tmp_path_factory.mktemp("npm"))
    return jsonschema.Draft7Validator(json.loads(Path(folder, "schemas", "3.0.0.json").read_text()))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    url=URLS,
    listened=st.lists(
        st.tuples(QUEUES, st.sampled_from(HANDLERS), st.booleans(), st.booleans()), max_size=5, unique_by=lambda x: x[0]
    ),
    title=st.text(),
)
def test_every_document_is_valid(official: Any, url: str, listened: list[tuple[str, Any, bool, bool]], title: str) -> None:
    app = App(url)
    for number, (queue, function, of_topic, publishes) in enumerate(listened):
        handler = partial(function)
        if publishes:
            app.publisher(f"OUT.{number % 2}", expiry_s=60)(handler)
        app.listener("" if of_topic else queue, topic=queue if of_topic else "")(handler)

    document = json.loads(json.dumps(asyncapi_document(app, title=title, version="1.0.0")))

    assert [] == [f"{error.json_path}: {error.message[:200]}" for error in official.iter_errors(document)]
    assert len(document["operations"]) >= len(listened)


def test_a_document_with_a_binding_that_does_not_exist_is_refused(official: Any) -> None:
    document = asyncapi_document(App(), title="shop", version="1.0.0")

    assert official.is_valid(document)
    assert not official.is_valid(document | {"channels": {"Q": {"address": "Q", "bindings": {"ibmmq": {"queue": {}}}}}})
