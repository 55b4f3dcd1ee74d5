"""Codecs convert a body with any character set and headers to a payload, and back."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.app.errors import PayloadError
from mqflow.app.handlers.codecs import decoder_for, encode
from mqflow.app.handlers.message import Message
from mqflow.app.handlers.outgoing_message import outgoing
from mqflow.mqi import ccsid
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.headers import chain as headers
from mqflow.mqi.headers import dead_letter, rfh2
from mqflow.policy.poison.outcomes import UndecodableError


class Order(msgspec.Struct):
    number: int
    customer: str


ORDER = Order(7, "Grüße")


def message(body: bytes, **descriptor: str | int) -> Message:
    return Message(MessageDescriptor(**descriptor), body, "Q")  # type: ignore[arg-type]  # fields by name, of both types


@pytest.mark.parametrize("character_set", [1208, 0, 819, 850, 37, 500, 1047, 1140, 1200, 13488])
def test_json_decodes_from_every_character_set(character_set: int) -> None:
    text = msgspec.json.encode(ORDER).decode()
    body = text.encode() if character_set == 0 else ccsid.encode(text, character_set, big_endian=False)

    decoded = decoder_for(Order)(message(body, format="MQSTR", ccsid=character_set, encoding=546))

    assert ORDER == decoded


def test_json_decodes_behind_a_chain_of_headers() -> None:
    chain = (
        dead_letter.DeadLetterHeader(reason=2053, destination_queue="IN"),
        rfh2.RFH2(folders=(rfh2.Folder("usr", (rfh2.FolderProperty("tenant", "blue"),)),)),
    )
    start = MessageDescriptor(format="MQSTR", ccsid=1208)
    descriptor, data = headers.join(start, chain, msgspec.json.encode(ORDER))

    got = Message(descriptor, data, "Q")

    assert (ORDER, {"tenant": "blue"}) == (decoder_for(Order)(got), got.properties)


@pytest.mark.parametrize(
    ("payload_type", "body", "descriptor"),
    [
        (Order, b"{", {}),
        (Order, b'{"number":"x","customer":""}', {}),
        (Order, b"\xff\xfe", {}),
        (Order, b"[" * 100_000, {}),
        (str, b"\xff\xff", {"format": "MQSTR", "ccsid": 1208}),
        (str, b"abc", {"format": "MQSTR", "ccsid": 4711}),
        (bytes, b"RFH no header", {"format": "MQHRF2"}),
        (dict, b"short", {"format": "MQDEAD"}),
    ],
)
def test_a_body_that_does_not_decode_raises_one_kind_of_error_with_a_cause(
    payload_type: type, body: bytes, descriptor: dict[str, str | int]
) -> None:
    with pytest.raises(UndecodableError) as refused:
        decoder_for(payload_type)(message(body, **descriptor))

    assert refused.value.__cause__ is not None
    assert str(refused.value)


class QuotingError(ValueError):
    """An error with the interface of pydantic's errors, which quote the body by default."""

    def errors(self, *, include_url: bool, include_context: bool, include_input: bool) -> list[dict[str, Any]]:
        quoted = {"input": "4111 1111 1111 1111"} if include_url or include_context or include_input else {}
        return [{"loc": ("card", 0), "msg": "Input should be a valid integer", **quoted}, {"loc": (), "msg": "Too long"}]

    def __str__(self) -> str:
        return "card: Input should be a valid integer, input_value='4111 1111 1111 1111'"


class Payment:
    """A model with the interface of pydantic's models."""

    @staticmethod
    def model_validate_json(_: bytes) -> "Payment":
        raise QuotingError


def test_the_error_of_a_model_names_the_mistake_and_does_not_quote_the_body() -> None:
    with pytest.raises(UndecodableError) as refused:
        decoder_for(Payment)(message(b'{"card":["4111 1111 1111 1111"]}'))

    assert "card.0: Input should be a valid integer; the body: Too long" == str(refused.value)


