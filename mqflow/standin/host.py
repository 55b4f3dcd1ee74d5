"""The state of the stand-in library: a queue manager, the connections to it, and their handles by number.

This file knows which threads can use a connection, and whether a call waits for another call on the same connection. It knows
no structure in the caller's memory.
Source: IBM, "Shared (thread independent) connections with MQCONNX"; rc2002 (q040760), rc2018, rc2219, rc2500; MQIMPO and MQSMPO
options, rc2471.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from enum import Enum, IntEnum
from hmac import compare_digest
from typing import Final, Protocol

from msgspec import Struct

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.properties.descriptor_properties import descriptor_property
from mqflow.mqi.properties.property_names import whole_name
from mqflow.mqi.properties.set import MessageProperty, Properties, find, with_property, without_property
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import Connection, ObjectHandle, QueueManager, SubscriptionHandle
from mqflow.world import SYSTEM_WORLD, Clock, Runner, World

__all__ = (
    "Callbacks",
    "ConnectRequest",
    "Hconn",
    "Host",
    "MessageHandle",
    "PutCounts",
    "SetWhere",
    "Sharing",
    "Values",
    "WhyNot",
    "text_of",
)

Values = Mapping[str, int | str | bytes]
WhyNot = Callable[[str, Sequence[str] | None], tuple[int, str] | None]
"""Returns why a program cannot use the channel of this name, as a reason and a sentence, or None if it can.

