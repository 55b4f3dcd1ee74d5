"""Each verb of the seam as one call of the MQI: its arguments, field by field, and its answer as a record.

Loads no package: the library is a `Dialect` that records its calls.
"""

from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest

from mqflow.bindings.connection import BoundConnection
from mqflow.bindings.handles import BoundHandle
from mqflow.bindings.structures import MQGMO, MQOD, MQPMO, MQSD, MQSRO
from mqflow.mqi import c_structures
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import (
    CloseOption,
    GetOption,
    MatchOption,
    ObjectType,
    OpenOption,
    PutOption,
    SubscribeOption,
    SubscriptionRequestOption,
)
from mqflow.mqi.reason_codes import CompletionCode, Reason
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.verbs import GetOptions, Got, Inquired, ObjectDescriptor, Put
from tests.bindings.dialects.recorder import Recorder, told

FAILED, WARNING = 2, 1
EVERYTHING = OpenOption.INPUT_SHARED | OpenOption.OUTPUT | OpenOption.BROWSE | OpenOption.INQUIRE


def name(text: str, chars: int = 48) -> bytes:
    return text.encode().ljust(chars)


def opened(connection: BoundConnection, queue: str = "ORDERS") -> BoundHandle:
    return connection.open(queue, EVERYTHING)


def refused(call: Callable[[], object]) -> MQIError:
    with pytest.raises(MQIError) as raised:
        call()
    return raised.value


WHOLE = ObjectDescriptor("MODEL", ObjectType.Q, "QM2", "TEMP.*", "app", "prices/fruit", "colour = 'red'")


@pytest.mark.parametrize(
    ("target", "fields"),
    [("ORDERS", {"ObjectName": name("ORDERS"), "ObjectQMgrName": name(""), "DynamicQName": name("AMQ.*")}),
     (WHOLE,
      {"ObjectName": name("MODEL"), "ObjectQMgrName": name("QM2"), "DynamicQName": name("TEMP.*"),
       "AlternateUserId": name("app", 12), "ObjectString": (b"prices/fruit\0", 12, 1208),
       "SelectionString": (b"colour = 'red'\0", 14, 1208)}),
     (ObjectDescriptor("T" * 48, ObjectType.TOPIC, "M" * 48, "D" * 48, "u" * 12),
      {"ObjectType": 8, "ObjectName": b"T" * 48, "ObjectQMgrName": b"M" * 48, "DynamicQName": b"D" * 48,
       "AlternateUserId": b"u" * 12})],
    ids=["a name", "every field", "as long as can be"],
)  # fmt: skip
def test_an_open_hands_the_whole_descriptor_over(target: ObjectDescriptor | str, fields: dict[str, object]) -> None:
    arrived: list[object] = []

    def answer(hconn: int, od: bytes, options: int) -> tuple[int, bytes, int, int]:
        arrived.extend((hconn, {"AlternateUserId": name("", 12)} | told(MQOD, c_structures.MQOD, od), options))
        return 7, od, 0, 0

    Recorder(open=answer).on().open(target, OpenOption.OUTPUT | OpenOption.INQUIRE)

    assert [5, {"AlternateUserId": name("", 12)} | fields, 0x10 | 0x20] == arrived


@pytest.mark.parametrize("field", ["name", "queue_manager", "dynamic_name"])
def test_a_name_of_49_characters_is_refused_and_not_cut(field: str) -> None:
    library = Recorder()
    said: dict[str, Any] = {"name": "Q", field: "N" * 49}

    error = refused(lambda: library.on().open(ObjectDescriptor(**said), OpenOption.OUTPUT))

    reasons = {
        "name": Reason.OBJECT_NAME_ERROR,
        "queue_manager": Reason.UNKNOWN_OBJECT_Q_MGR,
        "dynamic_name": Reason.DYNAMIC_Q_NAME_ERROR,
    }
    assert (reasons[field], []) == (error.reason, library.calls)
    assert str(error).startswith(f"MQOPEN on {said['name']} (QM1) failed: ")


