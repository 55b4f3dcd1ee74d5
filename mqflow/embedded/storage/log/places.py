"""Where each message is in the log: a place for each serial, in pages of a few bytes a message. This module does no I/O."""

from array import array
from collections.abc import Iterator
from typing import Final

__all__ = ("Places", "place", "segment_and_offset")

_OFFSET_BITS: Final = 32
_PAGE_BITS: Final = 6
_PAGE_SIZE: Final = 1 << _PAGE_BITS
_EMPTY_PAGE: Final = array("Q", bytes(8 * (_PAGE_SIZE + 1)))  # the last item counts the places of the page


def place(segment: int, offset: int) -> int:
    """Return the place of a record: its segment and its offset in one number."""
    return segment << _OFFSET_BITS | offset


def segment_and_offset(found: int) -> tuple[int, int]:
    """Return the segment and the offset of a place."""
    return found >> _OFFSET_BITS, found & ((1 << _OFFSET_BITS) - 1)


class Places:
    """Maps serials to places. Serials that are close together share a page, so that a deep queue needs few bytes a message."""

    def __init__(self) -> None:
        self._pages: dict[int, array[int]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def set(self, serial: int, found: int) -> int:
        """Set the place of a serial. Return its earlier place, or 0."""
        page = self._pages.get(serial >> _PAGE_BITS)
        if page is None:
            page = self._pages[serial >> _PAGE_BITS] = _EMPTY_PAGE[:]
        before = page[serial & (_PAGE_SIZE - 1)]
        page[serial & (_PAGE_SIZE - 1)] = found
        if not before:
            page[_PAGE_SIZE] += 1
            self._count += 1
        return before

    def get(self, serial: int) -> int:
        """Return the place of a serial, or 0."""
        page = self._pages.get(serial >> _PAGE_BITS)
        return 0 if page is None else page[serial & (_PAGE_SIZE - 1)]

    def pop(self, serial: int) -> int:
        """Forget a serial. Return its place, or 0."""
        page = self._pages.get(serial >> _PAGE_BITS)
        before = 0 if page is None else page[serial & (_PAGE_SIZE - 1)]
        if page is not None and before:
            page[serial & (_PAGE_SIZE - 1)] = 0
            page[_PAGE_SIZE] -= 1
            self._count -= 1
            if not page[_PAGE_SIZE]:
                del self._pages[serial >> _PAGE_BITS]
        return before

    def values(self) -> Iterator[int]:
        """Yield the places, in order of serial."""
        for number in sorted(self._pages):
            yield from filter(None, self._pages[number][:_PAGE_SIZE])
