"""Who may connect from elsewhere: users and their passwords, kept as scrypt hashes in the folder of the queue manager.

Knows a file; knows no authority: what a user may do is said by authority records.
"""

import hashlib
import hmac
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from mqflow.embedded.state.users import USER_CHARS

__all__ = ("USERS_FILE", "UserPassword", "UsersFile", "why_no_user")

USERS_FILE: Final = "users.json"

_SALT_BYTES: Final = 16
_COST: Final = 2**14
_BLOCK: Final = 8
_MEMORY_BYTES: Final = 64 * 1024 * 1024
_NOBODY_SALT: Final = bytes(_SALT_BYTES)


def why_no_user(user: str) -> str:
    """Return why this can be no user, or an empty string where it can."""
    if not user:
        return "A user has a name"
    if len(user) > USER_CHARS:
        said = (
            f"{user!r} has {len(user)} characters, and a user identifier of MQ {USER_CHARS}: MQMD.UserIdentifier holds no more"
        )
        return f"{said}, and cut it would be another user"
    return ""


class UserPassword(Struct, frozen=True):
    """How a password is remembered: the salt, the hash and what it cost."""

    salt: bytes
    hash: bytes
    cost: int = _COST


class UsersFile:
    """The users of one queue manager. Read anew for every question: a user that is removed is out at once."""

    def __init__(self, path: Path, salt: Callable[[int], bytes]) -> None:
        self._path: Final = path
        self._salt = salt

    def names(self) -> tuple[str, ...]:
        """Return who is known."""
        return tuple(sorted(self._read()))

    def set(self, user: str, password: str) -> None:
        """Add the user, or give it another password. Raises `ValueError` for a name that is none."""
        if said := why_no_user(user):
            raise ValueError(said)
        salt = self._salt(_SALT_BYTES)
        self._write(self._read() | {user: UserPassword(salt, _hash(password, salt, _COST))})

    def remove(self, user: str) -> bool:
        """Remove the user; False where there is none."""
        known = self._read()
        found = known.pop(user, None)
        if found is not None:
            self._write(known)
        return found is not None

    def knows(self, user: str, password: str) -> bool:
        """Return whether that is the user's password; takes as long for a user that is not there."""
        known = self._read().get(user)
        expected = known or UserPassword(_NOBODY_SALT, b"")
        given = _hash(password, expected.salt, expected.cost)
        return hmac.compare_digest(given, expected.hash) and known is not None

    def _read(self) -> dict[str, UserPassword]:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return {}
        return msgspec.json.decode(data, type=dict[str, UserPassword])

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
