"""A dead peer between two network namespaces: all calls are running when the cable fails or the queue manager stops.

`python -m tests.embedded.network.partitions` makes all faults with the default silence of mqflow, and prints how long the peers
take to notice each fault: at most 5 s. It needs what `cable` needs.
"""

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from mqflow.cli.text.terminal import show_table
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.protocol.addresses import TcpAddress
from mqflow.embedded.wire.protocol.frames import SILENCE_S
from mqflow.embedded.wire.server.certificates import CertificateFiles, client_context, make_certificates, server_context
from mqflow.embedded.wire.server.listener import serve_tcp
from mqflow.mqi.reason_codes import Reason
from tests.embedded.network.cable import Cable, Fault, why_none
from tests.embedded.network.calls_under_way import EXPECTED, Case, Everybody, all_at_once, cases, define, gone

__all__ = ("STOPPED", "Noticed", "break_all_calls", "expected")

STOPPED: Final = "the queue manager is stopped (SIGSTOP)"
_PORT: Final = 1414
_ROOT: Final = Path(__file__).parents[3]
_WAITS: Final = "MQGET that waits"
_CONNECTS: Final = "MQCONNX"
_LOOK_S: Final = 0.01


class Noticed(Struct):
    """The reasons and seconds that an application saw, by call, and those of a new connection."""

    reasons: dict[str, int]
    took_s: dict[str, float]


def expected(what: Fault | str) -> dict[str, int]:
    """Return the right reason for each call. Calls with only lost packets succeed, because TCP sends the packets again."""
    if what is Fault.LOSS:
        return dict.fromkeys((name for name in (*EXPECTED, _CONNECTS) if name != _WAITS), 0)
    return EXPECTED | {_CONNECTS: int(Reason.Q_MGR_NOT_AVAILABLE)}


def break_all_calls(what: Fault | str, silence_s: float) -> tuple[Noticed, bool]:
    """Make every call just after the fault. Return the error of each call, and whether the queue manager closed every handle.

    `what` is a fault of the cable, or `STOPPED`. A stopped queue manager answers after it continues.
    """
    with (
        tempfile.TemporaryDirectory() as made,
        Cable() as cable,
        _running(cable, 1, "serve", made, str(silence_s)) as server,
        _running(cable, 0, "call", made, str(silence_s)) as client,
    ):
        if isinstance(what, Fault):
            cable.fault = what
        else:
            server.send_signal(signal.SIGSTOP)
        noticed = msgspec.json.decode(_said(client, "lossy" if what is Fault.LOSS else "go"), type=Noticed)
        if not isinstance(what, Fault):
            server.send_signal(signal.SIGCONT)
        if what is Fault.LOSS:
            return noticed, True
        return noticed, _said(server, "gone?") == b"gone\n"


@contextmanager
def _running(cable: Cable, end: int, *words: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run this module in a namespace, as queue manager or application. Wait until it is ready; end it after the block."""
    process = subprocess.Popen(
        cable.inside(end, sys.executable, "-m", "tests.embedded.network.partitions", *words, cable.addresses[1]),
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        _heard(process, b"ready\n")
        yield process
    finally:
        process.kill()
        process.communicate()


def _heard(process: "subprocess.Popen[bytes]", wanted: bytes) -> None:
    assert process.stdout is not None
    line = process.stdout.readline()
    if line != wanted:
        raise RuntimeError(f"{wanted!r} should have been said, and {line!r} was")


def _said(process: "subprocess.Popen[bytes]", question: str) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{question}\n".encode())
    process.stdin.flush()
    return process.stdout.readline()


def _serve(folder: Path, silence_s: float, host: str) -> None:
    """Run the queue manager, in its namespace."""
    files = make_certificates(folder, [host], name="QM1", now=datetime.now(UTC))
    tls = server_context(files.certificate, files.key)
    with EmbeddedQueueManager("QM1", user="alice") as owner:
        define(owner)
        with serve_tcp(owner, TcpAddress(host, _PORT), Everybody(), tls=tls, silence_s=silence_s) as server:
            _tell("ready")
            for _ in sys.stdin:
                while server.connection_count or not gone(owner):  # the caller has a limit
                    time.sleep(_LOOK_S)
                _tell("gone")


def _call(folder: Path, silence_s: float, host: str) -> None:
    """Run the application, in its namespace."""
    address, tls = TcpAddress(host, _PORT), client_context(CertificateFiles(folder).authority)
    made = cases(address, "secret", tls=tls, silence_s=silence_s)
    new = ServedQueueManager(address, user="alice", password="secret", tls=tls, silence_s=silence_s)  # noqa: S106 - nobody's
    one = made["MQCMIT"]
    made[_CONNECTS] = Case(new, one.connection, one.handle, lambda *_: new.connect())
    _tell("ready")
    if sys.stdin.readline() == "lossy\n":
        del made[_WAITS]  # this call would still wait
    reasons = all_at_once(made, 20 * silence_s)
    _tell(msgspec.json.encode(Noticed(reasons, {name: case.took_s for name, case in made.items()})).decode())
    sys.stdin.read()


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _row(what: Fault | str, silence_s: float) -> tuple[tuple[str, ...], bool]:
    noticed, let_go = break_all_calls(what, silence_s)
    wrong = {name: reason for name, reason in noticed.reasons.items() if reason != expected(what)[name]}
    slowest = max(noticed.took_s, key=lambda name: noticed.took_s[name])
    words = what.value if isinstance(what, Fault) else what
    row = (
        words,
        str(len(noticed.reasons)),
        f"{noticed.took_s[slowest]:.2f}",
        slowest,
        str(wrong or ""),
        "" if let_go else "no",
    )
    return row, bool(wrong) or not let_go


def main(arguments: list[str]) -> int:
    """Make all faults and print the result. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.embedded.network.partitions", description=__doc__)
    parser.add_argument("--silence", type=float, default=SILENCE_S, help="seconds of silence until a peer counts as dead")
    given = parser.parse_args(arguments)
    if missing := why_none():
        sys.stderr.write(f"{missing}\n")
        return 1
    faults = (*(fault for fault in Fault if fault is not Fault.NONE), STOPPED)
    rows, failed = zip(*(_row(fault, given.silence) for fault in faults), strict=True)
    show_table(("fault", "calls", "slowest, s", "which", "wrong", "let go"), rows, numbers=frozenset({1, 2}))
    return any(failed)


_PARTS: Final = {"serve": _serve, "call": _call}

if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in _PARTS:
        _PARTS[sys.argv[1]](Path(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
    else:
        sys.exit(main(sys.argv[1:]))
