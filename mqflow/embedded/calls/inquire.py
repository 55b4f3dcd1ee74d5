"""MQINQ and MQSET. The tables of attributes decide which selectors and values are valid.

Callers hold the queue manager's lock.
Source: IBM q026770 (MQINQ), MQSET (Selectors); rc2006, rc2020, rc2067, rc2068, rc2075 to rc2078.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from mqflow.embedded.calls.pending_answer import Pending
from mqflow.embedded.calls.queue_attributes import attributes_now, change_queue
from mqflow.embedded.catalogue.kinds import DefinedObject
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.objects import ObjectHandle
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.mqi.attributes.queue import NOT_APPLICABLE, QUEUE_ATTRIBUTES, AttributeSpec
from mqflow.mqi.attributes.queue_manager import QUEUE_MANAGER_ATTRIBUTES
from mqflow.mqi.options import OpenOption, QueueType
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import Inquired

__all__ = ("inquire_object", "set_object")


def _by_selector(specs: Iterable[AttributeSpec]) -> dict[int, AttributeSpec]:
    return {spec.selector: spec for spec in specs if spec.selector}


_OF_QUEUES: Final = _by_selector(QUEUE_ATTRIBUTES)
_OF_KIND: Final = {kind: _by_selector(spec for spec in QUEUE_ATTRIBUTES if kind in spec.kinds) for kind in QueueType}
_OF_QUEUE_MANAGERS: Final = _by_selector(QUEUE_MANAGER_ATTRIBUTES)


def inquire_object(state: QueueManagerState, handle: ObjectHandle, selectors: Sequence[int]) -> Pending[Inquired]:
    """Return the values by selector. Texts are padded with blanks to their length in MQ.

    If only other kinds of queue have an attribute, its value is -1 or asterisks, and the result has the warning 2068. Refuses
    with 2067 a selector that no object has.
    """
    if not handle.bits & OpenOption.INQUIRE:
        raise Refusal(Reason.NOT_OPEN_FOR_INQUIRE)
    if handle.noun:
        return Pending(_inquire_defined(state, handle, selectors))
    record: Struct
    target = handle.alias or handle.queue
    if target is None:
        record, applicable, known = state.attributes, _OF_QUEUE_MANAGERS, _OF_QUEUE_MANAGERS
    else:
        record = attributes_now(target)
        applicable, known = _OF_KIND[record.kind], _OF_QUEUES
    values: dict[int, int | str] = {}
    reason = Reason.NONE
    for selector in selectors:
        spec = applicable.get(selector)
        if spec is not None:
            value = getattr(record, spec.field)  # the field name comes from the table
            values[selector] = value.ljust(spec.chars) if spec.chars else int(value)
        elif (other := known.get(selector)) is not None:
            values[selector] = "*" * other.chars if other.chars else NOT_APPLICABLE
            reason = Reason.SELECTOR_NOT_FOR_TYPE
        else:
            raise Refusal(Reason.SELECTOR_ERROR, f"Selector {selector} is not an attribute of this object")
    return Pending(Inquired(values, reason))


def _inquire_defined(state: QueueManagerState, handle: ObjectHandle, selectors: Sequence[int]) -> Inquired:
    """Return attributes of a namelist or a process. MQCA_NAMES is one text, with each name padded to its length (MQINQ)."""
    found = state.objects[handle.noun.lower()].get(handle.name)
    if not isinstance(found, DefinedObject):
        raise Refusal(Reason.OBJECT_CHANGED, "It was deleted since it was opened")
    known, row = _by_selector(found.attributes), found.row
    values: dict[int, int | str] = {}
    for selector in selectors:
        spec = known.get(selector)
        if spec is None:
            raise Refusal(Reason.SELECTOR_ERROR, f"Selector {selector} is not an attribute of a {found.noun}")
        value = row[spec.field]
        if isinstance(value, tuple):
            values[selector] = "".join(str(name).ljust(spec.chars) for name in value)
        else:
            values[selector] = str(value).ljust(spec.chars) if spec.chars else int(value)
    return Inquired(values, Reason.NONE)


def set_object(state: QueueManagerState, handle: ObjectHandle, values: Mapping[int, int | str]) -> Pending[None]:
    """Change attributes, in memory.

    Refuses with 2067 an attribute that MQSET cannot set. Refuses an invalid value with the reason of its attribute (2006, 2020,
    2075 to 2078). A refused call changes no attribute.
    """
    if not handle.bits & OpenOption.SET:
        raise Refusal(Reason.NOT_OPEN_FOR_SET)
    target = handle.alias or handle.queue
    if target is None:
        raise Refusal(Reason.OPTION_NOT_VALID_FOR_TYPE)
    applicable = _OF_KIND[target.attributes.kind]
    changes: dict[str, object] = {}
    for selector, value in values.items():
        spec = applicable.get(selector)
        if spec is None or not spec.settable:
            raise Refusal(Reason.SELECTOR_ERROR, f"Selector {selector} cannot be set here")
        _check_value(spec, value)
        changes[spec.field] = value
    return change_queue(state, target, changes)


_REFUSED_WITH: Final = {
    "trigger": Reason.TRIGGER_CONTROL_ERROR,
    "trigger_depth": Reason.TRIGGER_DEPTH_ERROR,
    "trigger_message_priority": Reason.TRIGGER_MSG_PRIORITY_ERR,
    "trigger_type": Reason.TRIGGER_TYPE_ERROR,
}


def _check_value(spec: AttributeSpec, value: int | str) -> None:
    if spec.chars:
        if not isinstance(value, str) or len(value) > spec.chars:
            raise Refusal(Reason.CHAR_ATTR_LENGTH_ERROR, f"{spec.keyword} is text of at most {spec.chars} characters")
        return
    accepted = sorted(spec.words.values()) if spec.words else range(spec.low, spec.high + 1)
    if not isinstance(value, int) or value not in accepted:
        values = f"{spec.low} to {spec.high}" if not spec.words else accepted
        # The reason code for DISTL could not be confirmed. Every other attribute has a reason code of its own.
        raise Refusal(
            _REFUSED_WITH.get(spec.field, Reason.INHIBIT_VALUE_ERROR), f"{value} for {spec.keyword}; {values} are accepted"
        )
