"""A folder whose operations a test sees: it lets each one happen, fail before it happens, or fail although it has happened."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from mqflow.folders import Entry, Folder, FolderError, Version

__all__ = ("Around", "FailAt", "Watched")

Around: TypeAlias = Callable[[str, Callable[[], Any]], Any]
"""Receives an operation as text, such as "write lane.json", and the operation; returns its result."""


class FailAt:
    """Refuses one operation of a folder, or loses its answer."""

    def __init__(self, nth: int, *, happens: bool) -> None:
        self._left = nth
        self._happens = happens
        self.failed = ""

    def __call__(self, text: str, operation: Callable[[], Any]) -> Any:
        self._left -= 1
        if self._left:
            return operation()
        self.failed = text
        if self._happens:
            operation()
        raise FolderError(f"There is no answer to: {text}." if self._happens else f"The store refused: {text}.")


class Watched:
    """See `Folder`; folders in it are watched too."""

    def __init__(self, inner: Folder, around: Around) -> None:
        self._inner = inner
        self._around = around

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Watched) and self._inner == other._inner

    def __hash__(self) -> int:
        return hash(self._inner)

    @property
    def uri(self) -> str:
        return self._inner.uri

    @property
    def path(self) -> Path | None:
        return self._inner.path

    def folder(self, name: str) -> Folder:
        return type(self)(self._inner.folder(name), self._around)

    def uri_of(self, name: str) -> str:
        return self._inner.uri_of(name)

    def room_bytes(self) -> int | None:
        return self._inner.room_bytes()

    def make(self) -> None:
        self._around("make", self._inner.make)

    def folders(self) -> list[str]:
        found: list[str] = self._around("folders", self._inner.folders)
        return found

    def files(self) -> list[Entry]:
        found: list[Entry] = self._around("files", self._inner.files)
        return found

    def exists(self, name: str) -> bool:
        return bool(self._around(f"exists {name}", lambda: self._inner.exists(name)))

    def read(self, name: str) -> bytes:
        return bytes(self._around(f"read {name}", lambda: self._inner.read(name)))

    def read_version(self, name: str) -> tuple[bytes, Version]:
        found: tuple[bytes, Version] = self._around(f"read_version {name}", lambda: self._inner.read_version(name))
        return found

    def write(self, name: str, data: bytes) -> None:
        self._around(f"write {name}", lambda: self._inner.write(name, data))

    def create(self, name: str, data: bytes) -> None:
        self._around(f"create {name}", lambda: self._inner.create(name, data))

    def replace(self, name: str, data: bytes, version: Version | None = None) -> None:
        self._around(f"replace {name}", lambda: self._inner.replace(name, data, version))

    def publish(self, name: str, final: str) -> None:
        self._around(f"publish {name}", lambda: self._inner.publish(name, final))

    def remove(self, name: str) -> None:
        self._around(f"remove {name}", lambda: self._inner.remove(name))
