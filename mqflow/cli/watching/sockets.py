"""Control sockets: a Unix socket for each running application, through which its user asks for its state and gives orders.

A request is one line of JSON, and so is its answer. The folder and the sockets belong to the user of the application (modes
0700 and 0600). The server also asks the operating system which user calls (SO_PEERCRED).
"""

import os
import socket
import stat
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from mqflow.cli.watching.control import Figures, Order, OrderError, PartlyDoneError, QueueFigures, Source
from mqflow.policy.health.records import ApplicationStatus
from mqflow.world import SYSTEM_WORLD, World

__all__ = ("Answer", "ControlServer", "Request", "applications", "ask", "control_folder", "encoded", "socket_for")

_FOLDER_VARIABLE: Final = "MQFLOW_CONTROL_FOLDER"
_TEMPORARY: Final = "/tmp"  # noqa: S108 - `_is_own` checks the folder in it
_SESSIONS: Final = Path("/run/user")
"""The parent of the folders that XDG_RUNTIME_DIR names."""
_ASK_S: Final = 3.0
_ALL_S: Final = 10.0
"""The longest wait in seconds: an application can wait for its worker processes and its queue manager before it answers."""
_BYTES_MAX: Final = 16 * 1024 * 1024
_ACCEPT_S: Final = 1.0
"""The pause in seconds after a call that could not be accepted."""
_NAME_CHARS: Final = 40
_CREDENTIALS: Final = struct.Struct("3i")
"""The layout of `struct ucred` on Linux: process, user, group."""


class Request(Struct, frozen=True, omit_defaults=True):
    """A request for the state of an application. If it has an order, the order is carried out first."""

    order: Order | None = None
    #: True if the answer must contain the depths of the queues.
    wants_queues: bool = False


class Answer(Struct, frozen=True, omit_defaults=True):
    """The state of an application, or the reason why an order was refused."""

    status: ApplicationStatus | None = None
    refused: str = ""
    #: True if some processes of the application carried out the refused order.
    is_partly_done: bool = False
    queues: tuple[QueueFigures, ...] = ()


def control_folder() -> Path:
    """Return the folder for the control sockets of this user. Make the folder if it does not exist.

    Raises `OSError` if the folder cannot be made, or if another user can write in it.
    """
    folder = _places()[0]
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if not _is_own(folder):
        raise PermissionError(f"{folder} must be a folder of user {os.getuid()} in which nobody else can write")
    return folder


def _places() -> list[Path]:
    """Return the folders in which applications of this user may have control sockets: first that of this process.

    A service and a login session of one user often have different variables.
    """
    named = os.environ.get(_FOLDER_VARIABLE)
    if named:
        return [Path(named)]
    user, of_session = os.getuid(), os.environ.get("XDG_RUNTIME_DIR")
    # `tempfile.gettempdir()` is not used: its import takes longer than this whole file. `_is_own` checks each folder.
    temporary = (os.environ.get("TMPDIR") or _TEMPORARY, _TEMPORARY)
    own = [Path(each, f"mqflow-{user}") for each in temporary]
    session = [Path(of_session, "mqflow")] if of_session else []
    return list(dict.fromkeys((*session, *own, _SESSIONS / str(user) / "mqflow")))


