"""Answers that IBM's library can give, and the stand-in never gives: the adapter over a library with answers of the test.

Loads no package: a library here is a `Dialect` with fixed answers.
"""

from typing import Any

import pytest

from mqflow.bindings.connect_options import ConnectOptions
from mqflow.bindings.connection import BoundConnection
from mqflow.bindings.queue_manager import BoundQueueManager, ProcessTls
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.mqi.reason_codes import CompletionCode, Reason
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.verbs import GetOptions, ObjectDescriptor
from mqflow.world import SYSTEM_CLOCK
from tests.bindings.bound import refused

MIB = 1_048_576
OK = (0, 0)
FAILED = int(CompletionCode.FAILED)


class Library:
    """Offers `Dialect`. Holds one message; a channel carries no buffer that is longer than was negotiated."""

    name = "library"
    built_for = "9.4"

    def __init__(self, body: bytes = b"", negotiated: int = 100 * MIB) -> None:
        self.body: bytes | None = body
        self.negotiated = negotiated
        #: What MQCONNX answers, one after the other; then success.
        self.connects: list[tuple[int, int]] = []
        self.connected: list[int] = []
        self.rooms: list[int] = []
        self.opened: list[bytes] = []

    def check(self, options: ConnectOptions) -> None:
        """There is nothing that it cannot do."""

    def connect(self, _: Any) -> tuple[int, int, int]:
        self.connected.append(len(self.connected) + 1)
        completion, reason = self.connects.pop(0) if self.connects else OK
        return self.connected[-1], completion, reason

    def disconnect(self, hconn: int) -> tuple[int, int]:
        self.connected.remove(hconn)
        return OK

    def open(self, _hconn: int, od: bytes, _options: int) -> tuple[int, bytes, int, int]:
        self.opened.append(od)
        return (1, od, *OK)

    def put(self, _hconn: int, _hobj: int, md: bytes, pmo: bytes, _body: bytes) -> tuple[bytes, bytes, int, int]:
        return (md, pmo, *OK)

    def get(self, _hconn: int, _hobj: int, md: bytes, gmo: bytes, room: int) -> tuple[bytes, bytes, bytes, int, int, int]:
        self.rooms.append(room)
        assert len(self.rooms) < 100, "the adapter gets again and again"
        if room > self.negotiated:
            return b"", md, gmo, 0, FAILED, Reason.DATA_LENGTH_ERROR
        if self.body is None:
            return b"", md, gmo, 0, FAILED, Reason.NO_MSG_AVAILABLE
        body, length = self.body, len(self.body)
        if length > room:
            return body[:room], md, gmo, length, int(CompletionCode.WARNING), Reason.TRUNCATED_MSG_FAILED
        self.body = None
        return (body, md, gmo, length, *OK)


def on(library: Any) -> BoundConnection:
    return BoundConnection(library, 1, "QM1", SYSTEM_CLOCK)


@pytest.mark.parametrize(
    ("message_bytes", "negotiated", "options"),
    [
        (4 * MIB, 4 * MIB, GetOptions()),
        (3 * MIB, 4 * MIB, GetOptions(options=GetOption.CONVERT)),
        (100, 32_768, GetOptions()),
        (32_768, 32_768, GetOptions()),
        (4 * MIB, 4 * MIB, GetOptions(buffer_bytes_max=100 * MIB)),
        (4 * MIB, 4 * MIB, GetOptions(buffer_bytes_max=100 * MIB, options=GetOption.ACCEPT_TRUNCATED_MSG)),
    ],
    ids=["MAXMSGL's default", "converted", "a short MAXMSGL", "all of it", "the caller has more", "and takes less"],
)
def test_a_message_comes_whole_though_the_channel_carries_no_longer_buffer(
    message_bytes: int, negotiated: int, options: GetOptions
) -> None:
    """IBM, 2010: an MQI client gets it if BufferLength exceeds the length negotiated for its channel."""
    library = Library(b"x" * message_bytes, negotiated)
    connection = on(library)
    queue = connection.open("Q", OpenOption.INPUT_SHARED)

    got = connection.get(queue, options)

    assert got is not None
    assert (message_bytes, 0) == (len(got.body), got.reason)


