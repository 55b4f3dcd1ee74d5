"""Nodes on one machine: network namespaces with an address each, a switch between them, and a folder that each node has alone.

It needs Linux and root; `why_none` names what is missing.
"""

import contextlib
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

__all__ = ("Node", "nodes", "why_none")

_NUMBERS = itertools.count()
_SWITCH = "br0"
_PORT = "eth0"


class Node(Struct, frozen=True):
    """A network namespace with an address. The other nodes do not see what it writes into the folder `own`."""

    namespace: str
    address: str
    own: Path

    def run(self, *words: str) -> list[str]:
        """Return the words that run a program on this node, with an empty folder `own`."""
        alone = f'mount -t tmpfs none {self.own} && exec "$@"'
        return ["ip", "netns", "exec", self.namespace, "unshare", "-m", "sh", "-c", alone, "sh", *words]


@contextmanager
def nodes(count: int, own: Path) -> Iterator[Sequence[Node]]:
    """Make nodes that reach each other and nothing else. The switch is in the namespace of the first node."""
    number = f"{os.getpid()}{next(_NUMBERS)}"
    made = [Node(f"mqn{number}{at}", f"10.98.8.{at + 1}", own) for at in range(count)]
    first = made[0]
    with contextlib.ExitStack() as gone:
        for node in made:
            _ip("netns", "add", node.namespace)
            gone.callback(_ip, "netns", "del", node.namespace)
        _ip("-n", first.namespace, "link", "add", "name", _SWITCH, "type", "bridge")
        for at, node in enumerate(made[1:], 1):
            end = ("type", "veth", "peer", "name", _PORT, "netns", node.namespace)
            _ip("-n", first.namespace, "link", "add", "name", f"v{at}", *end)
            _ip("-n", first.namespace, "link", "set", f"v{at}", "master", _SWITCH, "up")
        for node in made:
            device = _SWITCH if node is first else _PORT
            _ip("-n", node.namespace, "addr", "add", f"{node.address}/24", "dev", device)
            for each in ("lo", device):
                _ip("-n", node.namespace, "link", "set", each, "up")
        yield made


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=10)


def why_none(own: Path) -> str:
    """Return the missing requirement of nodes; an empty text if nothing is missing."""
    if os.name != "posix" or os.geteuid() != 0:
        return "network namespaces take root"
    if shutil.which("ip") is None or shutil.which("unshare") is None:
        return "there is no `ip`, or no `unshare`"
    try:
        with nodes(2, own) as [_, other]:
            subprocess.run(other.run("true"), check=True, capture_output=True, timeout=10)
    except (OSError, subprocess.SubprocessError) as error:
        return f"no network namespace can be made: {error}"
    return ""
