"""The users who can connect over TCP, with their passwords as scrypt hashes, in the folder of the queue manager.

This module knows a file, but no authority: the rights of a user are in authority records.
"""

import fcntl
import hashlib
import hmac
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from mqflow.embedded.state.users import USER_CHARS

__all__ = ("USERS_FILE", "UserPassword", "UsersFile", "UsersFileError", "why_no_user")

USERS_FILE: Final = "users.json"

_SALT_BYTES: Final = 16
_COST: Final = 2**14
_BLOCK: Final = 8
_MEMORY_BYTES: Final = 64 * 1024 * 1024
_NOBODY_SALT: Final = bytes(_SALT_BYTES)


class UsersFileError(Exception):
    """The file of the users cannot be read. The message names the file, the reason and the remedy."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(path, why)
        self.path = path
        self.why = why

    def __str__(self) -> str:
        return (
            f"{self.path} cannot be read: {self.why}. Until it can be read, no user can log in with a password. Restore it "
            "from a backup, or remove it and give each user a password again with `mqflow qmgr user`."
        )


def why_no_user(user: str) -> str:
    """Return the reason why this text cannot be a user name, or an empty text."""
    if not user:
        return "A user has a name"
    if len(user) > USER_CHARS:
        return f"{user!r} has {len(user)} characters, and a user identifier of MQ (MQMD.UserIdentifier) at most {USER_CHARS}"
    return ""


class UserPassword(Struct, frozen=True):
    """A stored password: the salt, the hash, and the cost of the hash."""

    salt: bytes
    hash: bytes
    cost: int = _COST
    #: True if the user administers the queue manager over TCP.
    administrator: bool = False


class UsersFile:
    """The users of one queue manager. Each call looks at the file, so the removal of a user takes effect immediately.

    Each call raises `UsersFileError` if the file is damaged or cannot be read. A file that does not exist has no user.
    """

    def __init__(self, path: Path, salt: Callable[[int], bytes], *, cost: int = _COST) -> None:
        """`cost` is scrypt's N for new passwords, a power of 2. Tests about other things lower it, to be quick."""
        self._path: Final = path
        self._salt = salt
        self._cost: Final = cost
        #: A random key of this process, for the hashes in `_proved`.
        self._key: Final = salt(32)
        #: For each user whose password was right, a quick hash of this password: the next log-in then needs no scrypt.
        self._proved: Final[dict[str, bytes]] = {}
        #: The administrators, and what the system said about the file from which they were read.
        self._administrators: tuple[tuple[int, ...], frozenset[str]] = ((), frozenset())

    def names(self) -> tuple[str, ...]:
        """Return the names of the users."""
        return tuple(sorted(self._read()))

    def administers(self, user: str) -> bool:
        """Return whether the owner made this user an administrator. Reads the file only if it has changed.

        Each open of an administrator asks this, while all other users of the queue manager wait.
        """
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return False
        version = found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size
        read_at, administrators = self._administrators
        if version != read_at:
            administrators = frozenset(name for name, known in self._read().items() if known.administrator)
            self._administrators = version, administrators
        return user in administrators

    def set(self, user: str, password: str, *, administrator: bool = False) -> None:
        """Add the user, or replace the user's password and `administrator` flag. Raises `ValueError` for an invalid name."""
        if said := why_no_user(user):
            raise ValueError(said)
        salt = self._salt(_SALT_BYTES)
        made = UserPassword(salt, _hash(password, salt, self._cost), self._cost, administrator)
        with self._alone():
            self._write(self._read() | {user: made})

    def remove(self, user: str) -> bool:
        """Remove the user. Return False if the user does not exist."""
        with self._alone():
            known = self._read()
            found = known.pop(user, None)
            if found is not None:
                self._write(known)
        return found is not None

    def knows(self, user: str, password: str) -> bool:
        """Return whether this is the user's password. The check takes the same time for an unknown user."""
        known = self._read().get(user)
        expected = known or UserPassword(_NOBODY_SALT, b"", self._cost)
        given = _hash(password, expected.salt, expected.cost)
        is_right = hmac.compare_digest(given, expected.hash) and known is not None
        if is_right:
            self._proved[user] = self._proof(expected, password)
        return is_right

    def knows_again(self, user: str, password: str) -> bool:
        """Return whether this process has already found this password right, and the user still has this password."""
        proved = self._proved.get(user)
        known = None if proved is None else self._read().get(user)
        return proved is not None and known is not None and hmac.compare_digest(self._proof(known, password), proved)

    def _proof(self, known: UserPassword, password: str) -> bytes:
        return hashlib.blake2b(known.hash + password.encode(), key=self._key).digest()

    def _read(self) -> dict[str, UserPassword]:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise UsersFileError(self._path, error.strerror or str(error)) from error
        try:
            return msgspec.json.decode(data, type=dict[str, UserPassword])
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise UsersFileError(self._path, f"it is damaged ({error})") from error

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Wait until no other process or thread changes the file, and let none change it in the block."""
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with suppress(OSError):  # NFS locks no folder
                fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def _write(self, users: dict[str, UserPassword]) -> None:
        new = self._path.with_suffix(".new")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(users))
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)


def _hash(password: str, salt: bytes, cost: int) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=cost, r=_BLOCK, p=1, maxmem=_MEMORY_BYTES)
