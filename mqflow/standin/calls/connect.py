"""MQCONN, MQCONNX and MQDISC: connections by number, and who may use one, from which thread, at the same time as whom.

Source: IBM, "Shared (thread independent) connections with MQCONNX"; rc2002 (q040760), rc2018, rc2219, rc2500; MQDISC.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from hmac import compare_digest
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.standin.memory.layouts import MQCD, MQCNO, MQCSP, MQSCO, Layout
from mqflow.standin.memory.structures import Structure, structure_at, text_at, write_number
from mqflow.verbs import Connection, ObjectHandle, QueueManager, SubscriptionHandle
from mqflow.world import Clock, Runner

if TYPE_CHECKING:
    from mqflow.standin.calls.callbacks import Consumers
    from mqflow.standin.calls.message_handles import MessageHandle

__all__ = (
    "NOT_CONNECTED",
    "ConnectRequest",
    "Hconn",
    "Host",
    "PutCounts",
    "Sharing",
    "connect",
    "connect_with_options",
    "disconnect",
)

NOT_CONNECTED: Final = -1
"""MQHC_UNUSABLE_HCONN, and what a handle is after it was given up."""

_NAME_CHARS: Final = 48
_SHARE_BITS: Final = 0xE0
_CLIENT_BINDING: Final = 0x800

Values = Mapping[str, int | str | bytes]


class Sharing(Enum):
    """Which threads may use a connection (MQCNO_HANDLE_SHARE_*)."""

    NONE = 0x20
    BLOCK = 0x40
    NO_BLOCK = 0x80


class ConnectRequest(Struct, frozen=True, kw_only=True):
    """What an application asked for when it connected: the fields of the structures it gave, as IBM calls them.

    Secrets are in it, because whether they arrive is what a test wants to know; they are not in its repr.
    """

    queue_manager: str
    #: MQCNO_* bits.
    options: int = 0
    application_name: str = ""
    #: CCDTUrlPtr.
    ccdt_url: str = ""
    #: MQCD, MQSCO and MQCSP, empty where none was given; SSLPeerName, CSPUserId, CSPPassword, Token, InitialKey and
    #: KeyRepoPassword are there as the bytes that their pointers lead to.
    channel: Values = {}
    tls: Values = {}
    security: Values = {}

    @property
    def user(self) -> str:
        """The user that the MQCSP names, or else the MQCD."""
        return _text(self.security.get("CSPUserId", b"")) or _text(self.channel.get("UserIdentifier", b""))

    def __repr__(self) -> str:
        return f"ConnectRequest({self.queue_manager!r}, options=0x{self.options:x}, application_name={self.application_name!r})"


class PutCounts:
    """What MQSTAT tells of puts with MQPMO_ASYNC_RESPONSE since it was last asked."""

    __slots__ = ("completion", "failed", "object_name", "reason", "succeeded", "warned")

    def __init__(self) -> None:
        self.succeeded = self.warned = self.failed = 0
        #: Of the first that did not succeed.
        self.completion = self.reason = 0
        self.object_name = ""


class Hconn:
    """A connection as the application knows it: by number."""

    def __init__(self, number: int, connection: Connection, sharing: Sharing, *, local: bool) -> None:
        self.number = number
        self.connection = connection
        self.sharing = sharing
        #: A local binding, not a client's: it may begin global units of work, and its puts never answer early.
        self.local = local
        # The thread itself: its number would be given to another one when it has ended.
        self.thread = threading.current_thread()
        #: Open objects and subscriptions by number.
        self.objects: dict[int, ObjectHandle] = {}
        self.subscriptions: dict[int, SubscriptionHandle] = {}
        self.message_handles: dict[int, MessageHandle] = {}
        self.puts = PutCounts()
        #: Callbacks; None until the first MQCB.
        self.consumers: Consumers | None = None
        self._busy = threading.Lock()
        self._last_number = 0

    def next_number(self) -> int:
        """Return a number that no handle of this connection has had."""
        self._last_number += 1
        return self._last_number

    def object_of(self, number: int, verb: str) -> ObjectHandle:
        """Return the open object. Raises 2019."""
        found = self.objects.get(number)
        if found is None:
            raise self._no_handle(verb)
        return found

    def subscription_of(self, number: int, verb: str) -> SubscriptionHandle:
        """Return the subscription. Raises 2019."""
        found = self.subscriptions.get(number)
        if found is None:
            raise self._no_handle(verb)
        return found

    def _no_handle(self, verb: str) -> MQIError:
        return error_for(Reason.HOBJ_ERROR, verb, queue_manager=self.connection.queue_manager_name)

    @contextmanager
    def used(self, verb: str, *, controls: bool = False) -> Iterator[None]:
        """Hold the connection for one call.

        Raises 2018 in a thread it does not belong to, 2219 where it is busy and not to block, 2500 while its callbacks run,
        except for calls that are made in a callback, or that control them (`controls`).
        """
        name = self.connection.queue_manager_name
        within = self.consumers is not None and self.consumers.runs_in(threading.get_ident())
        if self.sharing is Sharing.NONE and self.thread is not threading.current_thread() and not within:
            detail = "It was connected in another thread, with MQCNO_HANDLE_SHARE_NONE"
            raise error_for(Reason.HCONN_ERROR, verb, queue_manager=name, detail=detail)
        if controls:
            yield
            return
        if self.consumers is not None and self.consumers.running and not within:
            raise error_for(Reason.HCONN_ASYNC_ACTIVE, verb, queue_manager=name, detail="Its callbacks are started: MQCTL STOP")
        if not self._busy.acquire(blocking=self.sharing is not Sharing.NO_BLOCK):
            raise error_for(Reason.CALL_IN_PROGRESS, verb, queue_manager=name)
        try:
            yield
        finally:
            self._busy.release()


class Host:
    """What the library works on: a queue manager, a clock, threads; and every connection there is."""

    def __init__(
        self,
        queue_manager: QueueManager,
        *,
        clock: Clock,
        runner: Runner,
        numbers: Iterator[int],
        on_connect: Callable[[ConnectRequest], None] | None = None,
        users: Mapping[str, str] | None = None,
    ) -> None:
        self.queue_manager = queue_manager
        self.clock = clock
        self.runner = runner
        self._on_connect = on_connect
        self._users = users
        self._lock = threading.Lock()
        self._hconns: dict[int, Hconn] = {}
        # No number twice in a process: a program may keep the handles of a connection that is long gone, and close them.
        self._numbers = numbers
        #: Message handles that belong to no connection (MQHC_UNASSOCIATED_HCONN).
        self.message_handles: dict[int, MessageHandle] = {}

    def hconn(self, number: int, verb: str) -> Hconn:
        """Return the connection. Raises 2018."""
        found = self._hconns.get(number)
        if found is None:
            raise error_for(Reason.HCONN_ERROR, verb, queue_manager=self.queue_manager.name)
        return found

    def connect(self, request: ConnectRequest, sharing: Sharing, *, local: bool) -> tuple[Hconn, int]:
        """Return a connection and 0; or 2002 and the one that shares no handles, of which a thread has one at most."""
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
        connection = self.queue_manager.connect(application_name=request.application_name, user=request.user)
        hconn = Hconn(self.next_number(), connection, sharing, local=local)
        self._hconns[hconn.number] = hconn
        return hconn, Reason.NONE

    def next_number(self) -> int:
        """Return a number that no connection and no message handle has had."""
        with self._lock:
            return next(self._numbers)

    def forget(self, hconn: Hconn) -> None:
        """Let the number mean nothing any more."""
        self._hconns.pop(hconn.number, None)

    def abandon(self) -> None:
        """Give up every connection, backed out, as when the process ends."""
        for hconn in list(self._hconns.values()):
            self.forget(hconn)
            if hconn.consumers is not None:
                hconn.consumers.stop()
            try:
                hconn.connection.backout()  # MQDISC would commit (q101800)
            except MQIError:
                continue  # it is lost already, or inside a call of another thread: its queue manager backs it out
            hconn.connection.disconnect()


def connect(host: Host, name_at: int, hconn_at: int, *, client: bool) -> int:
    """MQCONN: connect as the default options say."""
    request = ConnectRequest(queue_manager=text_at(name_at, _NAME_CHARS))
    hconn, reason = host.connect(request, Sharing.NONE, local=not client)
    write_number(hconn_at, hconn.number)
    return reason


def connect_with_options(host: Host, name_at: int, options_at: int, hconn_at: int, *, client: bool) -> int:
    """MQCONNX: connect as the MQCNO says. The channel it names leads to the queue manager of this process all the same."""
    cno = structure_at(MQCNO, options_at, "MQCONNX")
    options = cno.number("Options")
    shared = [sharing for sharing in Sharing if options & sharing.value]
    if len(shared) > 1:
        detail = f"MQCNO options 0x{options & _SHARE_BITS:x}: only one of MQCNO_HANDLE_SHARE_* can be asked for"
        raise error_for(Reason.OPTIONS_ERROR, "MQCONNX", detail=detail)
    channel = _given(MQCD, cno.place("ClientConnPtr", "ClientConnOffset"), ("SSLPeerName",))
    request = ConnectRequest(
        queue_manager=text_at(name_at, _NAME_CHARS),
        options=options,
        application_name=cno.text("ApplName"),
        ccdt_url=_text(cno.pointed("CCDTUrl")),
        channel=channel,
        tls=_given(MQSCO, cno.place("SSLConfigPtr", "SSLConfigOffset"), ("KeyRepoPassword", "HTTPSKeyStore")),
        security=_given(
            MQCSP,
            cno.place("SecurityParmsPtr", "SecurityParmsOffset"),
            ("CSPUserId", "CSPPassword", "InitialKey", "Token"),
        ),
    )
    # A package that gives a channel means a client, whether it sets the bit or not: ibmmq packs the options before it does.
    client = client or bool(options & _CLIENT_BINDING) or bool(channel)
    hconn, reason = host.connect(request, shared[0] if shared else Sharing.NONE, local=not client)
    cno.set(ConnectionId=f"AMQC{host.queue_manager.name:<12.12}".encode() + hconn.number.to_bytes(8, "big"))
    write_number(hconn_at, hconn.number)
    return reason


def disconnect(host: Host, hconn_at: int, number: int) -> int:
    """MQDISC: end the connection, and **commit its unit of work**, as IBM MQ does. Its handles are gone with it."""
    hconn = host.hconn(number, "MQDISC")
    if hconn.consumers is not None:
        with hconn.used("MQDISC", controls=True):
            hconn.consumers.stop()
    with hconn.used("MQDISC"):
        host.forget(hconn)
        write_number(hconn_at, NOT_CONNECTED)
        hconn.connection.disconnect()
    return Reason.NONE


def _check_password(request: ConnectRequest, users: Mapping[str, str], name: str, *, local: bool) -> None:
    """Refuse with 2035 a password that is not the user's, and a client that gives none.

    As CONNAUTH's default has it: CHCKLOCL(OPTIONAL), CHCKCLNT(REQDADM), because a client without credentials would be the user
    that administers the queue manager. The library cannot say why, as IBM's does not: who asks may not be told.
    """
    user = _text(request.security.get("CSPUserId", b""))
    if not user and local:
        return
    password = _text(request.security.get("CSPPassword", b""))
    if not user or not compare_digest(users.get(user, "").encode(), password.encode()) or user not in users:
        raise error_for(Reason.NOT_AUTHORIZED, "MQCONNX", queue_manager=name)


def _reaches(wanted: str, name: str) -> bool:
    """A blank name is the default queue manager; one that starts with an asterisk may be any (a queue manager group)."""
    return wanted in {"", name} or wanted.startswith("*")


def _given(layout: Layout, address: int, pointers: tuple[str, ...]) -> Values:
    if not address:
        return {}
    found: Structure = structure_at(layout, address, "MQCONNX")
    return found.values() | {name: _behind(found, name) for name in pointers if f"{name}Ptr" in found.values()}


def _behind(structure: Structure, name: str) -> bytes:
    if f"{name}Offset" in structure.layout.fields:
        return structure.pointed(name)
    address, length = structure.number(f"{name}Ptr"), structure.number(f"{name}Length")
    return text_at(address, length).encode() if address else b""


def _text(value: str | bytes | int) -> str:
    return value.split(b"\0", 1)[0].decode("utf-8", "replace").rstrip() if isinstance(value, bytes) else str(value)
