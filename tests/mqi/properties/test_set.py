"""Message properties: names, types and conversions, sets, and the properties of a forwarded message or a reply."""

import math
import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import Encoding
from mqflow.mqi.properties.property_names import matcher, settable_name, shown_name, whole_name
from mqflow.mqi.properties.set import (
    Copy,
    MessageProperty,
    PropertyType,
    PropertyValue,
    PutAction,
    carried,
    find,
    property_type,
    with_property,
    without_property,
)
from mqflow.mqi.properties.types import converted, from_memory, to_memory, type_of_word
from mqflow.mqi.reason_codes import Reason
from tests.mqi.strategies import property_values

Type = PropertyType


def text(name: str = "usr.colour", value: str = "blue", copy_options: int = Copy.DEFAULT) -> MessageProperty:
    return MessageProperty(name=name, type=Type.STRING, value=value, copy_options=copy_options)


def refused(reason: Reason, call: Callable[[], object]) -> None:
    with pytest.raises(MQIError) as raised:
        call()
    assert reason == raised.value.reason, str(raised.value)


# Source: IBM, "Property names", "Property name restrictions" (q022950), "Mapping from property names" (q104190).
WHOLE_NAMES = (
    ("colour", "usr.colour"),
    ("usr.colour", "usr.colour"),
    ("wmq.Property2", "wmq.Property2"),
    ("grp.one.two", "grp.one.two"),
    ("JMSType", "mcd.Type"),
    ("JMSReplyTo", "jms.Rto"),
    ("JMSCorrelationID", "jms.Cid"),
    ("JMSXGroupID", "jms.Gid"),
    ("JMSXGroupSeq", "jms.Seq"),
    ("mq_usr.a.b.c", "mq_usr.a.b.c"),
    ("größe", "usr.größe"),
    ("$a_1", "usr.$a_1"),
    ("mqx.one", "mqx.one"),
)


@pytest.mark.parametrize(("name", "whole"), WHOLE_NAMES)
def test_a_name_has_a_folder(name: str, whole: str) -> None:
    assert whole == settable_name(name)


# Source: as above. The last three are not identifiers ("Property names": the rules of Java identifiers).
REFUSED_NAMES = (
    "JMSPriority", "JMSAnything", "usr.JMSAnything", "NULL", "between", "Is", "Root.x", "Body.x", "mqx.one.two", "MQ.a.b",
    "a..b", ".a", "a.", "a b", "a-b", "1a",
)  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_NAMES)
def test_a_reserved_or_invalid_name_is_2442(name: str) -> None:
    refused(Reason.PROPERTY_NAME_ERROR, lambda: settable_name(name))


def test_a_name_that_is_not_validated_may_be_a_reserved_one() -> None:
    assert "usr.JMSAnything" == settable_name("JMSAnything", validate=False)


def test_a_name_is_4095_bytes_long_at_most() -> None:
    assert "usr." + "n" * 4_091 == settable_name("usr." + "n" * 4_091)
    refused(Reason.PROPERTY_NAME_LENGTH_ERR, lambda: settable_name("usr." + "n" * 4_092))


def test_a_field_of_the_descriptor_is_not_set_as_a_property() -> None:
    refused(Reason.FUNCTION_NOT_SUPPORTED, lambda: settable_name("Root.MQMD.Priority"))


@pytest.mark.parametrize(
    ("synonym", "whole"), [("JMSMessageID", "Root.MQMD.MsgId"), ("JMSXDeliveryCount", "Root.MQMD.BackoutCount")]
)
def test_some_synonyms_are_fields_of_the_descriptor(synonym: str, whole: str) -> None:
    assert whole == whole_name(synonym)


@pytest.mark.parametrize(
    ("whole", "shown"),
    [("usr.colour", "colour"), ("jms.Exp", "JMSExpiration"), ("mqps.Top", "MQTopicString"), ("wmq.x", "wmq.x")],
)
def test_a_name_is_shown_as_its_synonym_and_without_usr(whole: str, shown: str) -> None:
    """Source: IBM q101850."""
    assert shown == shown_name(whole)