The second argument is None for a program without TLS; otherwise it has the label of the certificate that the program names.
"""


class Sharing(Enum):
    """The threads that can use a connection (MQCNO_HANDLE_SHARE_*)."""

    NONE = 0x20
    BLOCK = 0x40
    NO_BLOCK = 0x80


class ConnectRequest(Struct, frozen=True, kw_only=True):
    """The request of an application that connects: the fields of the application's structures, by IBM's names.

    The record holds secrets, because tests check that the secrets arrive. Its repr does not show them.
    """

    queue_manager: str
    #: MQCNO_* bits.
    options: int = 0
    application_name: str = ""
    #: CCDTUrlPtr.
    ccdt_url: str = ""
    #: MQCD, MQSCO and MQCSP; empty if the application gave no such structure. SSLPeerName, CSPUserId, CSPPassword, Token,
    #: InitialKey and KeyRepoPassword contain the bytes that the pointers point to.
    channel: Values = {}
    tls: Values = {}
    security: Values = {}

    @property
    def user(self) -> str:
        """The user of the MQCSP; if the MQCSP has no user, the user of the MQCD."""
        return text_of(self.security.get("CSPUserId", b"")) or text_of(self.channel.get("UserIdentifier", b""))

    @property
    def has_tls(self) -> bool:
        """Whether the MQCD names a cipher."""
        return bool(text_of(self.channel.get("SSLCipherSpec", b"")))

    def __repr__(self) -> str:
        return f"ConnectRequest({self.queue_manager!r}, options=0x{self.options:x}, application_name={self.application_name!r})"


class PutCounts:
    """The counts of puts with MQPMO_ASYNC_RESPONSE since the last MQSTAT."""

    __slots__ = ("completion", "failed", "object_name", "reason", "succeeded", "warned")

    def __init__(self) -> None:
        self.warned: int
        self.succeeded: int
        self.failed: int
        self.succeeded = self.warned = self.failed = 0
        #: The result of the first put that did not succeed.
        self.reason: int
        self.completion: int
        self.completion = self.reason = 0
        self.object_name: str = ""


class SetWhere(IntEnum):
    """MQSMPO_*: the place of a new property."""

    FIRST = 0
    UNDER_CURSOR = 0x1
    AFTER_CURSOR = 0x2
    APPEND = 0x4
    BEFORE_CURSOR = 0x8


class MessageHandle:
    """Hmsg: properties in order, the cursor, and the descriptor of the message that the last MQGET returned."""

    def __init__(self, *, validate: bool = True) -> None:
        self.validate = validate
        self.properties: Properties = ()
        self.descriptor: MessageDescriptor | None = None
        #: The index of the last inquired property (the cursor), and the name in that inquiry.
        self._cursor: int | None = None
        self._asked = ""

    def hold(self, properties: Properties, descriptor: MessageDescriptor) -> None:
        """Replace the content with the properties and the descriptor of an MQGET."""
        self.properties, self.descriptor = properties, descriptor
        self._cursor = None

    def used(self) -> Properties:
        """Return the properties for an MQPUT, and reset the cursor."""
        self._cursor = None
        return self.properties

    def inquire(self, name: str, *, following: bool) -> MessageProperty:
        """Return the first property of this name, or with `following` the next after the cursor. Move the cursor to it.

        Raises 2471 if there is no such property.
        """
        if self.descriptor is not None and (field := descriptor_property(self.descriptor, whole_name(name))):
            return field
        after = self._cursor if following and self._cursor is not None and name == self._asked else -1
        index = find(self.properties, name, after=after)
        if index is None:
            raise _not_there(name)
        self._cursor, self._asked = index, name
        return self.properties[index]

    def under_cursor(self, verb: str) -> MessageProperty:
        """Return the property of the last inquiry. Raises 2471 if the cursor is at no property."""
        return self.properties[self._at_cursor(verb)]

    def delete(self, name: str) -> None:
        """Delete the first property of this name. Raises 2471 if there is no such property."""
        index = find(self.properties, name)
        if index is None:
            raise _not_there(name, "MQDLTMP")
        self._delete_at(index)

    def delete_under_cursor(self) -> None:
        """Delete the property of the last inquiry. Raises 2471 if the cursor is at no property."""
        self._delete_at(self._at_cursor("MQDLTMP"))

    def set(self, wanted: MessageProperty, where: SetWhere) -> None:
        """Set the property at this place. Raises 2471 if the place needs the cursor, and the cursor is at no property."""
        present = self.properties
        match where:
            case SetWhere.FIRST:
                self.properties = with_property(present, wanted)
            case SetWhere.APPEND:
                self.properties = (*present, wanted)
            case SetWhere.UNDER_CURSOR:
                index = self._at_cursor("MQSETMP")
                self.properties = (*present[:index], wanted, *present[index + 1 :])
            case SetWhere.AFTER_CURSOR:
                index = self._at_cursor("MQSETMP") + 1
                self.properties = (*present[:index], wanted, *present[index:])
            case SetWhere.BEFORE_CURSOR:
                index = self._at_cursor("MQSETMP")
                self.properties = (*present[:index], wanted, *present[index:])
                self._cursor = index + 1

    def _at_cursor(self, verb: str) -> int:
        if self._cursor is None:
            raise _not_there("", verb, "The cursor is at no property")
        return self._cursor

    def _delete_at(self, index: int) -> None:
        self.properties = without_property(self.properties, index)
        self._cursor = None


class Callbacks(Protocol):
    """The part of a connection's callbacks that every call except MQCB and MQCTL uses."""

    @property
    def running(self) -> bool:
        """True if MQCTL has started the callbacks, and they have not ended."""
        ...

    @property
    def active(self) -> bool:
        """True if the callbacks use the connection now: they are started and not suspended."""
        ...

    def runs_in(self, thread: int) -> bool:
        """Return whether this thread calls the callbacks."""
        ...

    def remove(self, hobj: int) -> bool:
        """Deregister the callback of an object; return whether it had one."""
        ...

    def stop(self) -> None:
        """Stop the callbacks. Wait for the running callback, unless this callback makes the call."""


