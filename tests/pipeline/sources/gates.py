"""Gates that hold a process before or after a commit, a rename or a write of a file, until the campaign kills it.

This module has the gates at the queue manager, and compiles those at files (`gate.c`). Knows nothing of the held processes.
"""

import shutil
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.server.login import SameUser
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason

__all__ = ("Gated", "Gates", "Identified", "build_gate")

_CREDENTIALS = struct.Struct("3i")
_PEER = threading.local()


def build_gate(folder: Path) -> Path:
    """Compile `gate.c`; return the library. Raises `RuntimeError` without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        raise RuntimeError("The gate needs a C compiler on Linux: it is a preloaded library.")
    library = folder / "gate.so"
    source = str(Path(__file__).with_name("gate.c"))
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(library), source, "-ldl", "-lpthread"], check=True)
    return library


class Gates:
    """The gates at the queue manager: before or after an MQCMIT of an application."""

    def __init__(self, marks: Path, *, patience_s: float) -> None:
        self._marks = marks
        self._patience_s = patience_s
        self._guard = threading.Lock()
        self._armed: dict[str, int] = {}
        #: The gates at which a thread waits now.
        self.held: set[str] = set()
        self._over = threading.Event()

    def arm(self, gates: Mapping[str, int]) -> None:
        """Arm the gates; each lets so many commits pass."""
        with self._guard:
            self._armed = dict(gates)
            self._over.clear()

    def open(self) -> None:
        """Release the held threads, whose applications are dead."""
        with self._guard:
            self._armed.clear()
        self._over.set()

    def stand(self, moment: str, application: str, pid: int) -> bool:
        """Wait for the end of the life if this is a gate; return whether it was. `pid` is the process of the application."""
        gate = f"{moment}:{application}"
        with self._guard:
            if gate not in self._armed:
                return False
            self._armed[gate] -= 1
            if self._armed[gate] >= 0:
                return False
            self.held.add(gate)
        (self._marks / f"{pid}-0-{gate}").touch()
        self._over.wait(self._patience_s)
        with self._guard:
            self.held.discard(gate)
        return True


class Identified(SameUser):
    """A login that tells the thread of a connection which process is at its other end."""

    def secured(self, raw: socket.socket) -> Any:
        _PEER.pid, _, _ = _CREDENTIALS.unpack(raw.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        return super().secured(raw)


class Gated:
    """A queue manager with gates, for a server."""

    def __init__(self, inner: EmbeddedQueueManager, gates: Gates) -> None:
        self._inner = inner
        self._gates = gates

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def connect(self, *, application_name: str = "", user: str = "", process: int = 0) -> Any:
        inner = self._inner.connect(application_name=application_name, user=user, process=process)
        return _GatedConnection(inner, application_name, self._gates, getattr(_PEER, "pid", 0))


class _GatedConnection:
    def __init__(self, inner: Any, application: str, gates: Gates, pid: int) -> None:
        self._pid = pid
        self._inner = inner
        self._application = application
        self._gates = gates

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def commit(self) -> None:
        if self._gates.stand("before", self._application, self._pid):
            raise error_for(Reason.CONNECTION_BROKEN, "MQCMIT")
        self._inner.commit()
        self._gates.stand("after", self._application, self._pid)