# Source: IBM q101850: % at the end stands for zero or more characters, dots included.
@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("%", ["usr.colour", "usr.cost", "jms.Dst", "grp.a.b"]),
        ("usr.%", ["usr.colour", "usr.cost"]),
        ("usr.co%", ["usr.colour", "usr.cost"]),
        ("cos%", ["usr.cost"]),
        ("JMS%", ["jms.Dst"]),
        ("JMSDestination", ["jms.Dst"]),
        ("grp.%", ["grp.a.b"]),
        ("grp.a", []),
        ("colour", ["usr.colour"]),
        ("Colour", []),
    ],
)
def test_a_wildcard_finds_the_names_with_its_prefix(pattern: str, found: list[str]) -> None:
    names = ["usr.colour", "usr.cost", "jms.Dst", "grp.a.b"]

    assert found == [name for name in names if matcher(pattern)(name)]


def test_an_empty_name_is_2513() -> None:
    refused(Reason.PROPERTY_NAME_LENGTH_ERR, lambda: find((text(),), ""))
    refused(Reason.PROPERTY_NAME_LENGTH_ERR, lambda: settable_name(""))


def test_a_property_is_set_in_its_place_or_at_the_end() -> None:
    one, two, red = text("usr.one"), text("usr.two"), text("usr.one", "red")

    assert (one, two) == with_property((one,), two)
    assert (red, two) == with_property((one, two), red)
    assert (two,) == without_property((one, two), 0)


def test_properties_are_found_one_after_the_other() -> None:
    properties = (text("usr.one"), text("jms.Dst"), text("usr.two"))

    assert (0, 2, None) == (find(properties, "usr.%"), find(properties, "usr.%", after=0), find(properties, "usr.%", after=2))


@pytest.mark.parametrize(
    ("action", "names"),
    [
        (PutAction.NEW, ["all", "forward", "publish", "reply", "report", "none"]),
        (PutAction.FORWARD, ["all", "forward"]),
        (PutAction.REPLY, ["all", "reply"]),
        (PutAction.REPORT, ["all", "report"]),
    ],
)
def test_the_copy_options_decide_which_properties_are_copied(action: PutAction, names: list[str]) -> None:
    options = (Copy.ALL, Copy.FORWARD, Copy.PUBLISH, Copy.REPLY, Copy.REPORT, Copy.NONE)
    words = ("all", "forward", "publish", "reply", "report", "none")
    original = [text(name, copy_options=bits) for name, bits in zip(words, options, strict=True)]

    assert names == [each.name for each in carried(original, (), action)]


def test_a_new_property_stands_over_the_original_one() -> None:
    original, new = text(value="blue"), text(value="red")

    assert (new,) == carried([original], [new], PutAction.FORWARD)


# Source: IBM, MQIMPO_CONVERT_TYPE: to a wider number, of its kind; to text from everything; from text by its form.
CONVERSIONS: tuple[tuple[Type, PropertyValue, Type, PropertyValue], ...] = (
    (Type.INT8, -1, Type.INT64, -1),
    (Type.INT32, 5, Type.INT32, 5),
    (Type.FLOAT32, 0.5, Type.FLOAT64, 0.5),
    (Type.INT32, 5, Type.STRING, "5"),
    (Type.FLOAT64, 2.5, Type.STRING, "2.5"),
    (Type.BOOLEAN, True, Type.STRING, "TRUE"),
    (Type.BOOLEAN, True, Type.INT16, 1),
    (Type.BYTE_STRING, b"\x0a\xff", Type.STRING, "0AFF"),
    (Type.STRING, "5", Type.INT32, 5),
    (Type.STRING, "  -5", Type.INT8, -5),
    (Type.STRING, "2.5e1", Type.FLOAT64, 25.0),
    (Type.STRING, "false", Type.BOOLEAN, False),
    (Type.STRING, "1", Type.BOOLEAN, True),
    (Type.STRING, "0aFF", Type.BYTE_STRING, b"\x0a\xff"),
    (Type.NULL, None, Type.NULL, None),
)


@pytest.mark.parametrize(("kind", "value", "wanted", "expected"), CONVERSIONS)
def test_a_value_is_converted(kind: Type, value: PropertyValue, wanted: Type, expected: PropertyValue) -> None:
    assert expected == converted("usr.x", kind, value, wanted)


