"""A folder on a Hadoop file system (`hdfs:`, `viewfs:`), read through the JVM of the active Spark session.

The folder can only be read: a lander needs conditional writes, which Hadoop's file systems lack. The driver reads
small files here, and tasks read the segments. This file imports Spark when it reads.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

from msgspec import Struct

from mqflow.folders import Entry, Folder, FolderError, Version, folder_at

__all__ = ("HadoopFolder", "journal_folder")

T = TypeVar("T")
_SCHEMES: Final = ("hdfs:/", "viewfs:/")


def journal_folder(uri: str | Path) -> Folder:
    """Return the folder of a journal that Spark reads. Raises the errors of `folder_at`."""
    if isinstance(uri, str) and uri.lower().startswith(_SCHEMES):
        return HadoopFolder(uri.rstrip("/"))
    return folder_at(uri)


class HadoopFolder(Struct, frozen=True):
    """See `Folder`. All methods that write raise `FolderError`."""

    uri: str

    @property
    def path(self) -> Path | None:
        """See `Folder`."""
        return None

    def folder(self, name: str) -> "HadoopFolder":
        """See `Folder`."""
        return HadoopFolder(self.uri_of(name))

    def uri_of(self, name: str) -> str:
        """See `Folder`."""
        return f"{self.uri}/{name}"

    def folders(self) -> list[str]:
        """See `Folder`."""
        return sorted(each.getPath().getName() for each in self._listed() if each.isDirectory())

    def files(self) -> list[Entry]:
        """See `Folder`. The result leaves out hidden files, like that of a folder on a disk."""
        found = [
            Entry(each.getPath().getName(), each.getLen(), each.getModificationTime() / 1000)
            for each in self._listed()
            if each.isFile()
        ]
        return sorted(each for each in found if not each.name.startswith("."))

    def exists(self, name: str) -> bool:
        """See `Folder`."""
        return self._asked(self.uri_of(name), lambda _, system, path: bool(system.exists(path)))

    def read(self, name: str) -> bytes:
        """See `Folder`."""

        def read(jvm: Any, system: Any, path: Any) -> bytes:  # Any: py4j has no types
            stream = system.open(path)
            try:
                return bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

        return self._asked(self.uri_of(name), read)

    def read_version(self, name: str) -> tuple[bytes, Version]:
        """Raise `FolderError`: a version is only of use for a change."""
        self._refuse(name)

    def make(self) -> None:
        """Raise `FolderError`."""
        self._refuse()

    def write(self, name: str, data: bytes) -> None:
        """Raise `FolderError`."""
        self._refuse(name, data)

    def create(self, name: str, data: bytes) -> None:
        """Raise `FolderError`."""
        self._refuse(name, data)

    def replace(self, name: str, data: bytes, version: Version | None = None) -> None:
        """Raise `FolderError`."""
        self._refuse(name, data, version)

    def publish(self, name: str, final: str) -> None:
        """Raise `FolderError`."""
        self._refuse(name, final)

    def remove(self, name: str) -> None:
        """Raise `FolderError`."""
        self._refuse(name)

    def room_bytes(self) -> int | None:
        """See `Folder`."""
        return None

    def _refuse(self, *_: object) -> NoReturn:
        raise FolderError(f"{self.uri} is on a Hadoop file system, where mqflow only reads. Nothing was changed.")

    def _listed(self) -> list[Any]:  # Any: py4j has no types
        try:
            return self._asked(self.uri, lambda _, system, path: list(system.listStatus(path)))
        except FileNotFoundError:
            return []

    def _asked(self, uri: str, ask: Callable[[Any, Any, Any], T]) -> T:  # Any: py4j has no types
        """Return the answer of the file system of this URI. Raises `OSError`."""
        from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]  # noqa: PLC0415 - comes with Spark; no types
        from pyspark.errors import PySparkException  # noqa: PLC0415 - only this call needs Spark
        from pyspark.sql import SparkSession  # noqa: PLC0415 - as above

        try:
            session: Any = SparkSession.getActiveSession()  # Any: only a session with a JVM has the names below
            if session is None or not hasattr(session, "_jsparkSession"):
                raise FolderError(f"{uri} needs a Spark session with a JVM of its own: Spark Connect cannot list its files.")
            jvm = session._jvm  # noqa: SLF001 - PySpark has no other way to Hadoop's file systems
            path = jvm.org.apache.hadoop.fs.Path(uri)
            system = path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001 - as above
            return ask(jvm, system, path)
        except Py4JJavaError as error:
            raise _error_of(uri, error.java_exception) from error
        except (Py4JError, PySparkException) as error:  # the JVM has ended; PySpark gives some errors of Java a type of its own
            raise FolderError(f"{uri}: {error}") from error


def _error_of(uri: str, thrown: Any) -> OSError:  # Any: py4j has no types
    text = f"{uri}: {thrown.toString()}"
    match thrown.getClass().getSimpleName():
        case "FileNotFoundException" | "NoSuchFileException" | "NotInMountpointException":
            return FileNotFoundError(text)
        case "AccessControlException":
            return PermissionError(text)
        case "ParentNotDirectoryException" | "PathIsNotDirectoryException":
            return NotADirectoryError(text)
        case _:
            return FolderError(text)
