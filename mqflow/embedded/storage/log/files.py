"""The files of the log: one for each segment, allocated before it is used, and a spare one to use again.

A segment that is no longer needed becomes the spare: its blocks are already written, so a sync of new data changes no metadata,
and a full disk does not keep the log from going on. This module knows no record.
"""

import contextlib
import errno
import mmap
import os
import shutil
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mqflow.embedded.storage.medium import NoRoomError

__all__ = ("SEGMENT_BYTES", "SegmentFiles", "Watermark", "copy_log", "full_disk_noticed", "write_whole")

SEGMENT_BYTES = 4 * 1024 * 1024
"""The length of a segment, unless one group needs more."""

_SUFFIX: Final = ".segment"
_READERS_MAX: Final = 16
_MARK: Final = struct.Struct("<QI")
_FLAGS: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


class SegmentFiles:
    """The segment files of one folder. The caller closes the descriptors that `create` and `open` return."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._spare = folder / "spare"
        self._readers: dict[int, int] = {}

    def numbers(self) -> list[int]:
        """Return the numbers of the segments, in order."""
        return sorted(int(path.stem) for path in self._folder.glob(f"*{_SUFFIX}"))

    def path(self, number: int) -> Path:
        """Return the path of a segment."""
        return self._folder / f"{number:010}{_SUFFIX}"

    def size(self, number: int) -> int:
        """Return the length of a segment."""
        return self.path(number).stat().st_size

    def create(self, number: int, head: bytes, size: int) -> int:
        """Create a segment of this length that survives a power cut, and return its descriptor. Raises `NoRoomError`."""
        path = self.path(number)
        if size == self.spare_bytes():
            self._spare.rename(path)
            descriptor = os.open(path, _FLAGS)
        else:
            descriptor = self._allocated(path, size)
        # First the name: otherwise a power cut could leave the new header in a dropped segment with its old name.
        self._sync_folder()
        write_whole(descriptor, head, 0)
        os.fdatasync(descriptor)
        return descriptor

    def open(self, number: int) -> int:
        """Return a descriptor of a segment."""
        return os.open(self.path(number), _FLAGS)

    def read(self, number: int, offset: int, length: int) -> bytes:
        """Return bytes of a segment; fewer if the segment ends before."""
        descriptor = self._readers.get(number)
        if descriptor is None:
            if len(self._readers) >= _READERS_MAX:
                os.close(self._readers.pop(next(iter(self._readers))))
            descriptor = self._readers[number] = self.open(number)
        parts: list[bytes] = []
        while length and (part := os.pread(descriptor, length, offset)):
            parts.append(part)
            offset += len(part)
            length -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def drop(self, number: int) -> None:
        """Forget a segment. It becomes the spare, if it has the right length and there is no spare."""
        path = self.path(number)
        self._close_reader(number)
        if path.stat().st_size == SEGMENT_BYTES and self.spare_bytes() != SEGMENT_BYTES:
            path.rename(self._spare)
        else:
            path.unlink()

    def spare_bytes(self) -> int:
        """Return the length of the spare; 0 without a spare."""
        try:
            return self._spare.stat().st_size
        except FileNotFoundError:
            return 0

    def close(self) -> None:
        """Close the descriptors that `read` opened."""
        for number in list(self._readers):
            self._close_reader(number)

    def _close_reader(self, number: int) -> None:
        with contextlib.suppress(KeyError):
            os.close(self._readers.pop(number))

    def _allocated(self, path: Path, size: int) -> int:
        descriptor = os.open(path, _FLAGS | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with full_disk_noticed():
                os.posix_fallocate(descriptor, 0, size)
        except BaseException:
            os.close(descriptor)
            path.unlink()
            raise
        return descriptor

    def _sync_folder(self) -> None:
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class Watermark:
    """The sequence number of the last synced group, for a reader after a kill. It survives the process, but no power cut.

    With it, a reader notices damage to the last group too: otherwise that would look like a torn end.
    """

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, _FLAGS | os.O_CREAT, 0o600)
        try:
            if os.fstat(descriptor).st_size < mmap.PAGESIZE:
                write_whole(descriptor, bytes(mmap.PAGESIZE), 0)  # not a hole: on a full disk, a write into it raises SIGBUS
            self._page = mmap.mmap(descriptor, mmap.PAGESIZE)
        finally:
            os.close(descriptor)

    def get(self) -> int:
        """Return the sequence number; 0 if nothing is known."""
        sequence, check = _MARK.unpack_from(self._page)
        return int(sequence) if check == zlib.crc32(self._page[:8]) else 0

    def set(self, sequence: int) -> None:
        """Note the sequence number of a synced group."""
        _MARK.pack_into(self._page, 0, sequence, zlib.crc32(sequence.to_bytes(8, "little")))

    def close(self) -> None:
        """Unmap the file."""
        self._page.close()


def copy_log(files: SegmentFiles, numbers: Iterable[int], target: Path, synced: int) -> None:
    """Copy these segments, synced up to a number, into a new folder, which gets its name at the end. Raises `NoRoomError`."""
    half = target.with_name(f"{target.name}.part")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(mode=0o700)
    try:
        for number in numbers:
            copied = SegmentFiles(half)
            os.close(copied.create(number, files.read(number, 0, files.size(number)), files.size(number)))
        mark = Watermark(half / "synced")
        mark.set(synced)
        mark.close()
        half.rename(target)
    except BaseException:
        shutil.rmtree(half, ignore_errors=True)
        raise


def write_whole(descriptor: int, data: bytes, offset: int) -> None:
    """Write all of `data`. Raises `NoRoomError` if the disk is full; then a part of it can be in the file."""
    with full_disk_noticed():
        done = os.pwrite(descriptor, data, offset)
        while done < len(data):
            done += os.pwrite(descriptor, memoryview(data)[done:], offset + done)


@contextmanager
def full_disk_noticed() -> Iterator[None]:
    """Raise `NoRoomError` for an error that says that the disk, or the user's part of it, is full."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise NoRoomError(str(error)) from error
        raise
