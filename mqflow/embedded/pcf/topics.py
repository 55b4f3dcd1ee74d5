"""The PCF commands about topic objects and subscriptions. A command becomes an action of MQSC, or rows of attributes.

Source: IBM, "Change, Copy, and Create Topic", "Delete Topic", "Inquire Topic", "Change, Copy, and Create Subscription", "Delete
Subscription", "Inquire Subscription"; MQTSCOPE_*, MQRU_*, MQVU_* numbers.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from msgspec.structs import asdict, replace

from mqflow.embedded.administration.interface import Administration
from mqflow.embedded.mqsc.commands import AlterCommand, ClearTopic, DefineCommand, DeleteCommand, Value
from mqflow.embedded.mqsc.display import matches
from mqflow.embedded.mqsc.interpreter import carry_out
from mqflow.embedded.pcf.queues import Command, Row
from mqflow.embedded.pcf.request import Request
from mqflow.embedded.pcf.selection import is_chosen, responses, wanted
from mqflow.embedded.pcf.values import settings_of
from mqflow.mqi.attributes.queue import AttributeSpec
from mqflow.mqi.attributes.subscription import SUBSCRIPTION_ATTRIBUTES, row_of
from mqflow.mqi.attributes.topic import TOPIC_ATTRIBUTES
from mqflow.mqi.errors import MQIError
from mqflow.mqi.pcf.codes import CommandCode, ParameterId, PCFReason
from mqflow.mqi.pcf.structures import CFBS, CFSL, PCFError
from mqflow.mqi.reason_codes import Reason

__all__ = ("TOPIC_COMMANDS",)

TOPIC_NAME, TOPIC_STRING, SUB_NAME, SUB_ID, CORREL_ID = 2092, 2094, 3152, 7016, 7015
_FROM_TOPIC, _TO_TOPIC, _TOPIC_NAMES, _FROM_SUB, _TO_SUB = 3150, 3149, 3151, 3163, 3164
_SUB_NUMBERS: Final[Mapping[str, int]] = {
    "name": SUB_NAME, "topic_string": TOPIC_STRING, "topic_object": TOPIC_NAME, "destination": 3154,
    "destination_queue_manager": 3153, "destination_class": 1273, "expiry_tenths": 1244, "application_identity_data": 3135,
    "priority": 1283, "on_request": 1280, "selection": 3160, "level": 1307, "scope": 1275, "user": 3156, "user_data": 3159,
    "user_may_vary": 1277, "wildcard_schema": 1288, "durable": 1274, "kind": 1289, "creation_date": 2004, "creation_time": 2005,
    "alteration_date": 2027, "alteration_time": 2028,
}  # fmt: skip
# The fields whose numbers differ, each with PCF's numbers and the numbers in the table of attributes.
_DIFFERENT: Final[Mapping[str, Mapping[int, int]]] = {
    "scope": {1: 4, 2: 0},
    "on_request": {1: 1, 2: 0},
    "user_may_vary": {1: 2, 2: 1},
}


def _in_pcf(spec: AttributeSpec) -> AttributeSpec:
    """Return the attribute with PCF's number for it and PCF's numbers for its words."""
    different = {of_table: of_pcf for of_pcf, of_table in _DIFFERENT.get(spec.field, {}).items()}
    words = spec.words and {word: different.get(number, number) for word, number in spec.words.items()}
    return replace(spec, selector=_SUB_NUMBERS[spec.field], words=words)


_SUBSCRIPTION: Final = tuple(_in_pcf(spec) for spec in SUBSCRIPTION_ATTRIBUTES if spec.field in _SUB_NUMBERS)
_SETTABLE_SUB: Final = {spec.selector: spec for spec in _SUBSCRIPTION if not spec.read_only}
_SETTABLE_TOPIC: Final = {spec.selector: spec for spec in TOPIC_ATTRIBUTES if not spec.read_only}
_P: Final = ParameterId
_Noun = Literal["TOPIC", "SUB"]


def _create_topic(request: Request, administration: Administration) -> None:
    request.check((TOPIC_NAME, TOPIC_STRING), None, filters=False)
    _define("TOPIC", request, administration, request.name(TOPIC_NAME))


def _copy_topic(request: Request, administration: Administration) -> None:
    """MQCMD_COPY_TOPIC: copies a topic object. The copy gets the attributes of the command."""
    request.check((_FROM_TOPIC, _TO_TOPIC), None, filters=False)
    _define("TOPIC", request, administration, request.name(_TO_TOPIC), source=_FROM_TOPIC)


def _change_topic(request: Request, administration: Administration) -> None:
    request.check((TOPIC_NAME,), None, filters=False)
    _alter("TOPIC", request, administration, request.name(TOPIC_NAME))


def _delete_topic(request: Request, administration: Administration) -> None:
    request.check((TOPIC_NAME,), {_P.IGNORE_STATE}, filters=False)
    ignoring = bool(request.number(_P.IGNORE_STATE, 0))
    carry_out(DeleteCommand("TOPIC", request.name(TOPIC_NAME), ignore_state=ignoring), administration)


def _inquire_topic(request: Request, administration: Administration) -> Iterable[Row]:
    """MQCMD_INQUIRE_TOPIC: returns a response for each topic object."""
    request.check((TOPIC_NAME,), {_P.TOPIC_ATTRS}, filters=True)
    pattern, selectors = request.pattern(TOPIC_NAME), wanted(request, _P.TOPIC_ATTRS, (TOPIC_NAME, TOPIC_STRING))
    rows = ((asdict(each), TOPIC_ATTRIBUTES) for each in administration.publishing.topics() if matches(pattern, each.name))
    found = tuple(responses(rows, selectors, request.filter))
    if not found:
        raise PCFError(Reason.UNKNOWN_OBJECT_NAME, detail=f"There is no topic {pattern}", parameter=TOPIC_NAME)
    return found


def _inquire_topic_names(request: Request, administration: Administration) -> Iterable[Row]:
    """MQCMD_INQUIRE_TOPIC_NAMES: returns all names in one response."""
    request.check((TOPIC_NAME,), frozenset(), filters=False)
    pattern = request.pattern(TOPIC_NAME)
    names = tuple(each.name for each in administration.publishing.topics() if matches(pattern, each.name))
    if not names:
        raise PCFError(Reason.UNKNOWN_OBJECT_NAME, detail=f"There is no topic {pattern}", parameter=TOPIC_NAME)
    return ((CFSL(_TOPIC_NAMES, names),),)


def _clear_topic(request: Request, administration: Administration) -> None:
    """MQCMD_CLEAR_TOPIC_STRING: deletes the retained publication of the topic string."""
    request.check((TOPIC_STRING, _CLEAR_TYPE), {_CLEAR_SCOPE}, filters=False)
    request.choice(_CLEAR_TYPE, (_RETAINED,), 0, PCFReason.PARM_VALUE_ERROR)
    carry_out(ClearTopic(request.text(TOPIC_STRING)), administration)


_CLEAR_TYPE, _CLEAR_SCOPE, _RETAINED = 1305, 1306, 1


def _create_subscription(request: Request, administration: Administration) -> None:
    request.check((SUB_NAME,), None, filters=False)
    if not request.has(TOPIC_NAME) and not request.has(TOPIC_STRING):
        raise PCFError(PCFReason.PARM_MISSING, detail="A topic object or a topic string is required", parameter=TOPIC_STRING)
    _define("SUB", request, administration, _sub_name(request))


def _copy_subscription(request: Request, administration: Administration) -> None:
    """MQCMD_COPY_SUBSCRIPTION: copies a subscription. The copy gets the attributes of the command."""
    request.check((_FROM_SUB, _TO_SUB), None, filters=False)
    _define("SUB", request, administration, _sub_name(request, _TO_SUB), source=_FROM_SUB)


def _change_subscription(request: Request, administration: Administration) -> None:
    request.check((SUB_NAME,), None, filters=False)
    _alter("SUB", request, administration, _sub_name(request))


def _delete_subscription(request: Request, administration: Administration) -> None:
    """MQCMD_DELETE_SUBSCRIPTION: deletes a subscription by name or by identifier."""
    request.check((SUB_ID,) if not request.has(SUB_NAME) else (SUB_NAME,), {SUB_ID, _P.IGNORE_STATE}, filters=False)
    name, ignoring = request.text(SUB_NAME), bool(request.number(_P.IGNORE_STATE, 0))
    if not request.has(SUB_NAME):
        known = {found.attributes.identifier: found.attributes.name for found in administration.publishing.subscriptions()}
        identifier = request.bytes(SUB_ID).ljust(24, b"\0")
        if identifier not in known and ignoring:
            return
        if identifier not in known:
            raise PCFError(Reason.NO_SUBSCRIPTION, detail="No subscription has this identifier", parameter=SUB_ID)
        name = known[identifier]
    carry_out(DeleteCommand("SUB", name, ignore_state=ignoring), administration)


def _inquire_subscription(request: Request, administration: Administration) -> Iterable[Row]:
    """MQCMD_INQUIRE_SUBSCRIPTION: returns a response for each subscription with this name, generic name or identifier."""
    by_name = request.has(SUB_NAME)
    choices = {_P.SUB_TYPE, _DURABLE}
    request.check((SUB_NAME,) if by_name else (SUB_ID,), choices | {_P.SUB_ATTRS}, filters=True)
    pattern, identifier = request.text(SUB_NAME), request.bytes(SUB_ID).ljust(24, b"\0")
    selectors = wanted(request, _P.SUB_ATTRS, (SUB_NAME,))
    found: list[Row] = []
    for status in administration.publishing.subscriptions():
        attributes = status.attributes
        if not (matches(pattern, attributes.name) if by_name else identifier == attributes.identifier):
            continue
        row = _pcf_row(row_of(attributes))
        if not is_chosen(request, choices, row, _SUBSCRIPTION):
            continue
        byte_strings = CFBS(SUB_ID, attributes.identifier), CFBS(CORREL_ID, attributes.correlation_id)
        for parameters in responses([(row, _SUBSCRIPTION)], selectors, request.filter):
            shown = (each for each in byte_strings if each.parameter == SUB_ID or selectors is None or CORREL_ID in selectors)
            found.append((*parameters, *shown))
    if not found:
        raise PCFError(Reason.NO_SUBSCRIPTION, detail="There is no such subscription", parameter=SUB_NAME)
    return found


_DURABLE: Final = 1274


def _define(noun: _Noun, request: Request, administration: Administration, name: str, source: int = 0) -> None:
    """Define an object. `source` is the parameter with the name of the object to copy; 0 for no copy."""
    like = request.text(source)
    replacing = request.yes(_P.REPLACE, PCFReason.REPLACE_VALUE_ERROR)
    values = _values(noun, request, copies=bool(like))
    try:
        carry_out(DefineCommand(noun, name, values, like=like, replace=replacing), administration)
    except MQIError as error:
        if like and error.reason in {Reason.UNKNOWN_OBJECT_NAME, Reason.NO_SUBSCRIPTION} and error.object_name == like:
            raise PCFError(error.reason, detail=f"There is no {noun} {like}", parameter=source) from None
        raise


def _alter(noun: _Noun, request: Request, administration: Administration, name: str) -> None:
    carry_out(AlterCommand(noun, name, _values(noun, request)), administration)


def _values(noun: _Noun, request: Request, *, copies: bool = False) -> dict[str, Value]:
    if noun == "TOPIC":
        return settings_of(request, _SETTABLE_TOPIC, {TOPIC_NAME, _FROM_TOPIC, _TO_TOPIC, _P.REPLACE}, "a topic")
    own = {_FROM_SUB, _TO_SUB, _P.REPLACE, CORREL_ID} | ({SUB_NAME} if not copies else set())
    values = settings_of(request, _SETTABLE_SUB, own, "a subscription")
    for field, numbers in _DIFFERENT.items():
        if field in values:
            values[field] = numbers[int(str(values[field]))]
    if request.has(CORREL_ID):
        values["correlation_id"] = request.bytes(CORREL_ID).hex().upper()
    return values


# Any: the table of attributes gives each value its type.
def _pcf_row(row: Mapping[str, Any]) -> Mapping[str, Any]:
    different = {field: {theirs: ours for ours, theirs in numbers.items()} for field, numbers in _DIFFERENT.items()}
    return {**row, **{field: numbers.get(row[field], row[field]) for field, numbers in different.items()}}


def _sub_name(request: Request, identifier: int = SUB_NAME) -> str:
    name = request.text(identifier)
    if not name:
        raise PCFError(PCFReason.SUB_NAME_ERROR, detail="A subscription needs a name", parameter=identifier)
    return name


TOPIC_COMMANDS: Final[Mapping[CommandCode, Command]] = {
    CommandCode.CREATE_TOPIC: _create_topic,
    CommandCode.COPY_TOPIC: _copy_topic,
    CommandCode.CHANGE_TOPIC: _change_topic,
    CommandCode.DELETE_TOPIC: _delete_topic,
    CommandCode.INQUIRE_TOPIC: _inquire_topic,
    CommandCode.INQUIRE_TOPIC_NAMES: _inquire_topic_names,
    CommandCode.CLEAR_TOPIC_STRING: _clear_topic,
    CommandCode.CREATE_SUBSCRIPTION: _create_subscription,
    CommandCode.COPY_SUBSCRIPTION: _copy_subscription,
    CommandCode.CHANGE_SUBSCRIPTION: _change_subscription,
    CommandCode.DELETE_SUBSCRIPTION: _delete_subscription,
    CommandCode.INQUIRE_SUBSCRIPTION: _inquire_subscription,
}