@pytest.mark.parametrize(
    ("target", "named"),
    [
        ("MODEL", "AMQ.1"),
        (ObjectDescriptor("PRICES", ObjectType.TOPIC, object_string="fruit"), "PRICES"),
        (ObjectDescriptor(object_type=ObjectType.TOPIC, object_string="prices/fruit"), "prices/fruit"),
        (ObjectDescriptor(object_type=ObjectType.Q_MGR), ""),
    ],
)
def test_a_handle_has_the_name_and_the_place_that_the_open_found(target: ObjectDescriptor | str, named: str) -> None:
    found = MQOD.pack(ObjectName=name("AMQ.1"), ResolvedQName=name("LOCAL.1"), ResolvedQMgrName=name("QM9"))
    connection = Recorder(open=(7, found, WARNING, Reason.NONE)).on()

    handle = connection.open(target, OpenOption.OUTPUT)

    assert (connection, 7, named, OpenOption.OUTPUT, "LOCAL.1", "QM9", True) == (
        handle.connection, handle.number, handle.name, handle.options, handle.resolved_queue, handle.resolved_queue_manager,
        handle.open,
    )  # fmt: skip


@pytest.mark.parametrize(("completion", "is_open"), [(0, False), (WARNING, False), (FAILED, True)])
def test_a_close_leaves_the_handle_open_only_if_it_failed(completion: int, *, is_open: bool) -> None:
    """With a warning, such as that of an incomplete group, the object is closed."""
    library = Recorder(close=(completion, Reason.INCOMPLETE_GROUP if completion else 0))
    connection = library.on()
    handle = opened(connection)

    if completion:
        assert completion == refused(lambda: connection.close(handle, CloseOption.DELETE)).completion
    else:
        connection.close(handle, CloseOption.DELETE)

    assert (("close", 5, 7, 1), is_open) == (library.calls[-1], handle.open)


def test_a_put_hands_descriptor_options_context_and_body_over() -> None:
    library = Recorder()
    connection = library.on()
    handle, source = opened(connection), opened(connection)
    source.number = 6
    descriptor = MessageDescriptor(message_id=b"M" * 24, group_id=b"G" * 24, priority=4, ccsid=1208)

    body: Any = bytearray(b"body")
    connection.put(handle, descriptor, body, PutOption.SYNCPOINT | PutOption.PASS_ALL_CONTEXT, context=source)

    *call, md, pmo, said = library.calls[-1]
    assert ["put", 5, 7] == call
    assert (descriptor, 364) == (MessageDescriptor.from_bytes(md), len(md))
    assert {"Options": 0x202, "Context": 6} == told(MQPMO, c_structures.MQPMO, pmo)
    assert (bytes, b"body") == (type(said), said)


def test_a_single_put_opens_no_model_queue_and_sends_its_selection_string() -> None:
    arrived: list[object] = []

    def answer(hconn: int, od: bytes, md: bytes, pmo: bytes, body: bytes) -> tuple[bytes, bytes, int, int]:
        arrived.extend((hconn, told(MQOD, c_structures.MQOD, od), MessageDescriptor.from_bytes(md), len(md)))
        arrived.extend((told(MQPMO, c_structures.MQPMO, pmo), type(body), body))
        return md, pmo, 0, 0

    descriptor = MessageDescriptor(correlation_id=b"C" * 24)

    written: Any = bytearray(b"body")

    Recorder(put1=answer).on().put1(WHOLE, descriptor, written, PutOption.NO_SYNCPOINT)

    described = {
        "ObjectName": name("MODEL"),
        "ObjectQMgrName": name("QM2"),
        "DynamicQName": name("AMQ.*"),
        "AlternateUserId": name("app", 12),
        "ObjectString": (b"prices/fruit\0", 12, 1208),
        "SelectionString": (b"colour = 'red'\0", 14, 1208),
    }
    assert [5, described, descriptor, 364, {"Options": 4}, bytes, b"body"] == arrived


@pytest.mark.parametrize("call", ["put", "put1"])
def test_a_put_with_a_warning_was_made_and_has_what_the_queue_manager_filled_in(call: str) -> None:
    filled = MessageDescriptor(message_id=b"N" * 24, persistence=1)
    pmo = MQPMO.pack(ResolvedQName=name("LOCAL"), ResolvedQMgrName=name("QM9"))
    connection = Recorder(**{call: (filled.to_bytes(), pmo, WARNING, Reason.PRIORITY_EXCEEDS_MAXIMUM)}).on()
    said = MessageDescriptor(), b"", PutOption.NO_SYNCPOINT

    done = connection.put(opened(connection), *said) if call == "put" else connection.put1("ORDERS", *said)

    expected = Put(
        descriptor=filled, resolved_queue="LOCAL", resolved_queue_manager="QM9", reason=Reason.PRIORITY_EXCEEDS_MAXIMUM
    )
    assert expected == done