def test_a_buffer_that_was_too_long_is_not_tried_again() -> None:
    library = Library(b"x", negotiated=32_768)
    connection = on(library)
    queue = connection.open("Q", OpenOption.INPUT_SHARED)
    for options in (GetOptions(), GetOptions(buffer_bytes_max=MIB)):
        connection.get(queue, options)
        library.rooms.clear()

        assert connection.get(queue, options) is None

        assert all(room <= library.negotiated for room in library.rooms)


def test_a_library_that_finds_every_buffer_too_long_is_believed_in_the_end() -> None:
    library = Library(b"x", negotiated=-1)
    connection = on(library)

    refused(Reason.DATA_LENGTH_ERROR, lambda: connection.get(connection.open("Q", OpenOption.INPUT_SHARED), GetOptions()))

    assert len(library.rooms) < 20


def test_no_buffer_is_longer_than_any_message() -> None:
    """A number of 32 bits: beyond 2 GiB it would be another one."""
    library = Library(b"x")
    connection = on(library)

    connection.get(connection.open("Q", OpenOption.INPUT_SHARED), GetOptions(buffer_bytes_max=2**40))

    assert [100 * MIB] == library.rooms


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"options": GetOption.WAIT, "wait_ms": 2**31}, Reason.WAIT_INTERVAL_ERROR),
        ({"options": GetOption.WAIT, "wait_ms": -(2**31) - 1}, Reason.WAIT_INTERVAL_ERROR),
        ({"buffer_bytes_max": -1}, Reason.BUFFER_LENGTH_ERROR),
        ({"sequence_number": 2**31}, Reason.MD_ERROR),
        ({"message_token": bytes(17)}, Reason.MSG_TOKEN_ERROR),
    ],
)
def test_a_get_option_without_room_in_the_structures_is_refused_as_by_the_mqi(said: dict[str, Any], reason: Reason) -> None:
    connection = on(Library(b"x"))
    queue = connection.open("Q", OpenOption.INPUT_SHARED)

    refused(reason, lambda: connection.get(queue, GetOptions(**said)))

    connection.get(queue, GetOptions())  # the connection is free for the next call


SETS_IDENTITY = PutOption.SET_IDENTITY_CONTEXT
SETS_ALL = PutOption.SET_ALL_CONTEXT


@pytest.mark.parametrize(
    ("fields", "options", "reason"),
    [
        ({"expiry_tenths": 2**31}, PutOption.NONE, Reason.EXPIRY_ERROR),
        ({"feedback": 2**31}, PutOption.NONE, Reason.MD_ERROR),
        ({"user_identifier": "administrator"}, SETS_IDENTITY, Reason.MD_ERROR),
        ({"application_identity_data": "d" * 33}, SETS_IDENTITY, Reason.MD_ERROR),
        ({"accounting_token": bytes(33)}, SETS_ALL, Reason.MD_ERROR),
        ({"put_application_name": "p" * 29}, SETS_ALL, Reason.MD_ERROR),
        ({"user_identifier": "\N{SNOWMAN}"}, SETS_ALL, Reason.MD_ERROR),
    ],
)
def test_a_value_without_room_in_the_descriptor_is_refused_and_not_cut(
    fields: dict[str, Any], options: PutOption, reason: Reason
) -> None:
    """Cut, a user's name is another user's."""
    connection = on(Library())
    queue = connection.open("Q", OpenOption.OUTPUT)

    refused(reason, lambda: connection.put(queue, MessageDescriptor(**fields), b"", options))