# Source: rc2470, rc2472.
NO_CONVERSIONS: tuple[tuple[Type, PropertyValue, Type, Reason], ...] = (
    (Type.INT64, 5, Type.INT32, Reason.PROP_CONV_NOT_SUPPORTED),
    (Type.FLOAT64, 0.5, Type.FLOAT32, Reason.PROP_CONV_NOT_SUPPORTED),
    (Type.INT32, 5, Type.FLOAT64, Reason.PROP_CONV_NOT_SUPPORTED),
    (Type.INT32, 1, Type.BOOLEAN, Reason.PROP_CONV_NOT_SUPPORTED),
    (Type.BYTE_STRING, b"\x05", Type.INT32, Reason.PROP_CONV_NOT_SUPPORTED),
    (Type.NULL, None, Type.STRING, Reason.PROP_CONV_NOT_SUPPORTED),
    (Type.STRING, "", Type.NULL, Reason.PROP_CONV_NOT_SUPPORTED),
    (Type.STRING, "five", Type.INT32, Reason.PROP_NUMBER_FORMAT_ERROR),
    (Type.STRING, "128", Type.INT8, Reason.PROP_NUMBER_FORMAT_ERROR),
    (Type.STRING, "5 ", Type.INT8, Reason.PROP_NUMBER_FORMAT_ERROR),
    (Type.STRING, "maybe", Type.BOOLEAN, Reason.PROP_NUMBER_FORMAT_ERROR),
    (Type.STRING, "0a f", Type.BYTE_STRING, Reason.PROP_NUMBER_FORMAT_ERROR),
    (Type.STRING, "9" * 100_000, Type.INT64, Reason.PROP_NUMBER_FORMAT_ERROR),
)


@pytest.mark.parametrize(("kind", "value", "wanted", "reason"), NO_CONVERSIONS)
def test_a_conversion_that_could_lose_data_is_refused(kind: Type, value: PropertyValue, wanted: Type, reason: Reason) -> None:
    refused(reason, lambda: converted("usr.x", kind, value, wanted))


def test_an_unknown_type_is_2473() -> None:
    assert Type.INT8 is property_type(0x10, "usr.x")
    refused(Reason.PROPERTY_TYPE_ERROR, lambda: property_type(3, "usr.x"))


@given(property_values(), st.sampled_from([Encoding.NATIVE, Encoding.NORMAL]))
def test_a_value_is_the_same_in_memory_and_out_of_it(typed: tuple[Type, PropertyValue], encoding: int) -> None:
    kind, value = typed

    assert value == from_memory(kind, to_memory(kind, value, encoding=encoding), encoding=encoding)


def test_memory_has_the_byte_order_and_the_character_set_asked_for() -> None:
    assert b"\x00\x05" == to_memory(Type.INT16, 5, encoding=Encoding.NORMAL)
    assert struct.pack(">d", 0.5) == to_memory(Type.FLOAT64, 0.5, encoding=Encoding.NORMAL)
    assert "ü" == from_memory(Type.STRING, b"\xfc", ccsid=819)
    refused(Reason.SOURCE_CCSID_ERROR, lambda: from_memory(Type.STRING, b"\xfc"))
    refused(Reason.PROP_VALUE_NOT_CONVERTED, lambda: to_memory(Type.STRING, "€", ccsid=819))


def test_a_float_beyond_four_bytes_is_infinity_there_and_nan_stays_nan() -> None:
    assert -math.inf == from_memory(Type.FLOAT32, to_memory(Type.FLOAT32, -1e300))
    assert math.isnan(float(str(from_memory(Type.FLOAT32, to_memory(Type.FLOAT32, math.nan)))))


@pytest.mark.parametrize("kind", [kind for kind in Type if kind is not Type.NULL])
def test_the_word_of_a_type_says_the_type(kind: Type) -> None:
    """Source: IBM q104140."""
    assert kind is type_of_word(kind.word, "not null")


@pytest.mark.parametrize(("word", "kind"), [("int", Type.INT64), ("", Type.STRING), ("date", Type.STRING)])
def test_a_word_that_is_no_types_own(word: str, kind: Type) -> None:
    """Source: IBM q104140: `int` is i8, and an unknown word is a string."""
    assert kind is type_of_word(word, "5")