def test_a_body_of_text_is_refused_with_the_way_to_encode_it() -> None:
    library = Recorder()
    connection = library.on()
    text: Any = "text"

    error = refused(lambda: connection.put1("ORDERS", MessageDescriptor(), text, PutOption.NONE))

    assert (Reason.BUFFER_ERROR, []) == (error.reason, library.calls)
    assert "A body is bytes: encode the text, and set the descriptor's ccsid to its character set" in str(error)


def test_the_context_of_another_connection_is_refused() -> None:
    """Handles are small numbers: another connection has the same ones for other queues."""
    connection = Recorder().on()
    theirs = opened(Recorder().on(), "THEIRS")

    error = refused(lambda: connection.put1("Q", MessageDescriptor(), b"", PutOption.PASS_ALL_CONTEXT, context=theirs))

    assert Reason.CONTEXT_HANDLE_ERROR == error.reason
    assert str(error).startswith("MQPUT1 on THEIRS (QM1) failed: MQRC_CONTEXT_HANDLE_ERROR (2097). The input handle belongs to")


def test_a_get_hands_what_to_match_and_how_to_get_over() -> None:
    library = Recorder()
    connection = library.on()
    options = GetOptions(
        options=GetOption.WAIT | GetOption.SYNCPOINT | GetOption.CONVERT, wait_ms=1_500,
        match=MatchOption.MSG_ID | MatchOption.GROUP_ID | MatchOption.MSG_TOKEN, message_id=b"M" * 24, correlation_id=b"C" * 24,
        group_id=b"G" * 24, sequence_number=3, offset=8, message_token=b"T" * 16, ccsid=1208, encoding=273,
    )  # fmt: skip

    connection.get(opened(connection), options)

    *call, md, gmo, room = library.calls[-1]
    matched = MessageDescriptor(
        message_id=b"M" * 24, correlation_id=b"C" * 24, group_id=b"G" * 24, sequence_number=3, offset=8, ccsid=1208,
        encoding=273,
    )  # fmt: skip
    assert (["get", 5, 7], 65_536) == (call, room)
    assert (matched, 364) == (MessageDescriptor.from_bytes(md), len(md))
    expected = {"Options": 0x4003, "WaitInterval": 1_500, "MatchOptions": 0x25, "MsgToken": b"T" * 16}
    assert expected == told(MQGMO, c_structures.MQGMO, gmo)


@pytest.mark.parametrize("reason", [Reason.NONE, Reason.NOT_CONVERTED])
def test_a_message_that_was_got_has_every_field_of_the_answer(reason: Reason) -> None:
    """With most warnings, MQGET has removed the message from the queue."""
    descriptor = MessageDescriptor(message_id=b"N" * 24, backout_count=2)
    gmo = MQGMO.pack(ResolvedQName=name("LOCAL"), MsgToken=b"T" * 16)
    connection = Recorder(get=(b"body", descriptor.to_bytes(), gmo, 9, int(bool(reason)), reason)).on()

    got = connection.get(opened(connection), GetOptions())

    expected = Got(
        descriptor=descriptor, body=b"body", reason=reason, data_bytes=9, resolved_queue="LOCAL", message_token=b"T" * 16
    )
    assert expected == got


def test_a_get_that_only_unlocks_returns_no_message() -> None:
    connection = Recorder().on()

    assert connection.get(opened(connection), GetOptions(options=GetOption.UNLOCK)) is None


def test_an_unlock_without_a_locked_message_is_refused() -> None:
    """MQGET ends with the warning 2209."""
    connection = Recorder(get=lambda _c, _o, md, gmo, _r: (b"", md, gmo, 0, WARNING, Reason.NO_MSG_LOCKED)).on()

    error = refused(lambda: connection.get(opened(connection), GetOptions(options=GetOption.UNLOCK)))

    assert (Reason.NO_MSG_LOCKED, CompletionCode.WARNING) == (error.reason, error.completion)