@given(st.binary(max_size=200), st.sampled_from(["", "MQSTR", "MQHRF2", "MQDEAD", "MQHMDE", "MQIMS"]), st.integers(-4, 2000))
def test_no_body_raises_another_error(body: bytes, message_format: str, character_set: int) -> None:
    for payload_type in (bytes, str, dict, Order):
        try:
            decoder_for(payload_type)(message(body, format=message_format, ccsid=character_set))
        except UndecodableError:
            continue


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b"\x00", (b"\x00", "", 0)),
        (bytearray(b"ab"), (b"ab", "", 0)),
        ("Grüße", ("Grüße".encode(), "MQSTR", 1208)),
        (Order(1, "A"), (b'{"number":1,"customer":"A"}', "MQSTR", 1208)),
        ({"a": [1]}, (b'{"a":[1]}', "MQSTR", 1208)),
    ],
)
def test_a_payload_becomes_body_format_and_character_set(payload: object, expected: tuple[bytes, str, int]) -> None:
    assert expected == encode(payload)


class Line(msgspec.Struct, rename="camel"):
    unit_price: float
    note: str | None = None


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (Line(NAN), "unitPrice is nan, and JSON has no such number"),
        ({"order": {"lines": [Line(1.0), Line(INF)]}}, "order.lines[1].unitPrice is inf, and JSON has no such number"),
        ((None, -INF), "[1] is -inf, and JSON has no such number"),
        ({"big": 2**70, "price": NAN}, "price is nan, and JSON has no such number"),
        (NAN, "it is nan, and JSON has no such number"),
    ],
)
def test_a_number_that_json_does_not_have_is_refused_and_does_not_become_null(payload: object, said: str) -> None:
    with pytest.raises(PayloadError) as refused:
        outgoing("OUT", payload)

    assert said == refused.value.problem
    assert str(refused.value).startswith("The payload for OUT (")


def test_a_model_of_pydantic_refuses_nan_unless_it_says_how_to_write_it() -> None:
    pydantic = pytest.importorskip("pydantic")
    saying = pydantic.create_model("Saying", __config__=pydantic.ConfigDict(ser_json_inf_nan="null"), price=(float, ...))
    silent = pydantic.create_model("Silent", price=(float, ...))

    assert b'{"price":null}' == encode(saying(price=NAN))[0]
    with pytest.raises(ValueError, match="price is nan, and JSON has no such number"):
        encode(silent(price=NAN))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(JSON.filter(lambda payload: not isinstance(payload, str)))
def test_a_payload_comes_back_as_it_was_or_is_refused(payload: object) -> None:
    try:
        body, *_ = encode(payload)
    except ValueError:
        assert re.search("nan|inf", repr(payload))
    else:
        assert payload == msgspec.json.decode(body)


def test_the_given_descriptor_names_the_format_of_bytes() -> None:
    said = MessageDescriptor(format="MQSTR", ccsid=37, encoding=785, persistence=0)

    of_bytes, of_text = (outgoing("Q", payload, descriptor=said).descriptor for payload in (b"\xc1", "A"))

    assert said == of_bytes
    assert ("MQSTR", 1208) == (of_text.format, of_text.ccsid)


class Mainframe:
    def decode(self, message: Message, payload_type: Any) -> Any:
        raise NotImplementedError

    def encode(self, payload: Any) -> tuple[bytes, str, int, int]:
        return payload, "", 37, 785


@pytest.mark.parametrize("others", [{}, {"priority": 3}, {"descriptor": MessageDescriptor(format="MQSTR", ccsid=819)}])
def test_a_codec_can_say_how_the_numbers_of_its_body_are_written(others: dict[str, Any]) -> None:
    made = outgoing("Q", b"\xc1\x00\x01", codec=Mainframe(), **others).descriptor

    assert ("", 37, 785) == (made.format, made.ccsid, made.encoding)


def test_the_queue_decides_unset_options_except_for_persistence() -> None:
    made = outgoing("Q", b"x").descriptor

    assert (1, -1, -1, 8) == (made.persistence, made.priority, made.expiry_tenths, made.message_type)


def test_wishes_become_fields_of_the_descriptor() -> None:
    made = outgoing("Q", b"x", persistent=True, priority=3, expiry=1.25, reply_to="R", correlation_id=b"c" * 24).descriptor

    assert (1, 3, 13, "R", 1, b"c" * 24) == (
        made.persistence, made.priority, made.expiry_tenths, made.reply_to_queue, made.message_type, made.correlation_id,
    )  # fmt: skip


@pytest.mark.parametrize("expiry", [0, -1, float("inf"), float("nan"), 10**9])
def test_an_invalid_expiry_is_refused_before_anything_is_put(expiry: float) -> None:
    with pytest.raises(MQIError, match=r"MQPUT on Q failed: MQRC_EXPIRY_ERROR \(2013\)"):
        outgoing("Q", b"x", expiry=expiry)
