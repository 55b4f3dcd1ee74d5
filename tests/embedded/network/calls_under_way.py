"""Calls all verbs at the same time, each on a connection of its own that has a message in its unit of work.

Each verb has the reason code of a call without an answer. Tests that break the wire use this file.
"""

import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from msgspec import Struct

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.client.connection import ServedConnection
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.protocol.addresses import Address
from mqflow.embedded.wire.protocol.frames import SILENCE_S
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import ConnectionBrokenError, MQIError
from mqflow.mqi.options import GetOption, OpenOption, Persistence, PutOption, SubscribeOption
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.verbs import WAIT_UNLIMITED, Exchange, GetOptions, ObjectHandle
from tests.queue_contents import put

__all__ = ("EXPECTED", "QUEUE", "USE", "Case", "Everybody", "all_at_once", "cases", "define", "gone")

QUEUE = "ORDERS.IN"
USE = OpenOption.INPUT_SHARED | OpenOption.OUTPUT | OpenOption.INQUIRE | OpenOption.SET
PERSISTENT = MessageDescriptor(persistence=Persistence.PERSISTENT)
UNIT = GetOptions(options=GetOption.SYNCPOINT)
NEVER_THERE = GetOptions(options=GetOption.SYNCPOINT | GetOption.WAIT, wait_ms=WAIT_UNLIMITED)
TOPIC = SubscriptionDescriptor(options=SubscribeOption.CREATE | SubscribeOption.MANAGED, object_string="orders/new")
BROKEN, UNKNOWN = Reason.CONNECTION_BROKEN, Reason.CALL_INTERRUPTED

Act = Callable[[ServedConnection, Any], object]


def _settled(exchange: Exchange) -> None:
    error = exchange.settle_error or exchange.get_error
    if error is not None:
        raise error


VERBS: dict[str, tuple[Act, Reason]] = {
    "MQOPEN": (lambda connection, _: connection.open(QUEUE, USE), BROKEN),
    "MQCLOSE": (lambda connection, handle: connection.close(handle), BROKEN),
    "MQPUT in a unit of work": (lambda each, handle: each.put(handle, PERSISTENT, b"", PutOption.SYNCPOINT), BROKEN),
    "MQPUT outside": (lambda each, handle: each.put(handle, PERSISTENT, b"", PutOption.NO_SYNCPOINT), UNKNOWN),
    "MQPUT1 outside": (lambda each, _: each.put1(QUEUE, PERSISTENT, b"", PutOption.NO_SYNCPOINT), UNKNOWN),
    "MQGET": (lambda connection, handle: connection.get(handle, UNIT), BROKEN),
    "MQGET that waits": (lambda connection, _: connection.get(connection.open("EMPTY", USE), NEVER_THERE), BROKEN),
    "MQCMIT": (lambda connection, _: connection.commit(), UNKNOWN),
    "MQBACK": (lambda connection, _: connection.backout(), BROKEN),
    "MQINQ": (lambda connection, handle: connection.inquire(handle, (20,)), BROKEN),
    "MQSET": (lambda connection, handle: connection.set(handle, {10: 0}), BROKEN),
    "MQSUB": (lambda connection, _: connection.subscribe(TOPIC), BROKEN),
    "MQDISC": (lambda connection, _: connection.disconnect(), UNKNOWN),
    "commit, then get": (lambda each, handle: _settled(each.exchange(handle, UNIT, commit=True, most=4)), UNKNOWN),
    "back out, then get": (lambda each, handle: _settled(each.exchange(handle, UNIT, commit=False, most=4)), BROKEN),
    "get several": (lambda each, handle: _settled(each.exchange(handle, UNIT, commit=None, most=4)), BROKEN),
}
"""Each verb, with the reason of a call without an answer: 2549 if the call can have taken effect permanently."""


class Everybody:
    """Admits every user without a check, as an administrator.

    A real check of a password is slow on purpose, and would change the measured times.
    """

    def knows(self, user: str, password: str) -> bool:
        return bool(user and password)

    def knows_again(self, user: str, password: str) -> bool:
        return self.knows(user, password)

    def administers(self, user: str) -> bool:
        return bool(user)


class Case(Struct):
    """One connection with a message in its unit of work, about to make one call."""

    manager: ServedQueueManager
    connection: ServedConnection
    handle: Any
    act: Act
    reason: int = 0
    #: The duration of the call, in seconds.
    took_s: float = 0.0

    def run(self) -> None:
        began = time.monotonic()
        try:
            self.act(self.connection, self.handle)
        except MQIError as error:
            self.reason = int(error.reason)
        self.took_s = time.monotonic() - began


def cases(
    address: Address, password: str = "", *, tls: ssl.SSLContext | None = None, silence_s: float = SILENCE_S
) -> dict[str, Case]:
    found = {}
    for name, (act, _) in VERBS.items():
        user = "alice" if password else ""
        manager = ServedQueueManager(address, user=user, password=password, tls=tls, silence_s=silence_s)
        found[name] = Case(manager, *_ready(manager), act)
    return found


def _ready(manager: ServedQueueManager) -> tuple[ServedConnection, ObjectHandle]:
    """Return a connection with an open unit of work. On a busy machine, a short silence can end a connection before that."""
    while True:
        with suppress(ConnectionBrokenError):
            connection = manager.connect()
            handle = connection.open(QUEUE, USE)
            assert connection.get(handle, UNIT)
            return connection, handle


def all_at_once(cases: dict[str, Case], patience_s: float) -> dict[str, int]:
    """Make every call in a thread of its own; return the reasons. A call that never ends or that succeeds has 0."""
    threads = [threading.Thread(target=case.run, daemon=True) for case in cases.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patience_s)
    return {name: case.reason for name, case in cases.items()}


def gone(owner: EmbeddedQueueManager) -> bool:
    """Return whether no application has a queue open."""
    statuses = [owner.administration.queue_status(name) for name in (QUEUE, "EMPTY")]
    return not any(status.open_input_count or status.open_output_count for status in statuses)


def define(owner: EmbeddedQueueManager) -> None:
    for name in (QUEUE, "EMPTY"):
        owner.administration.define(QueueAttributes(name=name))
    put(owner, QUEUE, *[b"an order"] * 2 * len(VERBS), descriptor=PERSISTENT)


EXPECTED = {name: int(reason) for name, (_, reason) in VERBS.items()}