def test_a_get_into_a_message_handle_is_refused_with_the_way_to_get_properties() -> None:
    library = Recorder()
    connection = library.on()

    error = refused(lambda: connection.get(opened(connection), GetOptions(message_handle=True)))

    expected = "MQGET on ORDERS (QM1) failed: MQRC_FUNCTION_NOT_SUPPORTED (2298). This adapter makes no message handles"
    assert (True, ["open"]) == (str(error).startswith(expected), [call for call, *_ in library.calls])


def test_an_inquire_returns_numbers_and_texts_of_their_length() -> None:
    values = {20: 3, 2016: b"ORDERS\0rest", 2013: "Äpfel".encode("latin-1"), 2023: "größer €".encode()}
    library = Recorder(inquire=(values, WARNING, Reason.SELECTOR_NOT_FOR_TYPE))
    connection = library.on()

    answer = connection.inquire(opened(connection), (20, 2016, 2013, 2023))

    expected: dict[int, int | str] = {20: 3, 2016: "ORDERS".ljust(48), 2013: "Äpfel".ljust(64), 2023: "größer €".ljust(64)}
    assert Inquired(expected, Reason.SELECTOR_NOT_FOR_TYPE) == answer
    assert ("inquire", 5, 7, (20, 2016, 2013, 2023)) == library.calls[-1]


def test_an_attribute_of_unknown_length_is_refused_and_a_number_is_not() -> None:
    library = Recorder()
    connection = library.on()
    handle = opened(connection)

    error = refused(lambda: connection.inquire(handle, (2000, 2999, 2001)))

    expected = "MQINQ on ORDERS (QM1) failed: MQRC_SELECTOR_ERROR (2067). mqflow does not know how long the attribute 2999 is"
    assert (Reason.SELECTOR_ERROR, True) == (error.reason, str(error).startswith(expected))
    assert Inquired({2000: 1, 2001: "TEXT".ljust(256)}, 0) == connection.inquire(handle, (2000, 2001))


def test_a_set_hands_numbers_and_padded_texts_over() -> None:
    library = Recorder()
    connection = library.on()

    connection.set(opened(connection), {2000: 1, 2001: "app", 2023: "größer €"})

    assert ("set", 5, 7, {2000: 1, 2001: name("app", 256), 2023: "größer €".encode().ljust(64)}) == library.calls[-1]


@pytest.mark.parametrize("text", ["x" * 65, "ä" * 33, "\ud800"])
def test_a_set_of_a_text_without_room_is_refused_and_not_cut(text: str) -> None:
    library = Recorder()
    connection = library.on()
    handle = opened(connection)

    error = refused(lambda: connection.set(handle, {2023: text}))

    expected = f"MQSET on ORDERS (QM1) failed: MQRC_CHAR_ATTR_LENGTH_ERROR (2006). {text!r} has no room in the attribute 2023: "
    assert (True, ["open"]) == (str(error).startswith(expected), [call for call, *_ in library.calls])


def test_a_set_of_a_text_of_unknown_length_is_refused() -> None:
    library = Recorder()
    connection = library.on()
    handle = opened(connection)

    error = refused(lambda: connection.set(handle, {9: 1, 2999: "data"}))

    expected = "MQSET on ORDERS (QM1) failed: MQRC_SELECTOR_ERROR (2067). mqflow does not know how long the attribute 2999 is"
    assert (True, ["open"]) == (str(error).startswith(expected), [call for call, *_ in library.calls])


FULL = SubscriptionDescriptor(
    options=SubscribeOption.CREATE | SubscribeOption.DURABLE | SubscribeOption.MANAGED, object_name="PRICES",
    object_string="fruit", name="app:prices", user_data="data", correlation_id=b"C" * 24, expiry_tenths=600,
    selection="colour = 'red'", priority=4, accounting_token=b"A" * 32, application_identity_data="identity", level=3,
    alternate_user="app",
)  # fmt: skip


