"""MQCB and MQCTL: the callbacks of a connection, and the thread that calls them.

Each connection has one thread, which gets messages for the consumers in turn, and calls one consumer at a time. MQCTL STOP
waits for the running callback, and so does MQCTL SUSPEND: then the application may use the connection until MQCTL RESUME. An
`InlineConnection` reports when a message may be available. Any other connection, for example to a queue manager in another
process, waits in MQGET, for one consumer after the other.
Source: IBM, MQCB, MQCTL, MQCBD and MQCBC; rc2444, rc2446, rc2448, rc2486, rc2488, rc2500, rc2534.
"""

import ctypes
import threading
from collections.abc import Callable
from enum import IntEnum, IntFlag
from typing import Final

from mqflow.mqi.c_structures import MQCBC, MQCBD, MQCTLO, MQGMO
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import GetOption
from mqflow.mqi.reason_codes import CompletionCode, Reason
from mqflow.standin.calls.messages import TRUNCATED, Request, deliver, next_message, request_from
from mqflow.standin.host import Hconn, Host
from mqflow.standin.memory.structures import Structure, read, structure_at
from mqflow.verbs import Connection, Got, InlineConnection
from mqflow.world import own_thread, wait_until_on

__all__ = ("Consumers", "control", "register")

_MESSAGE_CONSUMER, _EVENT_HANDLER = 1, 2
_FULL_LENGTH: Final = -1
_NO_OBJECT: Final = 0
_MD_BYTES: Final = 364
_GET_WAIT_MS: Final = 100
"""The longest wait of one MQGET over a connection that does not report messages. MQCTL STOP waits for the end of this MQGET."""
_RETRY_S: Final = 1.0
"""How long a consumer is suspended, in seconds, after its get failed, for example because the queue is inhibited."""

_LOST: Final = frozenset(
    {Reason.CONNECTION_BROKEN, Reason.Q_MGR_STOPPING, Reason.Q_MGR_QUIESCING, Reason.CONNECTION_QUIESCING, Reason.HCONN_ERROR}
)
_BROWSES: Final = GetOption.BROWSE_FIRST | GetOption.BROWSE_NEXT | GetOption.BROWSE_MSG_UNDER_CURSOR

_Callback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class Operation(IntFlag):
    """MQOP_*: the operations of MQCB and MQCTL."""

    START = 0x1
    START_WAIT = 0x2
    STOP = 0x4
    REGISTER = 0x100
    DEREGISTER = 0x200
    SUSPEND = 0x10000
    RESUME = 0x20000


class CallType(IntEnum):
    """MQCBCT_*: the reason why a callback is called."""

    START = 1
    STOP = 2
    REGISTER = 3
    DEREGISTER = 4
    EVENT = 5
    MSG_REMOVED = 6
    MSG_NOT_REMOVED = 7


class State(IntEnum):
    """MQCS_*: the state of a consumer when it is called."""

    NONE = 0
    SUSPENDED_TEMPORARY = 1
    SUSPENDED_USER_ACTION = 2


_WANTED_CALLS: Final = {CallType.START: 0x1, CallType.STOP: 0x4, CallType.REGISTER: 0x100, CallType.DEREGISTER: 0x200}
"""For each kind of call without a message, the MQCBDO_* bit that asks for it."""


class Consumer:
    """A registered callback: of an object, or of the connection (an event handler)."""

    def __init__(self, hobj: int, cbd: Structure, md: bytes, gmo: bytes, request: Request | None) -> None:
        self.hobj = hobj
        self.area: int = cbd.number("CallbackArea")
        self.options: int = cbd.number("Options")
        self.function: Callable[..., None] = _Callback(cbd.number("CallbackFunction"))
        #: The MQMD and MQGMO of the registration; each call gets a copy.
        self.md = md
        self.gmo = gmo
        #: The decoded get; None for an event handler.
        self.request = request
        self.suspended = False
        #: The monotonic times of the earliest next get, and of the call with 2033; None if the get has no limited wait.
        self.not_before: float = 0.0
        self.waits_until: float | None = None

    def wait_from(self, now: float) -> None:
        """Start the wait interval of MQGMO_WAIT at `now`."""
        options = None if self.request is None else self.request.options
        bounded = options is not None and options.options & GetOption.WAIT and options.wait_ms > 0
        self.waits_until = now + options.wait_ms / 1000 if options is not None and bounded else None


