"""A folder in an object store, through obstore. Needs `mqflow[s3]`.

A store cannot rename an object: `publish` creates the final object if it is absent, then deletes the old object. `create`, and
`replace` with a version, are conditional puts. The store's client repeats a request that got no answer, so the first request
may have succeeded although the second is refused. Therefore a refused put counts as done if the object has exactly these bytes.
Endpoint, region and credentials come from the environment variables `AWS_ENDPOINT_URL`, `AWS_REGION`, `AWS_ACCESS_KEY_ID`
and so on. This is also true in the processes of Spark's executors.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from mqflow.folders.folder import ChangedError, Entry, FolderError, Version

if TYPE_CHECKING:
    from obstore.store import ObjectStore

__all__ = ("ObjectFolder", "object_folder")

_ANSWER: Final = re.compile(r"<Code>(?P<code>[^<]*)</Code>(?:<Message>(?P<message>[^<]*)</Message>)?")
_STATUS: Final = re.compile(r"status code: (\d+ [A-Za-z ]+)")


class ObjectFolder(Struct, frozen=True):
    """See `Folder`. An `ObjectFolder` can be pickled: each process opens the store for itself."""

    uri: str

    @property
    def path(self) -> Path | None:
        """Always None, because a folder in an object store has no path on this machine."""
        return None

    def folder(self, name: str) -> "ObjectFolder":
        """See `Folder`."""
        return ObjectFolder(f"{self.uri}/{name}")

    def uri_of(self, name: str) -> str:
        """See `Folder`."""
        return f"{self.uri}/{name}"

    def make(self) -> None:
        """See `Folder`."""

    def folders(self) -> list[str]:
        """See `Folder`."""
        return sorted(prefix.rstrip("/").rpartition("/")[2] for prefix in self._listed()[1])

    def files(self) -> list[Entry]:
        """See `Folder`."""
        return sorted(
            Entry(one["path"].rpartition("/")[2], one["size"], one["last_modified"].timestamp()) for one in self._listed()[0]
        )

    def exists(self, name: str) -> bool:
        """See `Folder`."""
        import obstore  # noqa: PLC0415 - optional

        with _as_sentences("look for", self.uri_of(name)):
            try:
                obstore.head(self._store(), self._key(name))
            except FileNotFoundError:
                return False
            return True

    def read(self, name: str) -> bytes:
        """See `Folder`."""
        return self.read_version(name)[0]

    def read_version(self, name: str) -> tuple[bytes, Version]:
        """See `Folder`."""
        import obstore  # noqa: PLC0415 - optional

        with _as_sentences("read", self.uri_of(name)):
            found = obstore.get(self._store(), self._key(name))
            version = found.meta["e_tag"] or ""
            return bytes(found.bytes()), version

    def write(self, name: str, data: bytes) -> None:
        """See `Folder`."""
        self._put(name, data, "overwrite")

    def create(self, name: str, data: bytes) -> None:
        """See `Folder`."""
        try:
            self._put(name, data, "create")
        except FileExistsError:
            if self.read(name) != data:
                raise

    def replace(self, name: str, data: bytes, version: Version | None = None) -> None:
        """See `Folder`."""
        if version is None:
            self._put(name, data, "overwrite")
            return
        try:
            self._put(name, data, {"e_tag": version})
        except ChangedError:
            if self.read(name) != data:
                raise

    def publish(self, name: str, final: str) -> None:
        """See `Folder`. If the process is killed between the two steps, both objects remain, with the same contents."""
        try:
            data = self.read(name)
        except FileNotFoundError:
            if not self.exists(final):
                raise
            return
        self.create(final, data)
        self.remove(name)

    def remove(self, name: str) -> None:
        """See `Folder`."""
        import obstore  # noqa: PLC0415 - optional

        with _as_sentences("delete", self.uri_of(name)):
            try:
                obstore.delete(self._store(), self._key(name))
            except FileNotFoundError:
                return

    def room_bytes(self) -> int | None:
        """See `Folder`."""
        return None

    def _put(self, name: str, data: bytes, mode: Any) -> None:  # Any: obstore's mode is a text or a record
        import obstore  # noqa: PLC0415 - optional
        from obstore.exceptions import PreconditionError  # noqa: PLC0415 - optional

        with _as_sentences("write", self.uri_of(name)):
            try:
                # One put for all bytes: the store checks the condition of a put, but not the condition of a multipart upload.
                obstore.put(self._store(), self._key(name), data, mode=mode, use_multipart=False)
            except PreconditionError as error:
                raise ChangedError(f"{self.uri_of(name)} was changed by another process") from error

    def _listed(self) -> tuple[list[Any], list[str]]:
        import obstore  # noqa: PLC0415 - optional

        with _as_sentences("list", self.uri):
            found = obstore.list_with_delimiter(self._store(), self._key(""))
            return list(found["objects"]), list(found["common_prefixes"])

    def _key(self, name: str) -> str:
        return f"{self.uri.removeprefix('s3://').partition('/')[2]}/{name}".strip("/")

    def _store(self) -> "ObjectStore":
        return _store(self.uri.removeprefix("s3://").partition("/")[0], os.environ.get("AWS_ENDPOINT_URL", ""))


def object_folder(uri: str) -> ObjectFolder:
    """Return the folder in the store. Raises `FolderError` if obstore is missing."""
    if find_spec("obstore") is None:
        raise FolderError(f"{uri} is in an object store, which needs obstore: pip install 'mqflow[s3]'. Nothing was changed.")
    return ObjectFolder(uri.rstrip("/"))


@cache
def _store(bucket: str, endpoint: str) -> "ObjectStore":
    from obstore.store import S3Store  # noqa: PLC0415 - optional

    # An endpoint that begins with http:// is a server for tests, or a server in a private network.
    return S3Store(bucket, client_options={"allow_http": endpoint.startswith("http://")})


@contextmanager
def _as_sentences(doing: str, uri: str) -> Iterator[None]:
    """Turn an error of the store into an error whose text has the operation, the URI and the store's answer in one line."""
    from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError  # noqa: PLC0415 - optional

    try:
        yield
    except (NotFoundError, FileNotFoundError) as error:
        if "NoSuchBucket" in str(error):
            raise FolderError(_refusal(doing, uri, error)) from error
        raise FileNotFoundError(f"{uri} does not exist") from error
    except (AlreadyExistsError, FileExistsError) as error:
        raise FileExistsError(f"{uri} exists, with other contents") from error
    except FolderError:
        raise
    except (BaseError, OSError) as error:
        raise FolderError(_refusal(doing, uri, error)) from error


def _refusal(doing: str, uri: str, error: Exception) -> str:
    return f"The object store refused to {doing} {uri}: {_answer(str(error)).rstrip('.')}."


def _answer(text: str) -> str:
    if found := _ANSWER.search(text):
        return ": ".join(part for part in (found["code"], found["message"]) if part)
    if found := _STATUS.search(text):
        return found[1].strip()
    return text.partition("\n\nDebug source")[0].strip().partition("\n")[0]
