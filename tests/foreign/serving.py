"""Serves a queue manager to programs with compiled code, which load mqflow's client library for programs in any language."""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from mqflow.embedded import mqsc
from mqflow.embedded.channel.listener import serve_channel
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.protocol.addresses import TcpAddress
from mqflow.embedded.wire.server.listener import Room, serve
from mqflow.embedded.wire.server.users_file import UsersFile
from mqflow.fap.connection_flows import Credentials
from mqflow.mqi.options import OpenOption, PutOption
from mqflow.standin.library.development_kit import write_development_kit
from mqflow.standin.library.install import StandInError
from tests.fap.client_half import ChannelClient

__all__ = ("MissingError", "channel_program", "development_kit", "ran", "served", "served_at")

_LONGEST_S: Final = 300  # only what hangs takes so long, on however busy a machine


class MissingError(Exception):
    """A check cannot run, because this machine lacks a tool, or a registry cannot be reached."""


@cache
def development_kit(cache: Path) -> Path:
    """Write the library and its headers, and return their folder. Raises `MissingError`."""
    try:
        write_development_kit(cache / "sdk")
    except StandInError as error:
        raise MissingError(str(error)) from error
    return (cache / "sdk").resolve()


def _groups(user: str) -> frozenset[str]:
    return frozenset({"mqm"} if user == "admin" else ())


@contextmanager
def served_at(queues: Path) -> Iterator[tuple[EmbeddedQueueManager, str]]:
    """Serve a queue manager QM1 in memory with these queues. Yield it, and its URL."""
    with TemporaryDirectory() as place, EmbeddedQueueManager("QM1", groups=_groups) as queue_manager:
        results = mqsc.run(queues.read_text(encoding="utf-8"), queue_manager.administration)
        assert results.exit_code() == 0, [each.text for each in results.responses]
        with closing(serve(queue_manager, Path(place) / "s")) as server:
            yield queue_manager, f"embedded+unix:{server.path}?qmgr=QM1"


@contextmanager
def served(cache: Path, queues: Path) -> Iterator[tuple[EmbeddedQueueManager, Mapping[str, str]]]:
    """Serve a queue manager QM1 in memory with these queues. Yield it, and the environment of a program that uses it."""
    library = development_kit(cache) / "lib64"
    with TemporaryDirectory() as home, served_at(queues) as (queue_manager, url):
        yield queue_manager, os.environ | {"LD_LIBRARY_PATH": str(library), "MQFLOW_URL": url, "HOME": home}


@contextmanager
def channel_program(queue_manager: EmbeddedQueueManager) -> Iterator[None]:
    """Let a program connect by a channel. It has called MQCONN, MQOPEN and MQPUT, and stays connected."""
    with TemporaryDirectory() as place:
        users = UsersFile(Path(place) / "users.json", bytes, cost=2)
        users.set("app", "secret", administrator=True)
        with ExitStack() as opened:
            server = opened.enter_context(serve_channel(queue_manager, TcpAddress("127.0.0.1", 0), users, room=Room(1)))
            assert isinstance(server.address, TcpAddress)
            client = opened.enter_context(closing(ChannelClient(server.address.port)))
            client.begin(Credentials("app", "secret"))
            handle = client.open("DEV.QUEUE.2", OpenOption.OUTPUT).handle
            client.put(handle, b"by a channel", PutOption.NO_SYNCPOINT)
            yield


def ran(command: Sequence[str], folder: Path, settings: Mapping[str, str]) -> tuple[int | None, str]:
    """Run a program. Return its exit code, or None if it was ended, and its output."""
    try:
        done = subprocess.run(
            command, cwd=folder, env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=_LONGEST_S,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        return None, f"{(late.stdout or b'').decode()}\nit was ended after {_LONGEST_S} s"
    return done.returncode, done.stdout