def test_a_subscribe_hands_the_whole_descriptor_over_and_returns_what_was_filled_in() -> None:
    arrived: list[object] = []

    def answer(hconn: int, sd: bytes, hobj: int) -> tuple[bytes, int, int, int, int]:
        arrived.extend((hconn, told(MQSD, c_structures.MQSD, sd), hobj))
        changed = bytearray(sd)
        for field, value in (("SubExpiry", 599), ("PubPriority", 5), ("SubLevel", 2), ("Options", 0x20A)):
            start = c_structures.MQSD.fields[field].offset
            changed[start : start + 4] = value.to_bytes(4, "little")
        return bytes(changed), 0xFFFF_FFFE, 0xFFFF_FFFD, WARNING, 2_534

    library = Recorder(subscribe=answer, inquire=({2016: b"MANAGED.1"}, 0, 0))
    connection = library.on()

    done = connection.subscribe(FULL)

    fields = {
        "Options": int(FULL.options), "ObjectName": name("PRICES"), "AlternateUserId": name("app", 12), "SubExpiry": 600,
        "ObjectString": (b"fruit\0", 5, 1208), "SubName": (b"app:prices\0", 10, 1208), "SubUserData": (b"data\0", 10_240, 1208),
        "SubCorrelId": b"C" * 24, "PubPriority": 4, "PubAccountingToken": b"A" * 32,
        "PubApplIdentityData": name("identity", 32), "SelectionString": (b"colour = 'red'\0", 10_240, 1208), "SubLevel": 3,
        "ResObjectString": (b"\0", 10_240, 1208),
    }  # fmt: skip
    assert [5, fields, 0] == arrived
    assert (599, 5, 2, SubscribeOption(0x20A), "PRICES", b"C" * 24, b"A" * 32, "identity", "data", "colour = 'red'", "") == (
        done.descriptor.expiry_tenths, done.descriptor.priority, done.descriptor.level, done.descriptor.options,
        done.descriptor.object_name, done.descriptor.correlation_id, done.descriptor.accounting_token,
        done.descriptor.application_identity_data, done.descriptor.user_data, done.descriptor.selection,
        done.descriptor.topic_string,
    )  # fmt: skip
    subscription: Any = done.handle
    queue: Any = done.queue
    assert (2_534, "app:prices", -3, connection) == (
        done.reason,
        subscription.name,
        subscription.number,
        subscription.connection,
    )
    assert ("MANAGED.1", "MANAGED.1", -2, OpenOption.INPUT_AS_Q_DEF, connection) == (
        queue.name, queue.resolved_queue, queue.number, queue.options, queue.connection
    )  # fmt: skip
    assert ("inquire", 5, -2, (2016,)) == library.calls[-1]


def test_a_subscribe_with_a_queue_gives_its_handle_and_keeps_it() -> None:
    library = Recorder()
    connection = library.on()
    queue = opened(connection)

    done = connection.subscribe(SubscriptionDescriptor(object_string="fruit"), queue)

    assert (queue, 7) == (done.queue, library.calls[-1][-1])
    assert ["open", "subscribe"] == [call for call, *_ in library.calls]


def test_a_managed_subscription_gets_from_its_managed_queue_also_if_a_queue_was_given() -> None:
    library = Recorder(inquire=({2016: b"MANAGED.1"}, 0, 0), subscribe=lambda _hconn, sd, _hobj: (sd, 8, 9, 0, 0))
    connection = library.on()
    managed = SubscriptionDescriptor(object_string="fruit", options=SubscribeOption.CREATE | SubscribeOption.MANAGED)

    done = connection.subscribe(managed, opened(connection))

    assert (8, "MANAGED.1") == ((queue := done.queue).number, queue.name)  # type: ignore[attr-defined]


def test_a_managed_queue_without_a_name_still_gets() -> None:
    """The user needs no authority to inquire the queue."""
    connection = Recorder(inquire=({}, FAILED, Reason.NOT_AUTHORIZED)).on()

    done = connection.subscribe(SubscriptionDescriptor(name="app:prices"))

    assert (8, "app:prices", "") == ((queue := done.queue).number, queue.name, queue.resolved_queue)  # type: ignore[attr-defined]
    assert connection.get(queue, GetOptions()) is not None


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"name": "app:prices", "object_string": "fruit", "object_name": "PRICES"}, "app:prices"),
        ({"object_string": "fruit", "object_name": "PRICES"}, "fruit"),
        ({"object_name": "PRICES"}, "PRICES"),
    ],
)
def test_a_refused_subscribe_names_the_subscription_or_its_topic(fields: dict[str, Any], named: str) -> None:
    connection = Recorder(subscribe=lambda _hconn, sd, _hobj: (sd, 0, 0, FAILED, Reason.NOT_AUTHORIZED)).on()

    error = refused(lambda: connection.subscribe(SubscriptionDescriptor(**fields)))

    assert str(error).startswith(f"MQSUB on {named} (QM1) failed: MQRC_NOT_AUTHORIZED (2035).")


