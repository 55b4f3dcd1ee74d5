"""Every running call notices a dead peer, for each kind of death, and gets the right reason.

A call notices the death within 5 s in every case, and no handle is left behind. The silence is 4 s by default, but a fraction
of a second here, so that a hundred tests are quick. The wire of all verbs breaks at the same time.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.protocol.addresses import TcpAddress, UnixAddress
from mqflow.embedded.wire.protocol.frames import SILENCE_S, Frames
from mqflow.embedded.wire.server.listener import serve_tcp
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from tests.conformance.under_test import refused
from tests.embedded.disk_faults.disk import memory_folder
from tests.embedded.network.breaking import SHORT_S, break_over
from tests.embedded.network.calls_under_way import EXPECTED, Everybody, all_at_once, cases, define
from tests.embedded.network.proxy import Break, Wire

PATIENCE_S = 20 * SHORT_S


@pytest.fixture
def owner() -> Iterator[EmbeddedQueueManager]:
    with EmbeddedQueueManager("QM1", user="alice") as queue_manager:
        define(queue_manager)
        yield queue_manager


@pytest.mark.parametrize("how", Break, ids=[each.name.lower() for each in Break])
def test_every_call_notices(owner: EmbeddedQueueManager, how: Break) -> None:
    wire, reasons = break_over(owner, how)

    assert EXPECTED == reasons

    # Not all calls: on a busy machine one can have slept meanwhile, and another waits for a message and gets no answer.
    assert wire.trickled_out < len(EXPECTED) - 1


def test_a_client_notices_a_broken_wire_at_the_connect(owner: EmbeddedQueueManager) -> None:
    with serve_tcp(owner, TcpAddress("127.0.0.1", 0), Everybody(), silence_s=SHORT_S) as server:
        assert isinstance(server.address, TcpAddress)
        for how in Break:
            with Wire(server.address.port) as wire:
                wire.fail(how)
                with pytest.raises(MQIError) as lost:
                    ServedQueueManager(TcpAddress("127.0.0.1", wire.port), silence_s=SHORT_S).connect()
            assert Reason.CONNECTION_BROKEN == lost.value.reason


def test_the_default_silence_is_shorter_than_the_promised_time() -> None:
    assert SILENCE_S < 5


def test_without_a_limit_on_silence_it_would_not_be_noticed(
    owner: EmbeddedQueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Frames.__init__

    def patient(self: Frames, stream: Any, *, silence_s: float = SILENCE_S, **more: Any) -> None:
        real(self, stream, silence_s=60 + silence_s, **more)

    monkeypatch.setattr(Frames, "__init__", patient)
    server = serve_tcp(owner, TcpAddress("127.0.0.1", 0), Everybody())
    assert isinstance(server.address, TcpAddress)
    with Wire(server.address.port) as wire:
        made = cases(TcpAddress("127.0.0.1", wire.port), "secret", silence_s=SHORT_S)
        wire.fail(Break.PARTITION)

        assert {"MQCMIT": 0} == all_at_once({"MQCMIT": made["MQCMIT"]}, 3 * SHORT_S)
    server.close()


_ALONE = """
import sys
from pathlib import Path
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.server.listener import serve
from tests.embedded.network.calls_under_way import define
with EmbeddedQueueManager("QM1") as owner:
    define(owner)
    with serve(owner, Path(sys.argv[1])):
        print("ready", flush=True)
        sys.stdin.read()
"""


def test_every_call_notices_that_the_queue_manager_is_stopped() -> None:
    """After SIGSTOP the kernel still accepts connections and bytes, so only silence shows that the process is stopped.

    The queue manager has the default silence: a busy machine may let this process wait for longer than a fraction of a second.
    """
    with memory_folder() as folder:
        process = subprocess.Popen(
            [sys.executable, "-c", _ALONE, str(folder / "qm")],
            cwd=Path(__file__).parents[3],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"ready\n"
            made = cases(UnixAddress(folder / "qm"), silence_s=SHORT_S)
            process.send_signal(signal.SIGSTOP)
            os.waitpid(process.pid, os.WUNTRACED)  # until then, a thread of the process can still answer

            assert EXPECTED == all_at_once(made, PATIENCE_S)
            with refused(Reason.CONNECTION_BROKEN):
                ServedQueueManager(folder / "qm", silence_s=SHORT_S).connect()
        finally:
            process.kill()
            process.communicate()
