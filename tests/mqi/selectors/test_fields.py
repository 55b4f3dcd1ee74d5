"""A selector can use the same fields of a message that a program can read as properties (IBM q022960)."""

import pytest

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.properties.descriptor_properties import DESCRIPTOR_FIELDS, descriptor_property
from mqflow.mqi.selectors.fields import selectable

DESCRIPTOR = MessageDescriptor(message_id=b"m" * 24, priority=7, put_application_name="app", original_length=9)


@pytest.mark.parametrize("field", sorted(DESCRIPTOR_FIELDS))
def test_a_selector_sees_a_field_as_the_property_of_its_name(field: str) -> None:
    name = f"Root.MQMD.{field}"
    selected = selectable(DESCRIPTOR, b"")(name)

    found = descriptor_property(DESCRIPTOR, name)
    assert found is not None
    assert selected == (found.value.rstrip() if isinstance(found.value, str) else found.value)


@pytest.mark.parametrize("name", ["Root.MQMD.StrucId", "Root.MQMD.Version", "Root.MQMD.Nothing", "Priority"])
def test_an_unknown_field_is_unknown_to_a_selector(name: str) -> None:
    assert selectable(DESCRIPTOR, b"")(name) is None