def test_a_request_for_publications_returns_their_number() -> None:
    library = Recorder(request=(MQSRO.pack(NumPubs=3), WARNING, 2_534))
    connection = library.on()
    subscription = connection.subscribe(SubscriptionDescriptor(object_string="fruit")).handle

    number = connection.request_publications(subscription, SubscriptionRequestOption.FAIL_IF_QUIESCING)

    *call, sro = library.calls[-1]
    assert (3, ["request", 5, 9, 1]) == (number, call)
    assert {"Options": 0x2000} == told(MQSRO, c_structures.MQSRO, sro)


Call = Callable[[BoundConnection, Any, Any], object]
MESSAGE = MessageDescriptor(), b"", PutOption.NONE
#: Each verb: the call of the library, the verb with its object in an error, and the call of the seam.
VERBS: dict[str, tuple[str, Call]] = {
    "open": ("MQOPEN on Q", lambda connection, _handle, _sub: connection.open("Q", OpenOption.OUTPUT)),
    "close": ("MQCLOSE on ORDERS", lambda connection, handle, _sub: connection.close(handle)),
    "put": ("MQPUT on ORDERS", lambda connection, handle, _sub: connection.put(handle, *MESSAGE)),
    "put1": ("MQPUT1 on Q", lambda connection, _handle, _sub: connection.put1("Q", *MESSAGE)),
    "get": ("MQGET on ORDERS", lambda connection, handle, _sub: connection.get(handle, GetOptions())),
    "inquire": ("MQINQ on ORDERS", lambda connection, handle, _sub: connection.inquire(handle, (20,))),
    "set": ("MQSET on ORDERS", lambda connection, handle, _sub: connection.set(handle, {9: 1})),
    "subscribe": ("MQSUB on S", lambda connection, _handle, _sub: connection.subscribe(SubscriptionDescriptor(name="S"))),
    "request": ("MQSUBRQ on S", lambda connection, _handle, sub: connection.request_publications(sub)),
    "commit": ("MQCMIT", lambda connection, _handle, _sub: connection.commit()),
    "backout": ("MQBACK", lambda connection, _handle, _sub: connection.backout()),
    "disconnect": ("MQDISC", lambda connection, _handle, _sub: connection.disconnect()),
}
each_verb = pytest.mark.parametrize(("verb", "said", "call"), [(verb, *rest) for verb, rest in VERBS.items()], ids=VERBS)


def answering(verb: str, completion: int, reason: int) -> Callable[..., Any]:
    """Return the usual answer of this call with another end."""
    usual = Recorder()
    return lambda *arguments: (*getattr(usual, verb)(*arguments)[:-2], completion, reason)


def ready() -> tuple[Recorder, BoundConnection, Any, Any]:
    library = Recorder()
    connection = library.on()
    return library, connection, opened(connection), connection.subscribe(SubscriptionDescriptor(name="S")).handle


@each_verb
def test_a_failed_call_says_what_was_tried_on_what_and_leaves_the_connection_free(verb: str, said: str, call: Call) -> None:
    library, connection, handle, subscription = ready()
    library.answers[verb] = answering(verb, FAILED, Reason.RESOURCE_PROBLEM)

    errors = [refused(lambda: call(connection, handle, subscription)) for _ in range(1 if verb == "disconnect" else 2)]

    for error in errors:
        expected = f"{said} (QM1) failed: MQRC_RESOURCE_PROBLEM (2102). The queue manager ran out of a resource"
        assert str(error).startswith(expected)
        assert (Reason.RESOURCE_PROBLEM, CompletionCode.FAILED) == (error.reason, error.completion)


@each_verb
def test_a_warning_is_an_error_only_of_a_verb_whose_result_cannot_carry_it(verb: str, said: str, call: Call) -> None:
    library, connection, handle, subscription = ready()
    library.answers[verb] = answering(verb, WARNING, Reason.OUTCOME_PENDING)

    if verb in {"close", "set", "commit", "backout", "disconnect"}:
        error = refused(lambda: call(connection, handle, subscription))
        assert (Reason.OUTCOME_PENDING, CompletionCode.WARNING) == (error.reason, error.completion)
        assert str(error).startswith(f"{said} (QM1) ")
    else:
        call(connection, handle, subscription)


