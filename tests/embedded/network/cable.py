"""Two network namespaces and a cable between them. This process carries each packet over the cable, or drops it.

The cable makes and removes the two namespaces, and uses only their addresses. It needs Linux, root, `ip` and /dev/net/tun;
`why_none` names the missing part.
"""

import contextlib
import fcntl
import itertools
import os
import random
import select
import shutil
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Final, Self

__all__ = ("Cable", "Fault", "why_none")

_TUN: Final = Path("/dev/net/tun")
_TUNSETIFF: Final = 0x400454CA
_IFF_TUN_NO_PI: Final = 0x1001
_PACKET_BYTES: Final = 65536
_NETWORK: Final = "10.98.7"
_NUMBERS = itertools.count()


class Fault(Enum):
    """The packets that arrive."""

    NONE = "everything arrives"
    PARTITION = "nothing arrives"
    THERE_ONLY = "packets to the second end arrive, packets back do not"
    BACK_ONLY = "packets from the second end arrive, packets there do not"
    LOSS = "one of five is lost, either way"


class Cable:
    """Two namespaces (`names`), each with one end of a cable and an address (`addresses`). They exist after `__enter__`."""

    def __init__(self, *, seed: int = 1) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
        #: For each end, the number of its packets so far, and which of the present five is lost.
        self._fives = [(0, 0), (0, 0)]
        number = f"{os.getpid()}{next(_NUMBERS)}"
        self.names: Final = (f"mqa{number}", f"mqb{number}")
        self.addresses: Final = (f"{_NETWORK}.1", f"{_NETWORK}.2")
        #: The present fault. A test can set it at any time.
        self.fault = Fault.NONE
        #: The numbers of carried and of dropped packets.
        self.carried = 0
        self.lost = 0
        self._taken_away = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as made:
            ends = [made.enter_context(_end(*each)) for each in zip(self.names, self.addresses, strict=True)]
            over, end = os.pipe()
            made.callback(os.close, over)
            carrying = threading.Thread(target=self._carry, args=(ends, over), daemon=True)
            carrying.start()
            made.callback(carrying.join)
            made.callback(os.close, end)
            self._taken_away = made.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._taken_away.close()

    def inside(self, end: int, *words: str) -> list[str]:
        """Return the words that run a program in the namespace of the first (0) or second (1) end."""
        return ["ip", "netns", "exec", self.names[end], *words]

    def _carry(self, ends: list[int], over: int) -> None:
        poll = select.poll()
        for descriptor in (*ends, over):
            poll.register(descriptor, select.POLLIN)
        while over not in (ready := {descriptor for descriptor, _ in poll.poll()}):
            for descriptor in ready:
                self._carry_from(ends, ends.index(descriptor))

    def _carry_from(self, ends: list[int], end: int) -> None:
        packet = os.read(ends[end], _PACKET_BYTES)
        if self._arrives(end):
            self.carried += 1
            os.write(ends[1 - end], packet)
        else:
            self.lost += 1

    def _arrives(self, end: int) -> bool:
        match self.fault:
            case Fault.NONE:
                return True
            case Fault.PARTITION:
                return False
            case Fault.THERE_ONLY:
                return end == 0
            case Fault.BACK_ONLY:
                return end == 1
            case Fault.LOSS:
                return self._survives(end)

    def _survives(self, end: int) -> bool:
        """Return whether the next packet of this end arrives. One of each five is lost, so TCP needs only a few attempts."""
        count, lost = self._fives[end]
        if count % 5 == 0:
            lost = count + self._chance.randrange(5)
        self._fives[end] = count + 1, lost
        return count != lost


@contextmanager
def _end(namespace: str, address: str) -> Iterator[int]:
    """Make a namespace with one end of the cable. Give the descriptor by which this process reads and writes its packets."""
    _ip("netns", "add", namespace)
    try:
        descriptor = os.open(_TUN, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH", namespace.encode(), _IFF_TUN_NO_PI))
            _ip("link", "set", namespace, "netns", namespace)
            _ip("-n", namespace, "addr", "add", f"{address}/24", "dev", namespace)
            for device in ("lo", namespace):
                _ip("-n", namespace, "link", "set", device, "up")
            yield descriptor
        finally:
            os.close(descriptor)
    finally:
        _ip("netns", "del", namespace)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=10)


def why_none() -> str:
    """Return the missing requirement of a cable; an empty text if nothing is missing."""
    if os.name != "posix" or os.geteuid() != 0:
        return "network namespaces take root"
    if shutil.which("ip") is None or not _TUN.exists():
        return "no `ip`, or no /dev/net/tun"
    try:
        with Cable():
            return ""
    except (OSError, subprocess.SubprocessError) as error:
        return f"no network namespace can be made: {error}"