class Hconn:
    """A connection, which the application knows by its number."""

    def __init__(
        self,
        number: int,
        connection: Connection,
        sharing: Sharing,
        *,
        local: bool,
        message_bytes_max: int = 0,
        has_tls: bool = False,
    ) -> None:
        self.number = number
        #: Whether the application asked for TLS: its MQCD names a cipher.
        self.has_tls: Final = has_tls
        #: MQCD.MaxMsgLength: the longest message of a put; 0 for no limit.
        self.message_bytes_max = message_bytes_max
        self.connection = connection
        self.sharing = sharing
        #: True if this is a local binding, not a client: it can begin global units of work, and its puts never answer early.
        self.local = local
        # The thread object, not its number: after the end of the thread, another thread can get the same number.
        self.thread: Final = threading.current_thread()
        #: Open objects and subscriptions by number.
        self.objects: dict[int, ObjectHandle] = {}
        self.subscriptions: dict[int, SubscriptionHandle] = {}
        #: The handles of queues with DEFPRESP(ASYNC), in a client connection.
        self.answers_early: set[int] = set()
        self.message_handles: dict[int, MessageHandle] = {}
        self.puts: PutCounts = PutCounts()
        #: True if an asynchronous put of the unit of work failed: the unit of work can only be backed out.
        self.unit_failed = False
        #: The callbacks; None until the first MQCB.
        self.consumers: Callbacks | None = None
        self._busy = threading.Lock()
        self._last_number = 0

    def next_number(self) -> int:
        """Return a number that no handle of this connection has had."""
        self._last_number += 1
        return self._last_number

    def object_of(self, number: int, verb: str) -> ObjectHandle:
        """Return the open object. Raises 2019 if no open object has this number."""
        found = self.objects.get(number)
        if found is None:
            raise self._no_handle(verb)
        return found

    def subscription_of(self, number: int, verb: str) -> SubscriptionHandle:
        """Return the subscription. Raises 2019 if no subscription has this number."""
        found = self.subscriptions.get(number)
        if found is None:
            raise self._no_handle(verb)
        return found

    def _no_handle(self, verb: str) -> MQIError:
        return error_for(Reason.HOBJ_ERROR, verb, queue_manager=self.connection.queue_manager_name)

    def exclusively(self) -> AbstractContextManager[object]:
        """Return a context in which no call of the application runs on the connection: the callbacks get messages in it."""
        return self._busy

    @contextmanager
    def used(self, verb: str, *, controls: bool = False) -> Iterator[None]:
        """Hold the connection for one call.

        Raises 2018 in a thread that must not use the connection, and 2219 if it is busy and its calls must not wait.
        Raises 2500 while the callbacks of the connection are started. While they are suspended, in a callback, and for calls
        that control the callbacks (`controls`), 2500 is not raised.
        """
        name = self.connection.queue_manager_name
        within = self.consumers is not None and self.consumers.runs_in(threading.get_ident())
        if self.sharing is Sharing.NONE and self.thread is not threading.current_thread() and not within:
            detail = "It was connected in another thread, with MQCNO_HANDLE_SHARE_NONE"
            raise error_for(Reason.HCONN_ERROR, verb, queue_manager=name, detail=detail)
        if controls:
            yield
            return
        if self.consumers is not None and self.consumers.active and not within:
            raise error_for(Reason.HCONN_ASYNC_ACTIVE, verb, queue_manager=name, detail="Its callbacks are started: MQCTL STOP")
        if not self._busy.acquire(blocking=self.sharing is not Sharing.NO_BLOCK):
            raise error_for(Reason.CALL_IN_PROGRESS, verb, queue_manager=name)
        try:
            yield
        finally:
            self._busy.release()


