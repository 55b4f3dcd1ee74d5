"""The attributes of subscriptions in MQSC: the table, and the conversion between a record and MQSC's values.

This module knows no queue manager. Source: DEFINE SUB and DISPLAY SUB keywords and defaults; MQDC_*, MQVU_*, MQWS_*,
MQSUBTYPE_*.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import asdict, replace

from mqflow.mqi.attributes.queue import AttributeSpec
from mqflow.mqi.descriptor import NO_ID
from mqflow.mqi.options import SubscribeOption
from mqflow.mqi.subscription import SubscriptionAttributes
from mqflow.mqi.topic_strings import TOPIC_STRING_CHARS_MAX

__all__ = ("ADMINISTRATIVE", "SUBSCRIPTION_ATTRIBUTES", "row_of", "with_values")

ADMINISTRATIVE: Final = 2
"""SUBTYPE(ADMIN)."""
_MANAGED, _PROVIDED = 1, 2
_YES_NO: Final = {"NO": 0, "YES": 1}
_LONG_MAX: Final = 999_999_999

# Each field that is also a bit of the options, with the bit.
_OPTIONS: Final[Mapping[str, tuple[SubscribeOption, int, int]]] = {
    # field: bit, the value with the bit, the value without it
    "destination_class": (SubscribeOption.MANAGED, _MANAGED, _PROVIDED),
    "on_request": (SubscribeOption.PUBLICATIONS_ON_REQUEST, 1, 0),
    "user_may_vary": (SubscribeOption.ANY_USERID, 1, 2),
    "wildcard_schema": (SubscribeOption.WILDCARD_CHAR, 1, 2),
    "durable": (SubscribeOption.DURABLE, 1, 2),
    "scope": (SubscribeOption.SCOPE_QMGR, 4, 0),
}


def _words(field: str, keyword: str, /, **words: int) -> AttributeSpec:
    return AttributeSpec(field, keyword, 0, words=words)


def _shown(field: str, keyword: str, chars: int) -> AttributeSpec:
    return AttributeSpec(field, keyword, 0, chars=chars, read_only=True)


SUBSCRIPTION_ATTRIBUTES: Final[tuple[AttributeSpec, ...]] = (
    AttributeSpec("name", "SUB", 0, chars=TOPIC_STRING_CHARS_MAX, read_only=True),
    _shown("identifier", "SUBID", 48),
    AttributeSpec("topic_string", "TOPICSTR", 0, chars=TOPIC_STRING_CHARS_MAX),
    AttributeSpec("topic_object", "TOPICOBJ", 0, chars=48, object_name=True),
    AttributeSpec("destination", "DEST", 0, chars=48, object_name=True),
    AttributeSpec("destination_queue_manager", "DESTQMGR", 0, chars=48, object_name=True),
    _words("destination_class", "DESTCLAS", MANAGED=_MANAGED, PROVIDED=_PROVIDED),
    AttributeSpec("correlation_id", "DESTCORL", 0, chars=48),
    AttributeSpec("expiry_tenths", "EXPIRY", 0, low=1, high=_LONG_MAX, words={"UNLIMITED": -1}),
    AttributeSpec("application_identity_data", "PUBAPPID", 0, chars=32),
    AttributeSpec("priority", "PUBPRTY", 0, low=0, high=9, words={"ASPUB": -3, "ASQDEF": -1}),
    AttributeSpec("on_request", "REQONLY", 0, words=_YES_NO),
    AttributeSpec("selection", "SELECTOR", 0, chars=TOPIC_STRING_CHARS_MAX),
    AttributeSpec("level", "SUBLEVEL", 0, low=0, high=9),
    _words("scope", "SUBSCOPE", ALL=0, QMGR=4),
    AttributeSpec("user", "SUBUSER", 0, chars=12),
    AttributeSpec("user_data", "USERDATA", 0, chars=TOPIC_STRING_CHARS_MAX),
    _words("user_may_vary", "VARUSER", ANY=1, FIXED=2),
    _words("wildcard_schema", "WSCHEMA", CHAR=1, TOPIC=2),
    AttributeSpec("durable", "DURABLE", 0, words={"YES": 1, "NO": 2}, read_only=True),
    AttributeSpec("kind", "SUBTYPE", 0, words={"API": 1, "ADMIN": 2}, read_only=True),
    _shown("creation_date", "CRDATE", 12),
    _shown("creation_time", "CRTIME", 8),
    _shown("alteration_date", "ALTDATE", 12),
    _shown("alteration_time", "ALTTIME", 8),
)
"""SELECTOR, USERDATA and names are text; SUBID and DESTCORL are hexadecimal digits."""


# Any: numbers, texts and None, by field of the table.
def row_of(attributes: SubscriptionAttributes) -> dict[str, Any]:
    """Return the values of the record by field, in the form of the table."""
    row = asdict(attributes) | {"destination_queue_manager": ""}
    for field, (option, on, off) in _OPTIONS.items():
        row[field] = on if attributes.options & option else off
    row["identifier"] = attributes.identifier.hex().upper()
    row["correlation_id"] = attributes.correlation_id.hex().upper()
    return row


def with_values(attributes: SubscriptionAttributes, values: Mapping[str, Any]) -> SubscriptionAttributes:
    """Return the record with these values, in the table's form. Raises `ValueError` if DESTCORL is not hexadecimal digits."""
    options, plain = attributes.options, dict(values)
    for field, (option, on, _) in _OPTIONS.items():
        if field in plain:
            options = options | option if plain.pop(field) == on else options & ~option
    plain.pop("destination_queue_manager", None)
    if "correlation_id" in plain:
        plain["correlation_id"] = _correlation_id(str(plain["correlation_id"]))
        options |= SubscribeOption.SET_CORREL_ID
    if options & SubscribeOption.WILDCARD_CHAR:
        options &= ~SubscribeOption.WILDCARD_TOPIC
    else:
        options |= SubscribeOption.WILDCARD_TOPIC
    return replace(attributes, options=options, **plain)


def _correlation_id(digits: str) -> bytes:
    try:
        found = bytes.fromhex(digits)
    except ValueError:
        found = None
    if found is None or len(found) > len(NO_ID):
        raise ValueError(
            f"DESTCORL({digits}) is not valid: up to {len(NO_ID)} bytes as pairs of hexadecimal digits are accepted"
        )
    return found.ljust(len(NO_ID), b"\0")
