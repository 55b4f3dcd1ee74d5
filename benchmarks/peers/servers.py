"""The servers of the peers, from Debian's packages, on loopback. Each has a process group, which ends with its context."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

__all__ = ("SERVERS", "Server", "install", "missing_packages", "versions")

_RABBITMQ: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_START_S: Final = 60.0
_STOP_S: Final = 20.0


class Server(Struct, frozen=True):
    """A running server: its URL, and the process whose processor time counts."""

    url: str
    pid: int


@contextmanager
def _nats(folder: Path) -> Iterator[Server]:
    port = _free_port()
    words = ["nats-server", "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder)]
    with _running(words, folder) as process:
        _wait_for(port, process)
        yield Server(f"nats://127.0.0.1:{port}", process.pid)


@contextmanager
def _redis(folder: Path) -> Iterator[Server]:
    port = _free_port()
    words = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), "--save", ""]
    with _running([*words, "--appendonly", "yes", "--appendfsync", "everysec"], folder) as process:
        _wait_for(port, process)
        yield Server(f"redis://127.0.0.1:{port}", process.pid)


@contextmanager
def _rabbitmq(folder: Path) -> Iterator[Server]:
    port, names, distribution = _free_port(), _free_port(), _free_port()
    # Start a port mapper for this server. Otherwise RabbitMQ starts one, which keeps running after the server has ended.
    environment = {
        "HOME": str(folder),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(names),
        "RABBITMQ_NODENAME": "peers@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(distribution),  # otherwise 20,000 above the other port, which can be no port
        "RABBITMQ_MNESIA_BASE": str(folder),
        "RABBITMQ_LOG_BASE": str(folder),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
    }
    with _running(["epmd", "-address", "127.0.0.1", "-port", str(names)], folder, environment) as mapper:
        _wait_for(names, mapper)
        with _running([str(_RABBITMQ)], folder, environment) as script:
            _wait_for(port, script)
            [machine] = _children(script.pid)  # the script waits for the virtual machine of Erlang
            try:
                yield Server(f"amqp://guest:guest@127.0.0.1:{port}/", machine)
            finally:
                os.kill(machine, signal.SIGTERM)
                script.wait(_STOP_S)


SERVERS: Final[Mapping[str, Callable[[Path], AbstractContextManager[Server]]]] = {
    "nats-server": _nats,
    "rabbitmq-server": _rabbitmq,
    "redis-server": _redis,
}
"""The servers by the names of Debian's packages."""


def missing_packages(wanted: set[str]) -> list[str]:
    """Return the Debian packages that are not installed."""
    found = {name: shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/bin") for name in wanted}
    return sorted(name for name, path in found.items() if path is None)


def versions(packages: set[str]) -> str:
    """Return the versions of these Debian packages, as text."""
    if not packages:  # dpkg-query would show every package of the machine
        return ""
    words = ["dpkg-query", "--show", "--showformat", "${Package} ${Version}\\n", *sorted(packages)]
    return ", ".join(subprocess.run(words, check=False, capture_output=True, text=True).stdout.split("\n")).strip(", ")


def install(packages: list[str]) -> None:
    """Install Debian packages, without a start of their services."""
    words = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
    subprocess.run(
        words, check=True, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}, stdout=sys.stderr
    )


@contextmanager
def _running(
    words: list[str], folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    folder.mkdir(parents=True, exist_ok=True)
    path = f"{os.environ['PATH']}:/usr/sbin"
    with (folder / f"{Path(words[0]).name}.out").open("wb") as output:
        process = subprocess.Popen(
            words,
            stdout=output,
            stderr=output,
            env={**os.environ, "PATH": path, **(environment or {})},
            cwd=folder,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the process and its children."""
    for order in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, order)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            continue
        return


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"{process.args!r} does not listen on port {port}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