class Host:
    """The state of the library: a queue manager, a clock, threads, and every open connection."""

    def __init__(
        self,
        queue_manager: QueueManager,
        *,
        world: World = SYSTEM_WORLD,
        numbers: Iterator[int],
        on_connect: Callable[[ConnectRequest], None] | None = None,
        users: Mapping[str, str] | None = None,
        why_not: WhyNot | None = None,
    ) -> None:
        self.queue_manager = queue_manager
        self.clock: Clock = world.clock
        self.runner: Runner = world.runner
        self._on_connect = on_connect
        self._users = users
        self._why_not = why_not
        self._lock = threading.Lock()
        self._hconns: dict[int, Hconn] = {}
        # A process never uses a number twice: a program can close the handles of a connection that ended long ago.
        self._numbers = numbers
        #: Message handles that belong to no connection (MQHC_UNASSOCIATED_HCONN).
        self.message_handles: dict[int, MessageHandle] = {}

    def hconn(self, number: int, verb: str) -> Hconn:
        """Return the connection. Raises 2018 if no connection has this number."""
        found = self._hconns.get(number)
        if found is None:
            raise error_for(Reason.HCONN_ERROR, verb, queue_manager=self.queue_manager.name)
        return found

    def connect(self, request: ConnectRequest, sharing: Sharing, *, local: bool) -> tuple[Hconn, int]:
        """Return a new connection and 0, or the connection that this thread has already and 2002.

        2002 comes if neither of the two connections shares its handles (MQCNO_HANDLE_SHARE_NONE). A new connection with an
        MQSCO gets 2391 while the process has another connection with TLS: IBM's library then ignores the MQSCO.
        Source: IBM, "SSLConfigPtr (PMQSCO)" of the MQCNO (q095520).
        """
        if not _reaches(request.queue_manager, self.queue_manager.name):
            detail = f"This process has the queue manager {self.queue_manager.name}"
            raise error_for(Reason.Q_MGR_NAME_ERROR, "MQCONNX", request.queue_manager, detail=detail)
        if sharing is Sharing.NONE:
            for hconn in list(self._hconns.values()):
                if hconn.sharing is Sharing.NONE and hconn.thread is threading.current_thread():
                    return hconn, Reason.ALREADY_CONNECTED
        if self._on_connect is not None:
            self._on_connect(request)
        if self._users is not None:
            _check_password(request, self._users, self.queue_manager.name, local=local)
        if request.channel and self._why_not is not None:
            _check_channel(request, self._why_not, self.queue_manager.name)
        connection = self.queue_manager.connect(application_name=request.application_name, user=request.user)
        message_bytes_max = request.channel.get("MaxMsgLength", 0)
        hconn = Hconn(
            self.next_number(),
            connection,
            sharing,
            local=local,
            message_bytes_max=message_bytes_max if isinstance(message_bytes_max, int) else 0,
            has_tls=request.has_tls,
        )
        ignored = request.has_tls and bool(request.tls) and any(each.has_tls for each in list(self._hconns.values()))
        self._hconns[hconn.number] = hconn
        return hconn, Reason.SSL_ALREADY_INITIALIZED if ignored else Reason.NONE

    def next_number(self) -> int:
        """Return a number that no connection and no message handle has had."""
        with self._lock:
            return next(self._numbers)

    def forget(self, hconn: Hconn) -> None:
        """Forget the connection and its number."""
        self._hconns.pop(hconn.number, None)

    def abandon(self) -> None:
        """Back out and end every connection, as at the end of the process."""
        for hconn in list(self._hconns.values()):
            self.forget(hconn)
            if hconn.consumers is not None:
                hconn.consumers.stop()
            try:
                hconn.connection.backout()  # MQDISC would commit (q101800)
            except MQIError:
                continue  # the connection is lost, or another thread uses it: the queue manager backs it out
            hconn.connection.disconnect()


def _check_password(request: ConnectRequest, users: Mapping[str, str], name: str, *, local: bool) -> None:
    """Refuse with 2035 a password that is not the user's, and a client that gives none.

    This is CONNAUTH's default, CHCKLOCL(OPTIONAL) and CHCKCLNT(REQDADM). Without it, a client without credentials would be the
    user that administers the queue manager. Like the refusal of IBM's library, this refusal gives no detail.
    """
    user = text_of(request.security.get("CSPUserId", b""))
    if not user and local:
        return
    password = text_of(request.security.get("CSPPassword", b""))
    if not user or not compare_digest(users.get(user, "").encode(), password.encode()) or user not in users:
        raise error_for(Reason.NOT_AUTHORIZED, "MQCONNX", queue_manager=name)


def _check_channel(request: ConnectRequest, why_not: WhyNot, name: str) -> None:
    """Refuse a program whose TLS settings do not fit the channel that it names. The library reads no key repository."""
    label = text_of(request.tls.get("CertificateLabel", b""))
    found = why_not(text_of(request.channel.get("ChannelName", b"")), [label] * bool(label) if request.has_tls else None)
    if found is not None:
        raise error_for(found[0], "MQCONNX", queue_manager=name, detail=found[1])


def _reaches(wanted: str, name: str) -> bool:
    """Return whether the wanted name fits. A blank name (the default queue manager) and "*GROUP" (any of a group) fit too."""
    return wanted in {"", name} or wanted.startswith("*")


def text_of(value: str | bytes | int) -> str:
    """Return a field of a structure as text, without its padding."""
    return value.split(b"\0", 1)[0].decode("utf-8", "replace").rstrip() if isinstance(value, bytes) else str(value)


def _not_there(name: str, verb: str = "MQINQMP", detail: str = "") -> MQIError:
    return error_for(Reason.PROPERTY_NOT_AVAILABLE, verb, name, detail=detail)
