"""Helpers of the storage tests: messages to store, and a write that waits for its answer."""

import os
import sqlite3
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from mqflow.embedded.storage.durable_store import DurableStore
from mqflow.embedded.storage.sqlite.medium import SqliteMedium
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.store import (
    Change,
    MessageAdded,
    ObjectDefined,
    QueueDefined,
    QueueManagerDefined,
    Snapshot,
    StoredMessage,
)
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.attributes.queue_manager import QueueManagerAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Persistence

QUEUE = "ORDERS.IN"
OTHER_QUEUE = "ORDERS.BOQ"
DEFINITIONS: tuple[Change, ...] = (
    QueueManagerDefined(QueueManagerAttributes(name="QM1")),
    QueueDefined(QueueAttributes(name=QUEUE)),
    QueueDefined(QueueAttributes(name=OTHER_QUEUE)),
)


def medium_of(store: DurableStore) -> SqliteMedium:
    """Return the medium of a store in SQLite."""
    assert isinstance(store._medium, SqliteMedium)
    return store._medium


def database_of(store: DurableStore) -> sqlite3.Connection:
    """Return the connection of a store in SQLite."""
    return medium_of(store)._database


def say(*words: object) -> None:
    """Print a line to the parent process in one system call, so that a kill cannot lose a printed line."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def message(serial: int, body: bytes = b"an order", queue: str = QUEUE, **descriptor: Any) -> StoredMessage:
    return StoredMessage(
        serial=serial,
        queue=queue,
        order_priority=0,
        descriptor=MessageDescriptor(persistence=Persistence.PERSISTENT, message_id=serial.to_bytes(24), **descriptor),
        body=body,
        body_bytes=len(body),
    )


def added(*serials: int, queue: str = QUEUE) -> list[Change]:
    return [MessageAdded(message(serial, queue=queue)) for serial in serials]


def write(store: DurableStore, changes: Sequence[Change]) -> Exception | None:
    """Write the changes, wait for the answer and return the error, or None."""
    answered = threading.Event()
    answers: list[Exception | None] = []

    def done(error: Exception | None) -> None:
        answers.append(error)
        answered.set()

    store.write(changes, done)
    assert answered.wait(10), "the store never answered"
    [answer] = answers
    return answer


@contextmanager
def opened(folder: Path, **options: Any) -> Iterator[tuple[DurableStore, Snapshot]]:
    store = SqliteStore(folder, **options)
    try:
        yield store, store.load()
    finally:
        store.close()


@contextmanager
def defined(folder: Path, **options: Any) -> Iterator[DurableStore]:
    """Yield a new store with its queues."""
    with opened(folder, **options) as (store, _):
        assert write(store, DEFINITIONS) is None
        yield store


class Contents(Struct):
    """The contents that a store loads, with every message whole."""

    queue_manager: QueueManagerAttributes | None
    queues: tuple[QueueAttributes, ...]
    #: In order of serial.
    messages: list[StoredMessage]
    next_serial: int
    quarantined: tuple[tuple[int, str], ...]
    objects: tuple[ObjectDefined, ...]


def reopened(folder: Path) -> Contents:
    """Return the contents that a later owner loads and reads. Damage that the reads find is in `quarantined`."""
    with opened(folder) as (store, snapshot):
        found = messages_in(store, snapshot)
    if None in found:  # the store notes the damage when it closes
        return reopened(folder)
    return Contents(
        snapshot.queue_manager, snapshot.queues, [message for message in found if message is not None], snapshot.next_serial,
        snapshot.quarantined, snapshot.objects,
    )  # fmt: skip


def messages_in(store: DurableStore, snapshot: Snapshot) -> list[StoredMessage | None]:
    """Read every message of a store that has loaded this snapshot; None stands for a damaged message."""
    wanted = serials(snapshot)
    return list(store.read_messages(wanted, sys.maxsize).values())


def serials(found: Snapshot | Contents) -> list[int]:
    if isinstance(found, Contents):
        return [message.serial for message in found.messages]
    return sorted(serial for entry in found.serials for serial in entry.serials)
