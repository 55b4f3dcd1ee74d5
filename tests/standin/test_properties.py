"""Values of message properties in their types, and what goes along with a message that is forwarded or answered."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Format
from mqflow.mqi.rfh2_folder import PropertyValue
from mqflow.standin.properties import Held
from mqflow.standin.property_headers import Action, carried, properties_bytes, taken, with_properties
from mqflow.standin.property_values import Type, packed, unpacked

# MQCOPY_* (IBM, MQPD.CopyOptions)
ALL, FORWARD, PUBLISH, REPLY, REPORT, NONE = 1, 2, 4, 8, 16, 0


def held(name: str = "usr.colour", value: str = "blue", copy_options: int = 0x16) -> Held:
    return Held(name=name, type=Type.STRING, value=value.encode(), copy_options=copy_options)


# Source: IBM, "Property data type conversion" of MQINQMP: number to number where it fits, text to number and back.
CONVERSIONS: tuple[tuple[Type, PropertyValue, Type, PropertyValue], ...] = (
    (Type.INT32, 5, Type.STRING, "5"),
    (Type.STRING, "5", Type.INT32, 5),
    (Type.STRING, "2.5", Type.FLOAT64, 2.5),
    (Type.INT8, -1, Type.INT64, -1),
    (Type.BOOLEAN, True, Type.STRING, "TRUE"),
    (Type.STRING, "false", Type.BOOLEAN, False),
    (Type.BYTE_STRING, b"\x0a\xff", Type.STRING, "0AFF"),
)


@pytest.mark.parametrize(("kind", "value", "wanted", "expected"), CONVERSIONS)
def test_a_value_is_converted(kind: Type, value: PropertyValue, wanted: Type, expected: PropertyValue) -> None:
    assert expected == unpacked(wanted, packed(wanted, unpacked(kind, packed(kind, value))))


@pytest.mark.parametrize(
    ("kind", "value", "error"),
    [
        (Type.INT8, 128, OverflowError),
        (Type.INT32, "five", ValueError),
        (Type.BOOLEAN, "maybe", ValueError),
        (Type.INT32, b"\x05", TypeError),
        (Type.INT32, None, TypeError),
        (Type.NULL, 5, TypeError),
    ],
)
def test_a_value_that_is_none_of_the_type_is_refused(kind: Type, value: PropertyValue, error: type[Exception]) -> None:
    with pytest.raises(error):
        packed(kind, value)


@pytest.mark.parametrize(
    ("action", "names"),
    [
        (Action.NEW, ["all", "forward", "publish", "reply", "report"]),
        (Action.FORWARD, ["all", "forward"]),
        (Action.REPLY, ["all", "reply"]),
        (Action.REPORT, ["all", "report"]),
    ],
)
def test_what_goes_along_is_what_its_copy_options_say(action: Action, names: list[str]) -> None:
    options = {"all": ALL, "forward": FORWARD, "publish": PUBLISH, "reply": REPLY, "report": REPORT, "none": NONE}
    original = [held(name, copy_options=bits) for name, bits in options.items()]

    assert names == [each.name for each in carried(original, (), action)]


def test_a_new_property_stands_over_the_original_one() -> None:
    original, new = held(value="blue"), held(value="red")

    assert [new] == carried([original], [new], Action.FORWARD)


numbers = st.sampled_from([Type.INT8, Type.INT16, Type.INT32, Type.INT64]).flatmap(
    lambda kind: st.integers(-(1 << 8 * kind.size - 1), (1 << 8 * kind.size - 1) - 1).map(lambda number: (kind, number))
)
values = st.one_of(
    numbers,
    st.booleans().map(lambda value: (Type.BOOLEAN, value)),
    st.binary(max_size=40).map(lambda value: (Type.BYTE_STRING, value)),
    st.floats(allow_nan=False).map(lambda value: (Type.FLOAT64, value)),
    st.text(st.characters(categories=["L", "N", "P", "Zs"]), max_size=40).map(lambda value: (Type.STRING, value)),
    st.just((Type.NULL, None)),
)
names = st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,8}", fullmatch=True)


@given(st.dictionaries(names, values, min_size=1, max_size=5), st.binary(max_size=60))
def test_properties_and_data_are_the_same_behind_a_header_and_out_of_it(
    given_properties: dict[str, tuple[Type, PropertyValue]], body: bytes
) -> None:
    properties = [
        Held(name=f"usr.{name}", type=kind, value=packed(kind, value)) for name, (kind, value) in given_properties.items()
    ]
    descriptor = MessageDescriptor(format=Format.STRING, ccsid=1208)

    framed_descriptor, framed = with_properties(descriptor, body, properties)

    assert Format.RF_HEADER_2 == framed_descriptor.format
    assert (descriptor, body, properties) == taken(framed_descriptor, framed)
    assert len(framed) - len(body) == properties_bytes(framed_descriptor, framed)


def test_folders_that_hold_no_properties_stay_in_the_data() -> None:
    descriptor, framed = with_properties(
        MessageDescriptor(format=Format.STRING, ccsid=1208), b"body", [held(), held("other.x")]
    )

    left, data, properties = taken(descriptor, framed)

    assert (Format.RF_HEADER_2, ["usr.colour"]) == (left.format, [each.name for each in properties])
    assert b"<other><x>blue</x></other>" in data
    assert data.endswith(b"body")


def test_a_float_that_is_no_number_stays_none() -> None:
    assert math.isnan(float(str(unpacked(Type.FLOAT32, packed(Type.FLOAT32, math.nan)))))
