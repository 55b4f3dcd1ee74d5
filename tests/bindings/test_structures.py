"""The structures of the adapter: their initial values by the layouts of the MQI, and the bytes that the MQI writes into."""

import pytest

from mqflow.bindings import structures
from mqflow.bindings.structures import MQCD, MQGMO, MQOD, MQSD, Strings, fresh
from mqflow.bindings.subscriptions import asked, signed
from mqflow.mqi import c_structures
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionDescriptor
from tests.conformance.under_test import refused


def test_each_value_stands_where_the_layout_has_its_field() -> None:
    packed = MQCD.pack(ChannelName=b"APP.SVRCONN", MCASecurityId=bytes(range(40)), SSLPeerNamePtr=2**40, UseDLQ=1)

    fields = c_structures.MQCD.fields
    assert b"APP.SVRCONN" == packed[: fields["ChannelName"].length].rstrip(b"\0")
    assert (11, 1) == tuple(int.from_bytes(packed[fields[name].offset :][:4], "little") for name in ("Version", "UseDLQ"))
    assert bytes(range(40)) == packed[fields["MCASecurityId"].offset :][:40] == MQCD.raw(packed, "MCASecurityId")
    assert 2**40 == int.from_bytes(packed[fields["SSLPeerNamePtr"].offset :][:8], "little")


def test_a_structure_states_its_name_and_version_and_an_empty_string_the_application_s_character_set() -> None:
    packed = MQOD.pack()

    assert (b"OD  ", 4, 424) == (packed[:4], MQOD.number(packed, "Version"), len(packed))
    assert (0, -3) == (MQOD.number(packed, "ObjectStringVSLength"), MQOD.number(packed, "ObjectStringVSCCSID"))


def test_behind_a_channel_definition_of_version_11_are_zeros() -> None:
    """ibmmq looks at QuantumSafeAlgorithm, of version 13, before it looks at the version, and raises the version then."""
    packed = MQCD.pack()

    lengths = c_structures.MQCD.lengths
    assert (11, lengths[11]) == (MQCD.number(packed, "Version"), MQCD.number(packed, "StrucLength"))
    assert bytes(len(packed) - 1984) == packed[1984:]
    assert len(packed) >= max(lengths.values())


@pytest.mark.parametrize("name", ["MQCD", "MQCNO", "MQCSP", "MQGMO", "MQOD", "MQPMO", "MQSCO", "MQSD", "MQSRO"])
def test_each_field_of_a_structure_is_read_where_it_was_packed(name: str) -> None:
    structure, layout = getattr(structures, name), getattr(c_structures, name)
    given = {
        field.name: bytes(number % 255 + 1 for _ in range(field.length)) if field.kind.endswith("s") else number
        for number, field in enumerate(layout.fields.values(), start=1)
    }

    packed = structure.pack(**given)

    read = {
        name: structure.raw(packed, name) if isinstance(value, bytes) else structure.number(packed, name)
        for name, value in given.items()
    }
    assert given == read
    assert not layout.identifier or layout.identifier == packed[:4] == structure.raw(packed, "StrucId")


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError, match="no such field: Option"):
        MQGMO.pack(Option=1)


def test_fresh_bytes_are_a_new_object() -> None:
    template = MQGMO.pack()

    assert template == fresh(template)
    assert template is not fresh(template)


def test_a_shared_subscription_is_refused_because_an_mqsd_cannot_ask_for_it() -> None:
    with refused(Reason.FUNCTION_NOT_SUPPORTED):
        asked(SubscriptionDescriptor(name="both", shared=True), Strings())


def test_an_alternate_user_of_12_characters_is_given_whole() -> None:
    described = asked(SubscriptionDescriptor(object_string="a", alternate_user="twelve_chars"), Strings())

    assert b"twelve_chars" == MQSD.raw(described, "AlternateUserId")


@pytest.mark.parametrize(
    ("handle", "number"), [(0x7FFF_FFFF, 2**31 - 1), (0x8000_0000, -(2**31)), (0xFFFF_FFFF, -1), (-1, -1), (2**64 - 1, -1)]
)
def test_a_handle_of_32_bits_has_its_sign_however_it_was_widened(handle: int, number: int) -> None:
    assert number == signed(handle)


@pytest.mark.parametrize(("length", "text"), [(-1, ""), (0, ""), (3, "ORD"), (99, "ORDERS\0\0")])
def test_an_answered_string_has_the_length_that_the_mqi_says_within_its_buffer(length: int, text: str) -> None:
    strings = Strings()
    strings.exchanged("SubName", "ORDERS", 8)

    assert text == strings.answered("SubName", length)
