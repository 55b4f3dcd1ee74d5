"""The largest value that each field of the MQI holds, and the refusal of the next one."""

import struct
from typing import Any

import pytest

from mqflow.bindings.limits import Unfit, numbers_fit, unfit_get, unfit_put, unfit_subscription, unfit_user
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.verbs import GetOptions

MOST, LEAST = 2**31 - 1, -(2**31)
ID = "An identifier must be 24 bytes long"
TO_MATCH = "An identifier to match must be 24 bytes long"
TOKEN = "A message token must be 16 bytes long"  # noqa: S105 - no secret
ACCOUNTING = "An accounting token must be 32 bytes long"
WAIT = f"{{}} ms; up to {MOST}, or -1 for ever"


def without_room(field: str, text: str, chars: int) -> str:
    return f"{field} {text!r} has no room in its field: {chars} characters of Latin-1"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        *(({field: bytes(length)}, (Reason.MD_ERROR, TO_MATCH))
          for field in ("message_id", "correlation_id", "group_id") for length in (23, 25)),
        *(({"message_token": bytes(length)}, (Reason.MSG_TOKEN_ERROR, TOKEN)) for length in (15, 17)),
        *(({"wait_ms": fits}, None) for fits in (MOST, LEAST)),
        *(({"wait_ms": over}, (Reason.WAIT_INTERVAL_ERROR, WAIT.format(over))) for over in (MOST + 1, LEAST - 1)),
        ({"buffer_bytes_max": 0}, None),
        ({"buffer_bytes_max": -1}, (Reason.BUFFER_LENGTH_ERROR, "A buffer of -1 bytes")),
    ],
)  # fmt: skip
def test_the_options_of_a_get(fields: dict[str, Any], expected: Unfit | None) -> None:
    assert expected == unfit_get(GetOptions(**fields))


ROOM = {
    "user_identifier": 12, "application_identity_data": 32, "put_application_name": 28, "put_date": 8, "put_time": 8,
    "application_origin_data": 4,
}  # fmt: skip


@pytest.mark.parametrize(
    ("options", "fields", "expected"),
    [
        *((PutOption.NONE, {field: bytes(length)}, (Reason.MD_ERROR, ID))
          for field in ("message_id", "correlation_id", "group_id") for length in (23, 25)),
        *((PutOption.NONE, {"expiry_tenths": fits}, None) for fits in (MOST, LEAST)),
        *((PutOption.NONE, {"expiry_tenths": over}, (Reason.EXPIRY_ERROR, f"Expiry {over}")) for over in (MOST + 1, LEAST - 1)),
        *((PutOption.NONE, {field: "x" * chars}, None) for field, chars in (("format", 8), ("reply_to_queue", 48))),
        *((PutOption.NONE, {field: "x" * 49}, (Reason.MD_ERROR, without_room(field, "x" * 49, chars)))
          for field, chars in (("format", 8), ("reply_to_queue", 48), ("reply_to_queue_manager", 48))),
        *((PutOption.SET_IDENTITY_CONTEXT, {field: "x" * chars}, None) for field, chars in ROOM.items()),
        *((PutOption.SET_ALL_CONTEXT, {field: "xx" + "x" * (chars - 1)},
           (Reason.MD_ERROR, without_room(field, "xx" + "x" * (chars - 1), chars))) for field, chars in ROOM.items()),
        *((PutOption.NONE, {field: "x" * 99}, None) for field in ROOM),
        *((PutOption.SET_ALL_CONTEXT, {"accounting_token": bytes(n)}, (Reason.MD_ERROR, ACCOUNTING)) for n in (31, 33)),
        (PutOption.SET_ALL_CONTEXT, {"accounting_token": bytes(32)}, None),
        (PutOption.NONE, {"accounting_token": bytes(33)}, None),
        (PutOption.SET_ALL_CONTEXT, {"user_identifier": "\xff"}, None),
        (PutOption.SET_ALL_CONTEXT, {"user_identifier": "\u0100"},
         (Reason.MD_ERROR, without_room("user_identifier", "\u0100", 12))),
    ],
)  # fmt: skip
def test_the_descriptor_of_a_put(options: PutOption, fields: dict[str, Any], expected: Unfit | None) -> None:
    """Context has to fit only if the put sets it: otherwise the queue manager fills it in."""
    assert expected == unfit_put(MessageDescriptor(**fields), options)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"object_name": "T" * 48}, None),
        ({"object_name": "T" * 49}, (Reason.OBJECT_NAME_ERROR, "A topic object's name has 48 characters at the most")),
        *(({"correlation_id": bytes(length)}, (Reason.SD_ERROR, ID)) for length in (23, 25)),
        *(({"accounting_token": bytes(length)}, (Reason.SD_ERROR, ACCOUNTING)) for length in (31, 33)),
        *(({"expiry_tenths": fits}, None) for fits in (MOST, LEAST)),
        *(({"expiry_tenths": over}, (Reason.EXPIRY_ERROR, f"Expiry {over}")) for over in (MOST + 1, LEAST - 1)),
        ({"alternate_user": "u" * 12, "application_identity_data": "d" * 32}, None),
        ({"alternate_user": "u" * 13}, (Reason.SD_ERROR, without_room("alternate_user", "u" * 13, 12))),
        ({"application_identity_data": "d" * 33}, (Reason.SD_ERROR, without_room("application_identity_data", "d" * 33, 32))),
    ],
)
def test_the_descriptor_of_a_subscription(fields: dict[str, Any], expected: Unfit | None) -> None:
    assert expected == unfit_subscription(SubscriptionDescriptor(**fields))


def test_the_alternate_user_of_an_open() -> None:
    assert unfit_user("u" * 12) is None
    assert (Reason.OD_ERROR, without_room("alternate_user", "u" * 13, 12)) == unfit_user("u" * 13)


def test_a_number_that_a_structure_cannot_hold_is_an_error_of_the_verb() -> None:
    with pytest.raises(MQIError) as raised, numbers_fit(Reason.SD_ERROR, "MQSUB", "QM1"):
        struct.pack("i", 2**31)

    expected = "MQSUB (QM1) failed: MQRC_SD_ERROR (2424). A number has more than 32 bits: "
    assert (Reason.SD_ERROR, expected) == (raised.value.reason, str(raised.value)[: len(expected)])

    with pytest.raises(MQIError) as raised, numbers_fit(Reason.MD_ERROR, "MQPUT", "QM1"):
        MessageDescriptor(feedback=2**31).to_bytes()
    assert str(raised.value).startswith("MQPUT (QM1) failed: MQRC_MD_ERROR (2026). feedback 2147483648 has more than 32 bits")