def _is_own(folder: Path) -> bool:
    """Return whether this is a folder of this user, in which nobody else can write. Raises `OSError` if it does not exist."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


def socket_for(application: str) -> Path:
    """Return the path for the control socket of this process. Also remove sockets that killed processes have left.

    Raises the `OSError` of `control_folder`.
    """
    name, folder = "".join(letter if letter.isalnum() else "_" for letter in application)[:_NAME_CHARS], control_folder()
    for before in folder.glob(f"{name}.*.sock"):
        with socket.socket(socket.AF_UNIX) as caller:
            caller.setblocking(False)
            try:
                caller.connect(str(before))
            except ConnectionRefusedError:
                before.unlink(missing_ok=True)
            except OSError:
                continue
    return folder / f"{name}.{os.getpid()}.sock"


class ControlServer:
    """Answers on one socket, in its own thread, so that it answers even while the event loop is blocked."""

    def __init__(self, path: Path, source: Source, figures: Figures, world: World = SYSTEM_WORLD) -> None:
        """Listen at this path. Raises `OSError` if that is not possible."""
        self._source: Final = source
        self._figures: Final = figures
        self._path: Final = path
        self._closed: Final = world.runner.event()
        # The socket gets its final name only when it listens. So if a socket with this name refuses a call, its process has
        # ended.
        begun = path.with_suffix(".new")
        begun.unlink(missing_ok=True)
        self._socket: Final = socket.socket(socket.AF_UNIX)
        try:
            self._socket.bind(str(begun))
            begun.chmod(0o600)  # until then, the folder keeps other users out
            self._socket.listen()
            begun.replace(path)
        except OSError:
            self._socket.close()
            raise
        self._thread: Final = world.runner.start(self._serve, "mqflow control")

    def close(self) -> None:
        """Close the socket and remove its file."""
        self._closed.set()
        self._path.unlink(missing_ok=True)
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # this wakes the thread of the server
        self._thread.join(_ASK_S)
        self._socket.close()

    def _serve(self) -> None:
        while not self._closed.is_set():
            try:
                caller, _ = self._socket.accept()
            except OSError:  # the server ends, or no file descriptor is free
                self._closed.wait(_ACCEPT_S)
                continue
            with caller, suppress(OSError, msgspec.MsgspecError):
                caller.settimeout(_ASK_S)
                if _user_of(caller) in {0, os.getuid()}:
                    request = msgspec.json.decode(_line_from(caller), type=Request)
                    caller.sendall(encoded(self._answer(request)) + b"\n")

    def _answer(self, request: Request) -> Answer:
        try:
            if request.order is not None:
                self._source.order(request.order)
            status = self._source.status()
            return Answer(status, queues=self._figures(status.queues) if request.wants_queues else ())
        except OrderError as error:
            return Answer(refused=str(error), is_partly_done=isinstance(error, PartlyDoneError))
        except Exception as error:  # noqa: BLE001 - a defect here must end neither the thread nor the application
            return Answer(refused=f"The application could not answer: {type(error).__name__}: {error}")


def encoded(record: Any) -> bytes:  # Any: every record that msgspec encodes
    """Return the record as JSON. A byte of a file name that is no UTF-8 becomes a question mark: JSON has no such character."""
    try:
        return msgspec.json.encode(record)
    except UnicodeEncodeError:
        import json  # noqa: PLC0415 - only such a name needs it

        return json.dumps(msgspec.to_builtins(record), ensure_ascii=False).encode("utf-8", "replace")


def _user_of(caller: socket.socket) -> int:
    """Return the user identifier of the process that calls."""
    # hasattr: only Linux has this option.
    if hasattr(socket, "SO_PEERCRED"):
        return int(_CREDENTIALS.unpack(caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))[1])
    return os.getuid()  # elsewhere, only the modes of the folder and the socket protect it


def ask(path: Path, request: Request, *, wait_s: float = _ASK_S) -> Answer:
    """Return the answer of the application that listens on the socket.

    Raises `ConnectionError` or `FileNotFoundError` if no process listens there, and `TimeoutError` if no answer comes in time.
    Raises `BlockingIOError` if so many calls wait already that the process cannot get another one.
    Raises `MsgspecError` if the answer cannot be read.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(wait_s)
        connection.connect(str(path))
        connection.sendall(encoded(request) + b"\n")
        line = _line_from(connection)
    if not line:
        raise ConnectionResetError(f"{path} gave no answer: its application belongs to another user, or has just ended")
    return msgspec.json.decode(line, type=Answer)


def applications(*, wants_queues: bool = False) -> list[tuple[Path, Answer | None]]:
    """Return the answer of each running application of this user, with its socket; None if it does not answer.

    The sockets of processes that have ended are removed. Raises the `OSError` of `control_folder`.
    """
    found: list[tuple[Path, Answer | None]] = []
    folders = [control_folder(), *filter(_is_own, filter(Path.exists, _places()[1:]))]
    for path in [path for folder in folders for path in sorted(folder.glob("*.sock"))]:
        try:
            found.append((path, ask(path, Request(wants_queues=wants_queues), wait_s=_ALL_S)))
        except (TimeoutError, BlockingIOError):  # BlockingIOError: the queue of calls is full, for example of a stopped process
            found.append((path, None))
        except msgspec.MsgspecError as error:
            refused = f"Its answer cannot be read, because another version of mqflow runs there: {error}."
            found.append((path, Answer(refused=refused)))
        except ConnectionRefusedError:
            with suppress(OSError):  # another process has removed it; or it is a folder, which nobody listens on
                path.unlink()
        except OSError:  # the application has just ended
            continue
    return found


def _line_from(connection: socket.socket) -> bytes:
    data = bytearray()
    while not data.endswith(b"\n") and len(data) <= _BYTES_MAX:
        more = connection.recv(65_536)
        if not more:
            return b""
        data += more
    return bytes(data)
