"""A selector can use the same fields of a message that a program can read as properties (IBM q022960)."""

import pytest
from msgspec.structs import replace

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers.chain import Header, join
from mqflow.mqi.headers.dead_letter import DeadLetterHeader
from mqflow.mqi.headers.rfh2 import RFH2
from mqflow.mqi.headers.rfh2_folder import read_folder
from mqflow.mqi.options import Persistence
from mqflow.mqi.properties.descriptor_properties import DESCRIPTOR_FIELDS, descriptor_property
from mqflow.mqi.selectors.fields import selectable
from mqflow.mqi.selectors.selector import Value

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


#: A message of IBM's classes for JMS: the elements of the folder jms have no dt=.
OF_JMS = RFH2(
    folders=tuple(map(read_folder,
            ("<mcd><Msd>jms_text</Msd><Type>order</Type></mcd>",
             "<jms><Tms>1700000000000</Tms><Cid>mine</Cid><Gid>g1</Gid><Seq>2</Seq><Dlv>1</Dlv><Pri>1</Pri></jms>",
             "<usr><colour>blue</colour><JMSPriority>9</JMSPriority></usr>", "<mqps><Top>a/b</Top></mqps>"))),
)  # fmt: skip


@pytest.mark.parametrize("before", [(), (DeadLetterHeader(),)], ids=["", "behind a dead-letter header"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("colour", "blue"), ("usr.colour", "blue"), ("JMSType", "order"), ("JMSTimestamp", 1_700_000_000_000),
        ("JMSCorrelationID", "mine"), ("JMSXGroupID", "g1"), ("JMSXGroupSeq", 2), ("jms.Gid", "g1"), ("MQTopicString", "a/b"),
        ("JMSPriority", 7), ("JMSDeliveryMode", "PERSISTENT"),
    ],
)  # fmt: skip
def test_a_selector_sees_a_property_by_its_name_in_jms_and_by_its_whole_name(
    name: str, value: Value, before: tuple[Header, ...]
) -> None:
    descriptor, data = join(replace(DESCRIPTOR, persistence=Persistence.PERSISTENT), [*before, OF_JMS], b"")

    assert value == selectable(descriptor, data)(name)
