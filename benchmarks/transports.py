"""The transports: the embedded queue manager in memory and on disk, and two queue managers with slow calls.

The framework and the raw loop run on the same transport; each sample has a new one.
"""

import ctypes
import hashlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final, cast

from benchmarks.orders import BODY
from mqflow.embedded import mqsc
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.many_verbs import put_many
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import OpenOption, Persistence, PutOption
from mqflow.verbs import Connection, GetOptions, Got, QueueManager

__all__ = ("QUEUE", "Transport", "blocking", "computing", "durable", "embedded", "fill", "in_memory")

QUEUE: Final = "BENCH.IN"

#: A put of this many messages is one unit of work; MAXUMSGS is 10,000.
_FILL: Final = 1_000
#: usleep(50) takes about 110 µs here, with the slack of the timer and the wake-up.
_SLEEP_US: Final = 50
_usleep = ctypes.CDLL(None).usleep
#: A hash of this number of bytes takes about 20 µs.
_HASHED: Final = bytes(40_000)
#: The verbs that take several messages in one call, and so would be slow only once for all these messages.
_OF_OUR_OWN: Final = frozenset({"get_many", "put_many", "exchange", "exchange_at_once"})

Transport = Callable[[int], AbstractContextManager[QueueManager]]
"""A context manager that yields a queue manager whose queue has this number of messages."""


@contextmanager
def embedded(*queues: str, folder: Path | None = None) -> Iterator[EmbeddedQueueManager]:
    """Yield an embedded queue manager with these queues. Its data is in the folder, or else in memory."""
    with EmbeddedQueueManager("QM1", store=SqliteStore(folder / "data") if folder else None) as queue_manager:
        for name in queues:
            queue_manager.administration.define(QueueAttributes(name=name, max_depth=999_999_999))
        yield queue_manager


def fill(queue_manager: QueueManager, queue: str, messages: int, descriptor: MessageDescriptor, body: bytes = BODY) -> None:
    """Put equal messages on a queue."""
    connection = queue_manager.connect(application_name="filling")
    handle = connection.open(queue, OpenOption.OUTPUT)
    for first in range(0, messages, _FILL):
        unit = [(descriptor, body)] * min(_FILL, messages - first)
        assert put_many(connection, handle, unit, PutOption.SYNCPOINT).error is None
        connection.commit()
    connection.disconnect()


@contextmanager
def in_memory(messages: int) -> Iterator[EmbeddedQueueManager]:
    """Yield an embedded queue manager in memory."""
    with embedded() as queue_manager:
        _fill(queue_manager, messages, Persistence.NOT_PERSISTENT)
        yield queue_manager


@contextmanager
def durable(messages: int) -> Iterator[QueueManager]:
    """Yield an embedded queue manager with its data on this disk, and persistent messages."""
    with (
        tempfile.TemporaryDirectory(prefix="mqflow-bench-", dir=Path.cwd()) as name,
        embedded(folder=Path(name)) as queue_manager,
    ):
        _fill(queue_manager, messages, Persistence.PERSISTENT)
        yield queue_manager


@contextmanager
def blocking(messages: int) -> Iterator[QueueManager]:
    """Yield a queue manager whose get and commit sleep for about 110 µs each, like those of a client over a network."""
    with in_memory(messages) as queue_manager:
        yield _Slow(queue_manager, lambda: _usleep(_SLEEP_US))


@contextmanager
def computing(messages: int) -> Iterator[QueueManager]:
    """Yield a queue manager whose get and commit compute for about 20 µs each, like the work of a client library."""
    with in_memory(messages) as queue_manager:
        yield _Slow(queue_manager, lambda: hashlib.sha256(_HASHED))


class _Slow:
    """A queue manager whose get and commit take time, without the GIL.

    It is not inline: its sessions have their own threads.
    """

    def __init__(self, queue_manager: QueueManager, spend: Callable[[], object]) -> None:
        self._queue_manager = queue_manager
        self._spend = spend
        self.name = queue_manager.name

    def connect(self, *, application_name: str = "", user: str = "") -> Connection:
        connection = self._queue_manager.connect(application_name=application_name, user=user)
        return cast("Connection", _SlowConnection(connection, self._spend))


class _SlowConnection:
    """A connection whose get and commit are slow, without the verbs that IBM's clients do not have."""

    def __init__(self, connection: Connection, spend: Callable[[], object]) -> None:
        self._connection = connection
        self._spend = spend

    def get(self, handle: Any, options: GetOptions) -> Got | None:
        self._spend()
        return self._connection.get(handle, options)

    def commit(self) -> None:
        self._spend()
        self._connection.commit()

    def __getattr__(self, name: str) -> Any:
        if name in _OF_OUR_OWN:
            raise AttributeError(name)
        return getattr(self._connection, name)


def _fill(queue_manager: EmbeddedQueueManager, messages: int, persistence: Persistence) -> None:
    definitions = f"DEFINE QLOCAL(BENCH.BOQ)\nDEFINE QLOCAL({QUEUE}) MAXDEPTH(999999999) BOTHRESH(3) BOQNAME(BENCH.BOQ)"
    mqsc.run(definitions, queue_manager.administration)
    fill(queue_manager, QUEUE, messages, MessageDescriptor(persistence=persistence, format="MQSTR", ccsid=1208))
