"""The structures of the adapter against those of the stand-in library, which were written from another source.

And their use: the MQI writes into the bytes that it receives.
"""

import pytest

from mqflow.bindings import structures
from mqflow.bindings.structures import MQCD, MQGMO, Strings, Structure, fresh
from mqflow.bindings.subscriptions import asked
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.standin.memory import layouts
from mqflow.standin.memory.layouts import Layout

NAMES = ("MQOD", "MQGMO", "MQPMO", "MQCNO", "MQSCO", "MQCSP", "MQSD", "MQSRO", "MQCD")
_STRINGS = ("ObjectString", "SelectionString", "ResObjectString", "SubName", "SubUserData")


def both(name: str) -> tuple[Structure, Layout]:
    return getattr(structures, name), getattr(layouts, name)


def theirs(field: str) -> str:
    """Return the stand-in's name of a field: there the parts of a string have VS in their names."""
    for string in _STRINGS:
        if field.startswith(string):
            return field.replace(string, f"{string}VS")
    return field


@pytest.mark.parametrize("name", NAMES)
def test_every_field_begins_where_it_does_in_the_mqi(name: str) -> None:
    ours, layout = both(name)
    known = {field: offset for field, offset in ours.offsets.items() if theirs(field) in layout.fields}

    assert {field: layout.fields[theirs(field)].offset for field in known} == known
    assert {"StrucId", "Version"} >= ours.offsets.keys() - known.keys()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "MQCD"])
def test_a_structure_is_as_long_as_one_of_its_versions(name: str) -> None:
    ours, layout = both(name)

    assert len(ours.pack()) == max(layout.lengths.values())


def test_behind_a_channel_definition_of_version_11_are_zeros() -> None:
    """ibmmq looks at QuantumSafeAlgorithm, of version 13, before it looks at the version, and raises the version then."""
    packed = MQCD.pack()

    assert (11, layouts.MQCD.lengths[11]) == (MQCD.number(packed, "Version"), MQCD.number(packed, "StrucLength"))
    assert bytes(len(packed) - 1984) == packed[1984:]
    assert len(packed) >= max(layouts.MQCD.lengths.values())


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError, match="no such field: Option"):
        MQGMO.pack(Option=1)


def test_fresh_bytes_are_a_new_object() -> None:
    template = MQGMO.pack()

    assert template == fresh(template)
    assert template is not fresh(template)


def test_a_shared_subscription_is_refused_because_an_mqsd_cannot_ask_for_it() -> None:
    with pytest.raises(MQIError) as raised:
        asked(SubscriptionDescriptor(name="both", shared=True), Strings())

    assert Reason.FUNCTION_NOT_SUPPORTED == raised.value.reason
