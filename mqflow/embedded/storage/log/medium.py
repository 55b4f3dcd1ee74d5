"""Keeps changes in a log of segments: one write and one sync for each group, and copies forward what is still needed.

It implements `medium.Medium`. `draft` turns changes into records, `groups` knows the bytes, `files` the segments, `replay`
reads the log, and `contents` is the log in memory. This module knows no thread and no caller.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from mqflow.embedded.storage.fence import FileWatch
from mqflow.embedded.storage.folder import DataFolder, FolderVersionError
from mqflow.embedded.storage.log import files as segments
from mqflow.embedded.storage.log.contents import Contents, Usage
from mqflow.embedded.storage.log.draft import SERIALS_RESERVED, Draft
from mqflow.embedded.storage.log.files import SegmentFiles, Watermark, copy_log, write_whole
from mqflow.embedded.storage.log.groups import (
    ADDED_BYTES,
    FORMAT_VERSION,
    GROUP_HEAD_BYTES,
    SEGMENT_HEAD_BYTES,
    Added,
    added_at,
    descriptor_of,
    group_head,
    message_body,
    messages_in,
    segment_head,
    segment_version,
)
from mqflow.embedded.storage.log.places import place, segment_and_offset
from mqflow.embedded.storage.log.replay import End, replay
from mqflow.embedded.storage.log.snapshot import snapshot_of
from mqflow.embedded.storage.medium import DamagedError, NoRoomError
from mqflow.embedded.storage.store import BackoutCounted, Change, Snapshot, StoredIdentifiers, StoredMessage
from mqflow.mqi.descriptor import NO_ID, MessageDescriptor
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason

__all__ = ("LogMedium",)

# A sequence number is the epoch of the owner and a counter. So a number is not used again for another group.
_EPOCH_BITS: Final = 40
# Most records are shorter, so one read is enough.
_READ_AHEAD_BYTES: Final = 4096
# The log is compacted if it is longer than twice what is still needed, and these segments.
_SPARE_SEGMENTS: Final = 4


class _Identifiers(Struct, gc=False):
    """The part of an encoded descriptor by which a get can ask for the message."""

    message_id: bytes = NO_ID
    correlation_id: bytes = NO_ID
    group_id: bytes = NO_ID


_decode_descriptor = msgspec.msgpack.Decoder(MessageDescriptor).decode
_decode_identifiers = msgspec.msgpack.Decoder(_Identifiers).decode


class LogMedium:
    """The log of a folder, open until `close`."""

    def __init__(self, folder: DataFolder) -> None:
        #: Where the damage is, if there is any.
        self.path = folder.log
        folder.log.mkdir(mode=0o700, exist_ok=True)
        self._files = SegmentFiles(folder.log)
        self._contents = Contents()
        self._queue_numbers: dict[str, int] = {}
        #: The names of the queues by their numbers; deleted queues stay until a new number is met.
        self._queues: dict[int, str] = {}
        #: The open segment that takes the next group; -1 before the load.
        self._descriptor = -1
        self._end = End(0, 0, 0, 0)
        #: The sequence number of the last synced group.
        self._certain = 0
        #: Whether a segment was begun since the last compaction.
        self._rolled = False
        try:
            self._mark = Watermark(folder.log / "synced")
            _begin_log(self._files)
        except NoRoomError as error:
            detail = f"There is no room for a new queue manager in {folder.path}"
            raise error_for(Reason.STORAGE_MEDIUM_FULL, "MQCONN", detail=detail) from error
        newest = self._files.numbers()[-1]
        version = segment_version(self._files.read(newest, 0, SEGMENT_HEAD_BYTES)) or FORMAT_VERSION
        if version > FORMAT_VERSION:
            raise FolderVersionError(folder.path, version, FORMAT_VERSION)
        self._watch = FileWatch(self._files.path(newest))

    def load(self, held: Mapping[int, int], now: float) -> Snapshot:  # noqa: ARG002 - this medium notes no time
        """Durably count every delivery in `held` as backed out, and return the contents."""
        contents, end = replay(self._files, self._mark.get())
        self._contents, self._end = contents, end
        self._queue_numbers = {attributes.name: number for number, attributes in contents.queues()}
        self._open(end.segment)
        os.fdatasync(self._descriptor)  # a power cut must not undo what this load found
        self._certain = end.sequence
        next_serial, epoch = contents.number("next_serial", 1), contents.number("epoch", 0) + 1
        snapshot = snapshot_of(contents)
        end.sequence = epoch << _EPOCH_BITS
        draft = self._draft()
        draft.take(BackoutCounted(serial, count + 1) for serial, count in held.items() if contents.places.get(serial))
        draft.note("next_serial", next_serial + SERIALS_RESERVED)
        draft.note("epoch", epoch)
        self._append(draft, synced=True)
        first = contents.number("first", 1)
        for number in self._files.numbers():
            if number < first or number > self._end.segment:
                contents.segments.pop(number, None)
                self._files.drop(number)
        return snapshot

    def epoch(self) -> int:
        """Return how many owners the log has had, including the present owner."""
        return self._contents.number("epoch", 0)

    def make(self, changes: Iterable[Change], *, synced: bool) -> None:
        """Append the changes in one group."""
        draft = self._draft()
        draft.take(changes)
        self._append(draft, synced=synced)

    def read_message(self, serial: int) -> StoredMessage:
        """Return a message. Raises `DamagedError`."""
        found, data = self._record(serial)
        descriptor = _decode_descriptor(descriptor_of(data, found, found.at))
        count = self._contents.counts.get(serial, 0)
        if count > descriptor.backout_count:
            descriptor = msgspec.structs.replace(descriptor, backout_count=count)
        return StoredMessage(
            serial=serial,
            queue=self._queue_name(found.queue),
            order_priority=found.order_priority,
            descriptor=descriptor,
            expires_at=found.expires_at,
            put_at=found.put_at,
            body=message_body(data, found, found.at),
            body_bytes=found.body_bytes,
        )

    def read_identifiers(self, serial: int) -> StoredIdentifiers:
        """Return the identifiers of a message. Raises `DamagedError`."""
        found, data = self._record(serial)
        ids = _decode_identifiers(descriptor_of(data, found, found.at))
        return StoredIdentifiers(serial, ids.message_id, ids.correlation_id, ids.group_id)

    def set_aside(self, damaged: Sequence[tuple[int, str]], now: float) -> None:  # noqa: ARG002 - this medium notes no time
        """Note messages with their damage."""
        draft = self._draft()
        for serial, why in damaged:
            if found := self._contents.places.get(serial):
                segment, offset = segment_and_offset(found)
                head = added_at(self._files.read(segment, offset, ADDED_BYTES), offset, offset)
                draft.set_aside(serial, head.queue, why)
        self._append(draft, synced=False)

    def tidy(self) -> None:
        """Drop the oldest segments while they hold no message. Drop one more if the log is too long: the others wait."""
        while len(self._contents.segments) > 1 and self._oldest().live == 0:
            self._drop_oldest()
        if self._rolled:
            self._rolled = self._is_too_long()
            if self._rolled:
                self._drop_oldest()

    def make_room(self) -> None:
        """Drop segments while that gives room back."""
        with contextlib.suppress(NoRoomError):
            self.tidy()
            for _ in range(len(self._contents.segments)):
                if self._wasted_bytes() < 2 * segments.SEGMENT_BYTES or len(self._contents.segments) == 1:
                    return
                self._drop_oldest()

    def needed_bytes(self, added_bytes: int) -> int:
        """Return the room for these changes, and for the copies of one compaction."""
        return added_bytes + 2 * segments.SEGMENT_BYTES

    def reusable_bytes(self) -> int:
        """Return the free bytes of the last segment and of the spare."""
        return self._contents.segments[self._end.segment].size - self._end.at + self._files.spare_bytes()

    def changed_by_others(self) -> str:
        """Return the evidence that another program changed the segment that takes the next group."""
        return "" if self._watch.unchanged() else "the log was deleted, replaced, or written to by another program"

    def backup(self, target: DataFolder) -> None:
        """Copy the log into a folder. Writers wait during the copy."""
        if self._certain != self._end.sequence:
            self._sync()
        copy_log(self._files, list(self._contents.segments), target.log, self._certain)

    def close(self, *, write: bool) -> None:
        """End the log with a sync, and close the files."""
        if self._descriptor >= 0:
            if write:
                os.fdatasync(self._descriptor)
                self._mark.set(self._end.sequence)
            os.close(self._descriptor)
            self._descriptor = -1
        self._files.close()
        self._mark.close()

    def _draft(self) -> Draft:
        # The number between the last group and this one is for the group that seals a segment.
        return Draft(self._end.sequence + 2, self._contents, self._queue_numbers, self._on_queue)

    def _append(self, draft: Draft, *, synced: bool) -> None:
        payload = draft.payload()
        if not payload:
            if synced and self._certain != self._end.sequence:
                self._sync()
            return
        size = GROUP_HEAD_BYTES + len(payload)
        if self._end.at + size + GROUP_HEAD_BYTES > self._contents.segments[self._end.segment].size:
            self._roll(size)
        sequence = draft.sequence
        head, link = group_head(sequence, self._certain, self._end.chain, len(payload))
        end = self._end
        # A group that failed keeps its number: its remains must not pass for a part of the next group.
        self._end = End(end.segment, end.at, sequence, end.chain)
        try:
            write_whole(self._descriptor, head + payload, end.at)
        finally:
            self._watch.renew()
        self._end = End(end.segment, end.at + size, sequence, link)
        draft.enter(end.segment, end.at + GROUP_HEAD_BYTES)
        self._queue_numbers = draft.queue_numbers
        if synced:
            self._sync()

    def _sync(self) -> None:
        os.fdatasync(self._descriptor)
        self._certain = self._end.sequence
        self._mark.set(self._certain)

    def _roll(self, group_bytes: int) -> None:
        """Begin a segment, and then seal the last one: a sealed segment always has a next one. Raises `NoRoomError`."""
        end, sequence = self._end, self._end.sequence + 1
        number = end.segment + 1
        size = max(segments.SEGMENT_BYTES, SEGMENT_HEAD_BYTES + group_bytes + GROUP_HEAD_BYTES)
        descriptor = self._files.create(number, segment_head(number, sequence), size)
        head, link = group_head(sequence, self._certain, end.chain, 0, seals=True)
        write_whole(self._descriptor, head, end.at)
        os.fdatasync(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = descriptor
        self._certain = sequence
        self._mark.set(sequence)
        self._end = End(number, SEGMENT_HEAD_BYTES, sequence, link)
        self._contents.segments[number] = Usage(size)
        self._watch = FileWatch(self._files.path(number))
        self._rolled = True

    def _open(self, number: int) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = self._files.open(number)
        self._watch = FileWatch(self._files.path(number))

    def _oldest(self) -> Usage:
        return next(iter(self._contents.segments.values()))

    def _is_too_long(self) -> bool:
        length = sum(usage.size for usage in self._contents.segments.values())
        return self._wasted_bytes() > length // 2 + _SPARE_SEGMENTS * segments.SEGMENT_BYTES

    def _wasted_bytes(self) -> int:
        return sum(usage.size - usage.live_bytes for usage in self._contents.segments.values())

    def _drop_oldest(self) -> None:
        """Copy the rest of the oldest segment forward, sync the copy, and drop the segment."""
        number = next(iter(self._contents.segments))
        draft = self._draft()
        for found, data in self._live_in(number):
            self._copy(draft, found, data)
        for key, (segment, value) in self._contents.facts.items():
            if segment == number:
                draft.facts[key] = value
        draft.note("first", number + 1)
        self._append(draft, synced=True)
        del self._contents.segments[number]
        self._files.drop(number)

    def _copy(self, draft: Draft, found: Added, data: bytes) -> None:
        """Copy a message. A damaged message keeps its bytes and goes to quarantine."""
        try:
            rest = descriptor_of(data, found), message_body(data, found)
        except DamagedError as error:
            middle = found.at + ADDED_BYTES + found.descriptor_bytes
            rest = data[found.at + ADDED_BYTES : middle], data[middle : found.end]
            draft.set_aside(found.serial, found.queue, str(error))
        draft.copy(found, *rest)

    def _live_in(self, number: int) -> Iterator[tuple[Added, bytes]]:
        """Yield the messages of a segment that are still there, each with the bytes of the segment."""
        if not self._contents.segments[number].live:
            return
        data = self._files.read(number, 0, self._contents.segments[number].size)
        for found in messages_in(data):
            if self._contents.places.get(found.serial) == place(number, found.at):
                yield found, data

    def _on_queue(self, number: int) -> Iterator[int]:
        for segment in self._contents.segments:
            yield from (found.serial for found, _ in self._live_in(segment) if found.queue == number)

    def _record(self, serial: int) -> tuple[Added, bytes]:
        """Return a message and the bytes of its record. Raises `DamagedError`."""
        place_found = self._contents.places.get(serial)
        if not place_found:
            raise DamagedError("it is gone")
        segment, offset = segment_and_offset(place_found)
        data = self._files.read(segment, offset, _READ_AHEAD_BYTES)
        found = added_at(data, offset, offset)
        if found.end - offset > len(data):
            data = self._files.read(segment, offset, found.end - offset)
        if found.serial != serial:
            raise DamagedError("its descriptor is damaged")
        return found, data

    def _queue_name(self, number: int) -> str:
        if number not in self._queues:
            self._queues = {number: name for name, number in self._queue_numbers.items()}
        return self._queues[number]


def _begin_log(files: SegmentFiles) -> None:
    """Create the first segment, unless there is one. A crash can have left one without a header, and then nothing is in it."""
    numbers = files.numbers()
    if numbers == [1] and not any(files.read(1, 0, files.size(1))):
        files.drop(1)
        numbers = []
    if not numbers:
        os.close(files.create(1, segment_head(1, 0), segments.SEGMENT_BYTES))
