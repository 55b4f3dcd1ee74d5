"""Names: the valid names of a queue, and a name in a fixed-length field."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.embedded.state.identifiers import dynamic_queue_name
from mqflow.mqi.names import dynamic_pattern, is_channel_name, is_object_name, padded, port_of, stripped


@pytest.mark.parametrize("name", ["A", "ORDERS.IN", "orders_in", "a/b%c", "0.1", "A" * 48])
def test_a_queue_may_have_this_name(name: str) -> None:
    assert is_object_name(name)


@pytest.mark.parametrize("name", ["", " ", "A B", "A" * 49, "A-B", "Ä", "A\n", "A*", "A'", 'A"', "A;B", "A\0"])
def test_no_queue_may_have_this_name(name: str) -> None:
    assert not is_object_name(name)


def test_a_channel_s_name_is_that_of_a_queue_with_20_characters_at_most() -> None:
    assert [True, False, False] == [is_channel_name(name) for name in ("A" * 20, "A" * 21, "A B")]


@pytest.mark.parametrize(
    ("text", "port"),
    [
        ("0", 0),
        ("01414", 1414),
        ("65535", 65_535),
        ("65536", None),
        ("", None),
        ("-1", None),
        ("²", None),
        ("٣", None),
        ("9" * 5_000, None),
    ],
)
def test_a_port_is_a_number_of_16_bits(text: str, port: int | None) -> None:
    assert port == port_of(text)


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("AMQ.5C991A0D23B6310", "AMQ.*"),  # observed on a queue manager on Unix
        ("AMQ.00064748462040A2", "AMQ.*"),
        ("SYSTEM.MANAGED.NDURABLE.5C991A0D23B63100", "SYSTEM.MANAGED.NDURABLE.*"),
        ("BEEF5C991A0D23B63100", "BEEF*"),
        ("ORDERS.IN", ""),
        ("ORDERS.20261121", ""),
        ("AMQ.5c991a0d23b63100", ""),
    ],
)
def test_the_name_of_a_dynamic_queue_shows_its_pattern(name: str, pattern: str) -> None:
    assert pattern == dynamic_pattern(name)


@given(st.text("ABCabc019._/%", min_size=1, max_size=32), st.integers(0, 16**16 - 1))
def test_any_dynamic_name_is_derived_from_the_name_it_made(prefix: str, number: int) -> None:
    made = dynamic_queue_name(f"{prefix}*", number)

    assert made.startswith(dynamic_pattern(made)[:-1])
    assert len(made) - len(dynamic_pattern(made)) < 16


@given(st.text("ABCabc019._/%", max_size=48))
def test_a_name_survives_its_field(name: str) -> None:
    assert name == stripped(padded(name, 48))


@given(st.text(), st.integers(0, 64))
def test_a_field_has_its_length_with_any_text(text: str, length: int) -> None:
    assert length == len(padded(text, length))


@pytest.mark.parametrize(
    ("field", "text"),
    [(b"AB  ", "AB"), (b"AB\0\0", "AB"), (b"A\0B ", "A"), (b" A  ", " A"), (b"    ", ""), (b"A\t\n ", "A\t\n")],
)
def test_the_text_of_a_field_ends_before_its_padding(field: bytes, text: str) -> None:
    assert text == stripped(field)


def test_a_character_that_a_field_cannot_hold_is_a_question_mark() -> None:
    assert b"?uro" == padded("€uro", 4)