@each_verb
def test_a_call_of_a_connection_that_was_ended_does_not_reach_the_library(verb: str, said: str, call: Call) -> None:
    library, connection, handle, subscription = ready()
    connection.disconnect()
    library.calls.clear()

    for _ in range(2):
        error = refused(lambda: call(connection, handle, subscription))
        assert str(error).startswith(f"{said} (QM1) failed: MQRC_HCONN_ERROR (2018).")

    assert ([], verb in VERBS) == (library.calls, True)


@each_verb
def test_a_call_during_another_call_does_not_reach_the_library(verb: str, said: str, call: Call) -> None:
    library, connection, handle, subscription = ready()
    errors: list[MQIError] = []

    def answer(_hconn: int) -> tuple[int, int]:
        other = Thread(target=lambda: errors.append(refused(lambda: call(connection, handle, subscription))), daemon=True)
        other.start()
        other.join(10)  # it ends at once, unless it waits for this call
        return 0, 0

    library.answers["commit"] = answer
    library.calls.clear()

    connection.commit()

    assert [("commit", 5)] == library.calls
    expected = f"{said} (QM1) failed: MQRC_CALL_IN_PROGRESS (2219). Another call of this connection is not over yet"
    assert [True] == [str(error).startswith(expected) for error in errors]
    if verb != "commit":
        call(connection, handle, subscription)


@each_verb
def test_a_call_that_the_package_refuses_leaves_the_connection_free(verb: str, said: str, call: Call) -> None:
    library, connection, handle, subscription = ready()

    def broken(*_: object) -> None:
        raise TypeError(said)

    library.answers[verb] = broken
    with pytest.raises(TypeError, match=said):
        call(connection, handle, subscription)

    if verb != "disconnect":
        (connection.backout if verb == "commit" else connection.commit)()


@pytest.mark.parametrize("verb", ["close", "put", "get", "inquire", "set"])
@pytest.mark.parametrize("which", ["closed", "another connection's", "another kind"])
def test_a_handle_that_is_not_open_here_is_refused(verb: str, which: str) -> None:
    library, connection, handle, subscription = ready()
    if which == "closed":
        connection.close(handle)
    wrong: Any = {"closed": handle, "another connection's": opened(Recorder().on()), "another kind": "text"}[which]
    library.calls.clear()

    error = refused(lambda: VERBS[verb][1](connection, wrong, subscription))

    said = f"{VERBS[verb][0].partition(' on ')[0]} on {'text' if which == 'another kind' else 'ORDERS'} (QM1) failed"
    assert (Reason.HOBJ_ERROR, []) == (error.reason, library.calls)
    assert str(error).startswith(f"{said}: MQRC_HOBJ_ERROR (2019).")
    connection.commit()  # the connection is free


def test_a_subscription_can_be_closed_and_is_no_queue() -> None:
    library, connection, handle, subscription = ready()

    assert Reason.HOBJ_ERROR == refused(lambda: connection.get(subscription, GetOptions())).reason
    assert Reason.HOBJ_ERROR == refused(lambda: connection.request_publications(handle)).reason
    connection.close(subscription)

    assert ("close", 5, 9, 0) == library.calls[-1]


@pytest.mark.parametrize("reason", [Reason.CONNECTION_BROKEN, Reason.Q_FULL])
def test_a_disconnect_is_quiet_only_after_the_connection_was_lost(reason: Reason) -> None:
    library, connection, handle, subscription = ready()
    library.answers |= {
        "put": answering("put", FAILED, reason),
        "inquire": answering("inquire", FAILED, Reason.Q_DELETED),
        "disconnect": (FAILED, Reason.HCONN_ERROR),
    }
    for verb in ("put", "inquire"):
        refused(lambda verb=verb: VERBS[verb][1](connection, handle, subscription))  # type: ignore[misc]

    if reason == Reason.CONNECTION_BROKEN:
        connection.disconnect()
    else:
        assert Reason.HCONN_ERROR == refused(connection.disconnect).reason

    assert ("disconnect", 5) == library.calls[-1]