def test_context_that_is_not_set_may_be_as_long_as_it_likes() -> None:
    """The queue manager fills it in."""
    connection = on(Library())
    descriptor = MessageDescriptor(user_identifier="administrator", put_application_name="p" * 29)

    connection.put(connection.open("Q", OpenOption.OUTPUT), descriptor, b"", PutOption.NONE)


def test_an_alternate_user_is_refused_and_not_cut_to_another_user() -> None:
    """AlternateUserId has 12 characters: those of "administrator" are a user of their own."""
    library = Library()
    connection = on(library)
    subscription = SubscriptionDescriptor(object_string="a", alternate_user="administrator")
    snowman = ObjectDescriptor("Q", alternate_user="\N{SNOWMAN}")

    for call, reason in (
        (lambda: connection.open(ObjectDescriptor("Q", alternate_user="administrator"), OpenOption.OUTPUT), Reason.OD_ERROR),
        (lambda: connection.put1(snowman, MessageDescriptor(), b"", PutOption.NONE), Reason.OD_ERROR),
        (lambda: connection.subscribe(subscription), Reason.SD_ERROR),
    ):
        refused(reason, call)

    assert [] == library.opened


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"object_name": "T" * 49}, Reason.OBJECT_NAME_ERROR),
        ({"application_identity_data": "d" * 33}, Reason.SD_ERROR),
        ({"correlation_id": bytes(25)}, Reason.SD_ERROR),
        ({"accounting_token": bytes(33)}, Reason.SD_ERROR),
        ({"expiry_tenths": 2**31}, Reason.EXPIRY_ERROR),
        ({"level": 2**31}, Reason.SD_ERROR),
    ],
)
def test_a_value_without_room_in_the_subscription_descriptor_is_refused_and_not_cut(
    fields: dict[str, Any], reason: Reason
) -> None:
    refused(reason, lambda: on(Library()).subscribe(SubscriptionDescriptor(**fields)))


def reached(library: Any, process: ProcessTls | None = None, **said: Any) -> BoundQueueManager:
    options = ConnectOptions(queue_manager="QM1", channel="A", hosts=(("mq", 1414),), **said)
    return BoundQueueManager(library, options, process=process or ProcessTls())


def test_a_connection_that_came_with_a_warning_and_is_refused_is_given_back() -> None:
    """MQCC_WARNING comes with a connection; held by nobody, it would stay until the process ends."""
    library = Library()
    library.connects = [(1, Reason.SSL_ALREADY_INITIALIZED)]

    refused(Reason.SSL_ALREADY_INITIALIZED, lambda: reached(library, key_repository="/other").connect())

    assert [] == library.connected


def test_a_second_queue_manager_with_the_same_tls_settings_is_reached() -> None:
    """IBM, 2391: a process sets TLS up once, and ignores a later MQSCO. Here the later MQSCO has the same values."""
    library, process = Library(), ProcessTls()
    same: dict[str, Any] = {"key_repository": "/keys", "certificate_label": "app", "process": process}
    reached(library, **same).connect()
    library.connects = [(1, Reason.SSL_ALREADY_INITIALIZED)]

    reached(library, **same).connect()

    assert [1, 2] == library.connected


def test_settings_that_came_before_the_ones_in_force_are_not_the_same() -> None:
    """Once the last TLS connection is gone the next one sets TLS up again."""
    library, process = Library(), ProcessTls()
    first, second = (reached(library, key_repository=keys, process=process) for keys in ("/first", "/second"))
    first.connect()
    second.connect()
    library.connects = [(1, Reason.SSL_ALREADY_INITIALIZED)]

    refused(Reason.SSL_ALREADY_INITIALIZED, first.connect)

    assert [1, 2] == library.connected


def test_a_connection_without_tls_settings_leaves_those_in_force() -> None:
    library, process = Library(), ProcessTls()
    protected = reached(library, key_repository="/keys", process=process)
    protected.connect()
    reached(library, process=process).connect()
    library.connects = [(1, Reason.SSL_ALREADY_INITIALIZED)]

    protected.connect()

    assert [1, 2, 3] == library.connected
