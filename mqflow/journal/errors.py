"""What a journal can have wrong: which file, what was found, what to do. Nothing is lost by any of them."""

from pathlib import Path

__all__ = (
    "ConsumerError",
    "ForeignJournalError",
    "JournalError",
    "JournalFullError",
    "JournalVersionError",
    "LaneError",
    "MissingSegmentError",
    "SchemaError",
    "TornSegmentError",
)


class JournalError(Exception):
    """A journal cannot be used as asked. The sentence says what was found, and what to do."""


class ForeignJournalError(JournalError):
    """What lies there is no journal."""

    def __init__(self, path: Path, found: str) -> None:
        self.path = path
        super().__init__(f"{path} is no journal: {found}. Nothing was changed. Choose another folder.")


class JournalVersionError(JournalError):
    """A newer mqflow wrote it."""

    def __init__(self, path: Path, found: int, known: int) -> None:
        self.path = path
        self.found = found
        super().__init__(
            f"The journal {path} is of version {found}; this mqflow knows versions up to {known}. "
            "Nothing was changed. Use the newer mqflow that wrote it."
        )


class LaneError(JournalError):
    """A lane is not what was asked for, is somebody else's, or disagrees with the queue manager."""


class TornSegmentError(JournalError):
    """A segment's bytes are not those that were written."""

    def __init__(self, path: Path, found: str) -> None:
        self.path = path
        super().__init__(
            f"The segment {path} is damaged: {found}. Nothing of it was used. Restore that file from a copy; its name says "
            "its number, rows and checksum."
        )


class MissingSegmentError(JournalError):
    """Segments that were asked for are not there: trimmed, or gone."""

    def __init__(self, lane: str, first: int, last: int, why: str) -> None:
        self.lane = lane
        self.first = first
        self.last = last
        which = f"segment {first}" if first == last else f"segments {first} to {last}"
        super().__init__(f"Lane {lane} has no {which}: {why}.")


class SchemaError(JournalError):
    """A segment's columns are not those of its kind."""

    def __init__(self, path: Path, found: str) -> None:
        self.path = path
        super().__init__(
            f"The segment {path} does not fit: {found}. It was written by another version of mqflow: use that one."
        )


class JournalFullError(JournalError):
    """There is no room for a segment; its messages are on their queue again."""

    def __init__(self, path: Path, why: str) -> None:
        self.path = path
        super().__init__(
            f"No room for {path}: {why}. The messages are back on their queue. Free space, or trim what every consumer "
            "has read."
        )


class ConsumerError(JournalError):
    """A consumer's offsets cannot be what was asked for."""
