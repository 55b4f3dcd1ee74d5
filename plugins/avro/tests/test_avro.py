"""An Avro schema is a codec: it writes and reads one datum, and refuses everything else."""

import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqflow import Message, MessageDescriptor
from mqflow.testing.kit import QueueManagerKit
from mqflow_avro import Avro

README = dict(
    re.findall(
        r'^```\w+ title="([^"]+)"\n(.*?)^```$', (Path(__file__).parents[1] / "README.md").read_text(), re.MULTILINE | re.DOTALL
    )
)
ORDER = Avro(README["order.avsc"])
VALUES: dict[str, Any] = {"number": 7, "customer": "Grüße", "total": Decimal("12.50")}


class Order(msgspec.Struct):
    number: int
    customer: str | None
    total: Decimal


def message(body: bytes) -> Message:
    return Message(MessageDescriptor(format=""), body, "Q")


def test_the_body_is_the_binary_encoding_of_the_specification() -> None:
    assert (b"\x0e\x02\x0eGr\xc3\xbc\xc3\x9fe\x04\x04\xe2", "", 0) == ORDER.encode(Order(**VALUES))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("string", "a"),
        ("bytes", b"\x00"),
        ("double", 1.5),
        ({"type": "array", "items": "long"}, [1, 2]),
        ({"type": "map", "values": "int"}, {"a": 1}),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
        ({"type": "fixed", "name": "F", "size": 2}, b"\x00\x01"),
        ({"type": "long", "logicalType": "timestamp-micros"}, datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)),
        ({"type": "string", "logicalType": "uuid"}, UUID(int=7)),
        (["null", "long"], None),
    ],
)
@pytest.mark.parametrize("schema_id", [None, 7])
def test_a_value_survives_its_schema(schema: Any, value: Any, schema_id: int | None) -> None:
    codec = Avro(schema if not isinstance(schema, str) else f'"{schema}"', schema_id=schema_id)

    assert value == codec.decode(message(codec.encode(value)[0]), Any)


def test_the_number_of_the_schema_stands_before_the_datum() -> None:
    numbered = Avro('"long"', schema_id=258)

    assert b"\x00\x00\x00\x01\x02\x02" == numbered.encode(1)[0]
    with pytest.raises(ValueError, match="begins with 0000000103, and not with 0000000102: 00 and the number of the schema"):
        numbered.decode(message(b"\x00\x00\x00\x01\x03\x02"), int)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"number": "x"}, "Order.number is <x> of type"),
        ({"number": 2**63}, "Order.number"),
        ({"customer": 7}, "customer"),
        ({"total": Decimal("1.234")}, "Scale provided"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_payload_that_is_not_of_the_schema_is_refused(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=f"The payload is not of the Avro schema: .*{problem}"):
        ORDER.encode({**VALUES, **change})


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "not of the Avro schema: "),
        (b"\x0e\x02\x0eGr", "not of the Avro schema: "),
        (b"\x0e\x06", "not of the Avro schema: "),
        (b"\x0e\x02\x02\xff\x02\x01", "not of the Avro schema: UnicodeDecodeError"),
        (ORDER.encode(VALUES)[0] + b"\x00", "1 bytes after its datum"),
    ],
)
def test_a_body_that_is_not_of_the_schema_is_undecodable(body: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        ORDER.decode(message(body), Order)


NODE: dict[str, Any] = {"type": "record", "name": "shop.Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}


@pytest.mark.parametrize("levels", [10_000, 100_000])
@pytest.mark.parametrize(
    "schema",
    [
        NODE,
        ["null", NODE],
        {"type": "map", "values": NODE},
        {"type": "record", "name": "N", "fields": [{"name": "n", "type": {"type": "array", "items": "N"}}]},
        {"type": "record", "name": "N", "fields": [{"name": "n", "type": "N"}]},
    ],
    ids=["record", "union", "map", "array", "without an end"],
)
def test_a_body_that_nests_too_deep_is_undecodable_and_does_not_end_the_process(schema: Any, levels: int) -> None:
    with pytest.raises(ValueError, match="The body is not of the Avro schema: "):
        Avro(schema).decode(message(b"\x02" * levels), Any)


def test_a_recursive_datum_survives_its_schema() -> None:
    value: dict[str, Any] = {"next": {"next": {"next": None}}}

    assert value == Avro(NODE).decode(message(Avro(NODE).encode(value)[0]), dict)


@settings(max_examples=40)
@given(st.binary(max_size=40))
def test_any_body_is_an_order_or_undecodable(body: bytes) -> None:
    try:
        read = ORDER.decode(message(body), Order)
    except ValueError:
        return
    assert isinstance(read, Order)


def test_a_datum_that_is_not_of_the_handlers_type_is_undecodable() -> None:
    with pytest.raises(msgspec.ValidationError, match="customer"):
        ORDER.decode(message(ORDER.encode({**VALUES, "customer": None})[0]), msgspec.defstruct("Strict", [("customer", str)]))


@pytest.mark.parametrize("schema", ["{", '"no-type"', '{"type": "record"}', "5", {"name": "x"}, {"type": "array"}, 5, None])
def test_an_object_that_is_no_schema_is_refused(schema: Any) -> None:
    with pytest.raises(ValueError, match="This is no Avro schema: "):
        Avro(schema)


@pytest.mark.parametrize("schema_id", [-1, 2**32])
def test_a_number_of_a_schema_without_four_bytes_is_refused(schema_id: int) -> None:
    with pytest.raises(ValueError, match=f"schema_id={schema_id}: the number of a schema is 0 to 4294967295"):
        Avro('"long"', schema_id=schema_id)


@pytest.mark.mq_backend("asyncio", "trio")
async def test_the_application_of_the_readme_books_an_order(
    mq: QueueManagerKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "order.avsc").write_text(f"\ufeff{README['order.avsc']}")  # some editors on Windows begin a file with this mark
    names: dict[str, Any] = {"__name__": "readme"}
    exec(README["app.py"], names)  # noqa: S102 - the text of our own README
    for queue in ("ORDERS.IN", "ORDERS.BOOKED"):
        mq.define(queue)

    async with mq.run(names["app"]):
        await names["app"].put("ORDERS.IN", VALUES, codec=ORDER)
        [booked] = await mq.drain("ORDERS.BOOKED")

    assert VALUES == ORDER.decode(booked, dict)
