"""A peer that is gone, however it went, is noticed in whatever call is under way, with the reason that is true of that call.

Source: reliability goal R12: within 5 s in every case, no handle left behind. A silence is 4 s where nobody says otherwise, and
a fraction of a second here, so that a hundred of them take no minutes. All verbs break at the same time.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from mqflow.embedded.addresses import Address, TcpAddress, UnixAddress
from mqflow.embedded.frames import SILENCE_S, Frames
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.served import ServedConnection, ServedQueueManager
from mqflow.embedded.serving import serve_tcp
from mqflow.mqi.attributes import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, OpenOption, Persistence, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import WAIT_UNLIMITED, Exchange, GetOptions
from tests.embedded.disk import memory_folder
from tests.embedded.proxy import Break, Wire

SHORT_S = 0.4
QUEUE = "ORDERS.IN"
USE = OpenOption.INPUT_SHARED | OpenOption.OUTPUT | OpenOption.INQUIRE | OpenOption.SET
PERSISTENT = MessageDescriptor(persistence=Persistence.PERSISTENT)
UNIT = GetOptions(options=GetOption.SYNCPOINT)
NEVER_THERE = GetOptions(options=GetOption.SYNCPOINT | GetOption.WAIT, wait_ms=WAIT_UNLIMITED)
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
    "MQDISC": (lambda connection, _: connection.disconnect(), UNKNOWN),
    "commit, then get": (lambda each, handle: _settled(each.exchange(handle, UNIT, commit=True, most=4)), UNKNOWN),
    "back out, then get": (lambda each, handle: _settled(each.exchange(handle, UNIT, commit=False, most=4)), BROKEN),
    "get several": (lambda each, handle: _settled(each.exchange(handle, UNIT, commit=None, most=4)), BROKEN),
}
"""Each verb, and what is true of one that got no answer: 2549 where it may have taken effect for good."""


class _Everybody:
    """Lets everybody in, at once: a password is checked slowly on purpose, and that is not what is measured."""

    def knows(self, user: str, password: str) -> bool:
        return bool(user and password)


class _Case(Struct):
    """One connection with a message in its unit of work, about to make one call."""

    manager: ServedQueueManager
    connection: ServedConnection
    handle: Any
    act: Act
    reason: int = 0

    def run(self) -> None:
        try:
            self.act(self.connection, self.handle)
        except MQIError as error:
            self.reason = int(error.reason)


def _cases(address: Address, password: str = "") -> dict[str, _Case]:
    found = {}
    for name, (act, _) in VERBS.items():
        user = "alice" if password else ""
        manager = ServedQueueManager(address, user=user, password=password, silence_s=SHORT_S)
        connection = manager.connect()
        handle = connection.open(QUEUE, USE)
        assert connection.get(handle, UNIT)
        found[name] = _Case(manager, connection, handle, act)
    return found


def _all_at_once(cases: dict[str, _Case], patience_s: float = 200 * SHORT_S) -> dict[str, int]:
    """Make every call in a thread of its own; return the reasons. One that never ends is 0, like one that succeeds."""
    threads = [threading.Thread(target=case.run, daemon=True) for case in cases.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patience_s)
    return {name: case.reason for name, case in cases.items()}


def _define(owner: EmbeddedQueueManager) -> None:
    for name in (QUEUE, "EMPTY"):
        owner.administration.define(QueueAttributes(name=name))
    local = owner.connect()
    for _ in range(2 * len(VERBS)):
        local.put1(QUEUE, PERSISTENT, b"an order", PutOption.NO_SYNCPOINT)
    local.disconnect()


@pytest.fixture
def owner() -> Iterator[EmbeddedQueueManager]:
    with EmbeddedQueueManager("QM1", user="alice") as queue_manager:
        _define(queue_manager)
        yield queue_manager


def _gone(owner: EmbeddedQueueManager) -> bool:
    statuses = [owner.administration.queue_status(name) for name in (QUEUE, "EMPTY")]
    return not any(status.open_input_count or status.open_output_count for status in statuses)


EXPECTED = {name: int(reason) for name, (_, reason) in VERBS.items()}


def _broken_over(owner: EmbeddedQueueManager, how: Break) -> dict[str, int]:
    with contextlib.ExitStack() as opened:
        server = opened.enter_context(serve_tcp(owner, TcpAddress("127.0.0.1", 0), _Everybody(), silence_s=SHORT_S))
        assert isinstance(server.address, TcpAddress)
        wire = opened.enter_context(Wire(server.address.port))
        cases = _cases(TcpAddress("127.0.0.1", wire.port), "secret")
        for case in cases.values():
            opened.callback(case.manager.close)
        wire.fail(how)
        reasons = _all_at_once(cases)
        while server.connection_count or not _gone(owner):  # the test's own limit ends it where they never go
            threading.Event().wait(0.01)
    return reasons


@pytest.mark.parametrize("how", Break, ids=[each.name.lower() for each in Break])
def test_every_call_notices(owner: EmbeddedQueueManager, how: Break) -> None:
    assert EXPECTED == _broken_over(owner, how)


def test_whoever_connects_over_a_broken_wire_notices(owner: EmbeddedQueueManager) -> None:
    with serve_tcp(owner, TcpAddress("127.0.0.1", 0), _Everybody(), silence_s=SHORT_S) as server:
        assert isinstance(server.address, TcpAddress)
        for how in Break:
            with Wire(server.address.port) as wire:
                wire.fail(how)
                with pytest.raises(MQIError) as lost:
                    ServedQueueManager(TcpAddress("127.0.0.1", wire.port), silence_s=SHORT_S).connect()
            assert BROKEN == lost.value.reason


def test_by_default_a_silence_is_shorter_than_what_is_promised() -> None:
    assert SILENCE_S < 5


def test_without_a_limit_on_silence_it_would_not_be_noticed(
    owner: EmbeddedQueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Frames.__init__

    def patient(self: Frames, stream: Any, *, silence_s: float = SILENCE_S, **more: Any) -> None:
        real(self, stream, silence_s=60 + silence_s, **more)

    monkeypatch.setattr(Frames, "__init__", patient)
    monkeypatch.setitem(globals(), "_gone", lambda _: True)
    server = serve_tcp(owner, TcpAddress("127.0.0.1", 0), _Everybody())
    assert isinstance(server.address, TcpAddress)
    with Wire(server.address.port) as wire:
        cases = {name: case for name, case in _cases(TcpAddress("127.0.0.1", wire.port), "secret").items() if name == "MQCMIT"}
        wire.fail(Break.PARTITION)

        assert {"MQCMIT": 0} == _all_at_once(cases, 3 * SHORT_S)
    server.close()


_ALONE = f"""
import sys
from pathlib import Path
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.serving import serve
from tests.embedded.test_dead_peers import _define
with EmbeddedQueueManager("QM1") as owner:
    _define(owner)
    with serve(owner, Path(sys.argv[1]), silence_s={SHORT_S}):
        print("ready", flush=True)
        sys.stdin.read()
"""


def test_every_call_notices_that_the_queue_manager_is_stopped() -> None:
    """SIGSTOP: the kernel still takes connections and bytes for it, so nothing but silence says so."""
    with memory_folder() as folder:
        process = subprocess.Popen(
            [sys.executable, "-c", _ALONE, str(folder / "qm")],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"ready\n"
            cases = _cases(UnixAddress(folder / "qm"))
            process.send_signal(signal.SIGSTOP)
            os.waitpid(process.pid, os.WUNTRACED)  # until then a thread of it may still answer

            assert EXPECTED == _all_at_once(cases)
            with pytest.raises(MQIError) as lost:
                ServedQueueManager(folder / "qm", silence_s=SHORT_S).connect()
            assert BROKEN == lost.value.reason
        finally:
            process.kill()
            process.communicate()
