"""Queue managers as applications reach them: served over a socket, or through pymqi or ibmmq on the stand-in library.

A test can break one connection at a chosen call of the MQI, or all connections. The tests run in real time, with a thread for
each session. They wait for events of the application, never for a clock.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from mqflow import App, open_queue_manager
from mqflow.app.config.settings import ReconnectSettings, Settings
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.server.listener import serve
from mqflow.events import Event
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.standin import install
from mqflow.testing.faults import Moment
from mqflow.testing.kit import carry_out
from mqflow.verbs import QueueManager, object_descriptor
from tests.client_packages import import_here
from tests.queue_contents import browsed, put

__all__ = ("SOON", "WAYS", "Behind", "Hearing", "application", "fixtures")

WAYS: Final = ("served", "pymqi", "ibmmq")
SOON: Final = Settings(reconnect=ReconnectSettings(delays="(1)"))
_PUTS: Final = frozenset({"put", "put1", "put_many"})
_VERBS: Final = _PUTS | frozenset(
    {"open", "close", "get", "get_many", "inquire", "subscribe", "request_publications", "commit", "backout"}
)


def application(name: str) -> App:
    """Return an application that tries to reconnect a millisecond after the loss of the connection."""
    return App(name=name, settings=SOON)


def fixtures(*mqsc: str) -> tuple[Any, Any]:
    """Return the fixtures `behind` and `reached` of a module, with these definitions. `way` is a parameter of its tests."""

    @pytest.fixture
    def behind() -> Iterator[Behind]:
        made = Behind(*mqsc)
        yield made
        made.close()

    @pytest.fixture
    def reached(behind: Behind, way: str, tmp_path: Path) -> Iterator[QueueManager]:
        with behind.reached(way, tmp_path) as found:
            yield found

    return behind, reached


class Behind:
    """The queue manager QM1, whose connections can break."""

    def __init__(self, *mqsc: str) -> None:
        self._made = self.queue_manager = _made(mqsc)
        #: The number of verbs since the last `break_at`.
        self.calls = 0
        #: The names of the opened queues and subscriptions, in order.
        self.opened: list[str] = []
        self._breaks_at = 0
        self._moment = Moment.BEFORE
        self._breaks_at_put_on = ""
        self._admits = True

    # -- the interface for the transports: that of an embedded queue manager

    @property
    def name(self) -> str:
        return self.queue_manager.name

    @property
    def owner(self) -> str:
        return self.queue_manager.owner

    def administration_of(self, user: str) -> Any:
        return self.queue_manager.administration_of(user)

    def administers(self, user: str) -> bool:
        return self.queue_manager.administers(user)

    def require_authorities(self, made_administrator: Callable[[str], bool]) -> None:
        self.queue_manager.require_authorities(made_administrator)

    def connect(self, *, application_name: str = "", user: str = "", process: int = 0) -> Any:
        if not self._admits:
            raise error_for(Reason.Q_MGR_NOT_AVAILABLE, "MQCONNX", queue_manager=self.name)
        return _Breaking(self.queue_manager.connect(application_name=application_name, user=user, process=process), self)

    # -- the connection of an application

    @contextmanager
    def reached(self, way: str, folder: Path) -> Iterator[QueueManager]:
        """Yield the queue manager as an application reaches it."""
        with ExitStack() as opened:
            if way == "served":
                server = opened.enter_context(serve(self, folder / "s"))
                url = f"embedded+unix:{server.path}?qmgr=QM1"
            else:
                import_here(way)
                opened.enter_context(install(self))
                url = f"{way}://mq.example:1414/QM1?channel=APP.SVRCONN"
            reached = open_queue_manager(url)
            opened.callback(reached.close)
            yield reached

    # -- faults

    def break_at(self, call: int, moment: Moment) -> None:
        """Break the connection that makes this call, before or after its effect. 1 is the next call; 0 breaks no connection."""
        self.calls, self._breaks_at, self._moment = 0, call, moment

    def break_at_put_on(self, queue: str) -> None:
        """Break the connection that makes the next put on this queue, after the effect of the put."""
        self._breaks_at_put_on = queue

    def break_all(self) -> None:
        """Break every connection: all units of work are backed out."""
        for connection in tuple(self.queue_manager._state.connections):
            connection.end(Reason.CONNECTION_BROKEN)

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Break every connection. Inside this context, refuse new connections."""
        self._admits = False
        self.break_all()
        try:
            yield
        finally:
            self._admits = True

    def create_anew(self, *mqsc: str) -> None:
        """Replace the queue manager by another queue manager with the same name."""
        self.queue_manager = _made(mqsc)

    def around(self, connection: Any, verb: str, effect: Callable[[], Any], object_name: str = "") -> Any:
        self.calls += 1
        is_put = verb == "put" and object_name != "" and object_name == self._breaks_at_put_on
        if self.calls != self._breaks_at and not is_put:
            return effect()
        if self._moment is Moment.AFTER or is_put:
            effect()
            self._breaks_at_put_on = ""
        connection.abandon()
        raise error_for(Reason.CONNECTION_BROKEN, verb, queue_manager=self.name)

    # -- queues and messages

    def mqsc(self, *commands: str) -> None:
        carry_out(self.queue_manager.administration, commands)

    def put(self, queue: str, *bodies: str) -> None:
        put(self.queue_manager, queue, *map(str.encode, bodies), descriptor=MessageDescriptor(format="MQSTR", persistence=1))

    def depth(self, queue: str) -> int:
        """Return CURDEPTH, which includes messages in units of work."""
        return self.queue_manager.administration.queue_status(queue).depth

    def bodies(self, queue: str) -> list[str]:
        """Return the data of all messages on a queue, as text. The data can begin with headers."""
        return [got.body.decode("utf-8", "replace") for got in browsed(self.queue_manager, queue)]

    def close(self) -> None:
        for each in {self._made, self.queue_manager}:
            each.close()


class _Breaking:
    """A connection that can break. It passes all other verbs on to a connection of the queue manager."""

    def __init__(self, connection: Any, behind: Behind) -> None:
        self._connection = connection
        self._behind = behind

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._connection, name)
        if name not in _VERBS:
            return found

        def verb(*arguments: Any, **options: Any) -> Any:
            if name == "open":
                self._behind.opened.append(object_descriptor(arguments[0]).name)
            if name == "subscribe":
                self._behind.opened.append(arguments[0].object_string)
            object_name = (
                getattr(arguments[0], "name", "") if arguments else ""
            )  # of an open object; other arguments have no name
            return self._behind.around(self._connection, name, lambda: found(*arguments, **options), object_name)

        return verb


class Hearing:
    """A hook that lets a test wait for a condition. It checks the condition at each event of the application."""

    def __init__(self, app: App) -> None:
        self.events: list[Event] = []
        self._so: Callable[[], bool] = lambda: False
        self._reached: anyio.Event | None = None
        app.hooks.append(self)

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        if self._reached is not None and self._so():
            self._reached.set()

    def told(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    async def until(self, so: Callable[[], bool]) -> None:
        self._so, self._reached = so, anyio.Event()
        if not so():
            with anyio.fail_after(12):
                await self._reached.wait()


def _made(mqsc: tuple[str, ...]) -> EmbeddedQueueManager:
    made = EmbeddedQueueManager("QM1")
    carry_out(made.administration, mqsc)
    return made