class Consumers:
    """The callbacks of one connection."""

    def __init__(self, host: Host, hconn: Hconn, connection: Connection) -> None:
        self._host = host
        self._hconn = hconn
        self._connection = connection
        self._registered: dict[int, Consumer] = {}
        self._suspended = False
        self._stopping = False
        self._woken = threading.Event()
        #: Set while the callbacks are suspended and none runs.
        self._paused = threading.Event()
        self._over = threading.Event()
        self._over.set()
        #: Set when MQCTL START is about to return, with the thread that called it and the processor time of this thread then.
        self._may_begin = threading.Event()
        self._starter: tuple[int, int] | None = None
        self._thread: int | None = None
        self._area = 0

    @property
    def running(self) -> bool:
        """True if MQCTL has started the callbacks, and they have not ended."""
        return not self._over.is_set()

    @property
    def active(self) -> bool:
        """True if the callbacks use the connection now: they are started and not suspended."""
        return self.running and not self._suspended

    def runs_in(self, thread: int) -> bool:
        """Return whether this thread calls the callbacks."""
        return self._thread == thread

    def add(self, consumer: Consumer) -> None:
        """Register the callback; it replaces an earlier callback of the same object."""
        self._registered[consumer.hobj] = consumer
        consumer.wait_from(self._host.clock.monotonic())
        self._notify(consumer, CallType.REGISTER)
        self._woken.set()

    def remove(self, hobj: int) -> bool:
        """Deregister the callback of an object; return whether it had one."""
        consumer = self._registered.pop(hobj, None)
        if consumer is not None:
            self._notify(consumer, CallType.DEREGISTER)
        return consumer is not None

    def suspend(self, hobj: int, *, suspended: bool) -> bool:
        """Suspend or resume the callback of an object; return whether it has one."""
        consumer = self._registered.get(hobj)
        if consumer is None:
            return False
        consumer.suspended = suspended
        self._woken.set()
        return True

    def suspend_all(self, *, suspended: bool) -> None:
        """Suspend or resume all callbacks. Suspending waits for the running callback, unless this callback makes the call."""
        self._suspended = suspended
        self._woken.set()
        if suspended and not self.runs_in(threading.get_ident()):
            self._paused.wait()

    def start(self, area: int, *, wait: bool) -> None:
        """Start the callbacks in a new thread; with `wait`, run them in this thread until a callback stops them."""
        if not any(consumer.request is not None for consumer in self._registered.values()):
            raise error_for(Reason.NO_CALLBACKS_ACTIVE, "MQCTL", detail="No message consumer is registered")
        self._area = area
        self._stopping = self._suspended = False
        self._paused.clear()
        self._over.clear()
        if wait:
            self._starter = None
            self._may_begin.set()
            self._run()
        else:
            self._may_begin.clear()
            self._host.runner.start(self._run, f"mqflow-standin-callbacks-{self._hconn.number}")

    def let_begin(self) -> None:
        """Let the new thread of `start` make its first call when this thread has returned from MQCTL.

        npm's ibmmq notes after MQCTL START that its callbacks run. A callback before that note stops its callbacks for ever. A
        busy machine can take the processor from the thread just before the note.
        """
        self._starter = own_thread()
        self._may_begin.set()

    def stop(self) -> None:
        """Stop the callbacks. Wait for the running callback, unless this callback makes the call."""
        self._stopping = True
        self._woken.set()
        if not self.runs_in(threading.get_ident()):
            self._over.wait()

    def _run(self) -> None:
        self._may_begin.wait()
        if self._starter is not None:
            wait_until_on(*self._starter)
        self._thread = threading.get_ident()
        try:
            self._begin()
            while not self._stopping:
                self._woken.clear()
                if self._suspended:
                    self._pause()
                    continue
                ready = [each for each in list(self._registered.values()) if self._is_ready(each)]
                called = [self._offer(consumer) for consumer in ready if not self._stopping]
                if not any(called) and not self._stopping:
                    self._wait(ready)
            self._paused.clear()
            for consumer in list(self._registered.values()):
                self._notify(consumer, CallType.STOP)
        finally:
            self._thread = None
            self._paused.set()  # a suspend that waits must not wait for ever
            self._over.set()  # also after an exception, because MQCTL STOP waits for this event

    def _pause(self) -> None:
        """Wait for MQCTL RESUME or STOP. Until then another thread may use the connection."""
        self._paused.set()
        while self._suspended and not self._stopping:
            self._woken.wait()
            self._woken.clear()
        self._paused.clear()

    def _begin(self) -> None:
        for consumer in list(self._registered.values()):
            consumer.wait_from(self._host.clock.monotonic())
            self._notify(consumer, CallType.START)

    def _is_ready(self, consumer: Consumer) -> bool:
        return not consumer.suspended and consumer.request is not None and self._host.clock.monotonic() >= consumer.not_before

    def _offer(self, consumer: Consumer, wait_ms: int = 0) -> bool:
        """Call the consumer with the next message or with an error; return whether it was called.

        With `wait_ms`, wait up to that time for a message.
        """
        request = consumer.request
        handle = self._hconn.objects.get(consumer.hobj)
        if request is None or handle is None:
            return False
        try:
            with self._hconn.exclusively():
                got = next_message(self._connection, handle, request, wait_ms=wait_ms)
        except MQIError as error:
            self._failed(consumer, error.reason)
            return True
        now = self._host.clock.monotonic()
        if got is not None:
            consumer.wait_from(now)
            self._deliver(consumer, request, got)
            return True
        if consumer.waits_until is not None and now >= consumer.waits_until:
            consumer.wait_from(now)
            self._call(consumer, CallType.EVENT, CompletionCode.FAILED, Reason.NO_MSG_AVAILABLE)
            return True
        return False

    def _failed(self, consumer: Consumer, reason: int) -> None:
        """Call the consumer with the reason, and suspend it for a short time. If the connection is lost, end all callbacks."""
        if reason not in _LOST:
            consumer.not_before = self._host.clock.monotonic() + _RETRY_S
            self._call(consumer, CallType.EVENT, CompletionCode.FAILED, reason, State.SUSPENDED_TEMPORARY)
            return
        self._stopping = True
        for each in list(self._registered.values()):
            self._call(each, CallType.EVENT, CompletionCode.FAILED, reason, State.SUSPENDED_USER_ACTION)

    def _deliver(self, consumer: Consumer, request: Request, got: Got) -> None:
        stays = bool(request.options.options & _BROWSES) or got.reason == Reason.TRUNCATED_MSG_FAILED
        if got.reason == Reason.TRUNCATED_MSG_FAILED:
            consumer.suspended = True  # otherwise it would receive the same message for ever
        kind = CallType.MSG_NOT_REMOVED if stays else CallType.MSG_REMOVED
        state = State.SUSPENDED_USER_ACTION if consumer.suspended else State.NONE
        completion = CompletionCode.WARNING if got.reason else CompletionCode.OK
        self._call(consumer, kind, completion, got.reason, state, (request, got))

    def _notify(self, consumer: Consumer, kind: CallType) -> None:
        if consumer.options & _WANTED_CALLS[kind]:
            self._call(consumer, kind, CompletionCode.OK, Reason.NONE)

    def _call(
        self,
        consumer: Consumer,
        kind: CallType,
        completion: CompletionCode,
        reason: int,
        state: State = State.NONE,
        message: tuple[Request, Got] | None = None,
    ) -> None:
        md = ctypes.create_string_buffer(consumer.md, _MD_BYTES) if consumer.md else None
        gmo = ctypes.create_string_buffer(consumer.gmo, max(MQGMO.lengths.values())) if consumer.gmo else None
        context = ctypes.create_string_buffer(MQCBC.identifier + b"\2\0\0\0", max(MQCBC.lengths.values()))
        cbc = structure_at(MQCBC, ctypes.addressof(context), "MQCB")
        body = b""
        data_bytes = 0
        if message is not None and md is not None and gmo is not None:
            request, got = message
            _, body = deliver(got, request, ctypes.addressof(md), structure_at(MQGMO, ctypes.addressof(gmo), "MQCB"))
            data_bytes = got.data_bytes if got.reason in TRUNCATED else len(body)
        cbc.set(
            CallType=kind,
            Hobj=consumer.hobj,
            CallbackArea=consumer.area,
            ConnectionArea=self._area,
            CompCode=completion,
            Reason=reason,
            State=state,
            DataLength=data_bytes,
            BufferLength=len(body),
        )
        consumer.function(self._hconn.number, md, gmo, ctypes.create_string_buffer(body, len(body) + 1), context)

    def _wait(self, ready: list[Consumer]) -> None:
        """Wait until a message may be available, a call changes the callbacks, or the wait of a consumer ends."""
        connection = self._connection
        if not isinstance(connection, InlineConnection):
            self._wait_in_get(ready)
            return
        withdrawals: list[Callable[[], None]] = []
        try:
            for consumer in ready:
                handle = self._hconn.objects.get(consumer.hobj)
                if handle is None or consumer.request is None or consumer.hobj not in self._registered:
                    continue
                withdraw = connection.on_arrival(handle, consumer.request.options, self._woken.set)
                if withdraw is None:
                    return
                withdrawals.append(withdraw)
            self._woken.wait(self._patience_s())
        finally:
            for withdraw in withdrawals:
                withdraw()

    def _wait_in_get(self, ready: list[Consumer]) -> None:
        """Wait for a message of each consumer in turn, in MQGET."""
        patience_s = self._patience_s()
        slice_ms = _GET_WAIT_MS if patience_s is None else min(_GET_WAIT_MS, int(patience_s * 1000) + 1)
        if not ready:
            self._woken.wait(slice_ms / 1000 if patience_s is not None else None)
        for consumer in ready:
            if not self._woken.is_set():
                self._offer(consumer, max(1, slice_ms // len(ready)))

    def _patience_s(self) -> float | None:
        now = self._host.clock.monotonic()
        times = [each.waits_until for each in list(self._registered.values()) if each.waits_until is not None]
        times += [each.not_before for each in list(self._registered.values()) if each.not_before > now]
        return max(0.0, min(times) - now) if times else None


def register(host: Host, number: int, operation: int, cbd_at: int, hobj: int, md_at: int, gmo_at: int) -> int:
    """MQCB: register, deregister, suspend or resume the callback of an object."""
    hconn = host.hconn(number, "MQCB")
    wanted = Operation(operation)
    with hconn.used("MQCB"):
        consumers = _consumers(host, hconn)
        if wanted & Operation.REGISTER:
            consumers.add(_consumer(host, hconn, cbd_at, hobj, md_at, gmo_at))
        elif wanted & Operation.DEREGISTER:
            _check_registered(consumers.remove(hobj), hobj)
            return Reason.NONE
        if wanted & (Operation.SUSPEND | Operation.RESUME):
            _check_registered(consumers.suspend(hobj, suspended=bool(wanted & Operation.SUSPEND)), hobj)
        elif not wanted & Operation.REGISTER:
            raise error_for(Reason.OPERATION_ERROR, "MQCB", detail=f"Operation 0x{operation:x}")
    return Reason.NONE


def control(host: Host, number: int, operation: int, options_at: int) -> int:
    """MQCTL: start, stop, suspend or resume the callbacks of the connection."""
    hconn = host.hconn(number, "MQCTL")
    area = structure_at(MQCTLO, options_at, "MQCTL").number("ConnectionArea") if options_at else 0
    with hconn.used("MQCTL", controls=True):
        consumers = _consumers(host, hconn)
        match operation:
            case Operation.START | Operation.START_WAIT:
                if consumers.active:
                    raise error_for(Reason.HCONN_ASYNC_ACTIVE, "MQCTL", detail="Its callbacks are started already")
                if consumers.running:
                    raise error_for(Reason.OPERATION_NOT_ALLOWED, "MQCTL", detail="Its callbacks are suspended: MQOP_RESUME")
                consumers.start(area, wait=operation == Operation.START_WAIT)
            case Operation.STOP:
                consumers.stop()
            case Operation.SUSPEND | Operation.RESUME:
                if not consumers.running:
                    raise error_for(Reason.OPERATION_NOT_ALLOWED, "MQCTL", detail="Its callbacks are stopped: MQOP_START")
                consumers.suspend_all(suspended=operation == Operation.SUSPEND)
            case _:
                raise error_for(Reason.OPERATION_ERROR, "MQCTL", detail=f"Operation 0x{operation:x}")
    if operation == Operation.START:
        consumers.let_begin()
    return Reason.NONE


def _consumers(host: Host, hconn: Hconn) -> Consumers:
    if isinstance(hconn.consumers, Consumers):
        return hconn.consumers
    hconn.consumers = made = Consumers(host, hconn, hconn.connection)
    return made


def _consumer(host: Host, hconn: Hconn, cbd_at: int, hobj: int, md_at: int, gmo_at: int) -> Consumer:
    cbd = structure_at(MQCBD, cbd_at, "MQCB")
    if not cbd.number("CallbackFunction"):
        raise error_for(
            Reason.CALLBACK_ROUTINE_ERROR, "MQCB", detail="No CallbackFunction; the library cannot load one by CallbackName"
        )
    kind, length = cbd.number("CallbackType"), cbd.number("MaxMsgLength")
    if kind == _EVENT_HANDLER:
        return Consumer(_NO_OBJECT, cbd, b"", b"", None)
    if kind != _MESSAGE_CONSUMER:
        raise error_for(Reason.CALLBACK_TYPE_ERROR, "MQCB", detail=f"CallbackType {kind}")
    if length < _FULL_LENGTH:
        raise error_for(Reason.MAX_MSG_LENGTH_ERROR, "MQCB", detail=f"MaxMsgLength {length}")
    hconn.object_of(hobj, "MQCB")
    gmo = structure_at(MQGMO, gmo_at, "MQCB")
    request = request_from(host, hconn.number, md_at, gmo, None if length == _FULL_LENGTH else length)
    md = read(md_at, 324 if request.version == 1 else _MD_BYTES)
    return Consumer(hobj, cbd, md, read(gmo_at, MQGMO.lengths[gmo.version]), request)


def _check_registered(registered: bool, hobj: int) -> None:  # noqa: FBT001 - what `remove` and `suspend` say
    if not registered:
        raise error_for(Reason.CALLBACK_NOT_REGISTERED, "MQCB", detail=f"No callback is registered for the object {hobj}")
