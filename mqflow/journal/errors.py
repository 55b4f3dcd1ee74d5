"""The errors of a journal. Each error text names the file, the problem and the remedy. No error loses data."""

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
    """A journal cannot be used as asked. The text says what was found, and what to do."""


class ForeignJournalError(JournalError):
    """The folder is not a journal."""

    def __init__(self, uri: str, found: str) -> None:
        self.uri = uri
        super().__init__(f"{uri} is not a journal: {found}. Nothing was changed. Choose another folder.")


class JournalVersionError(JournalError):
    """A newer mqflow wrote the journal."""

    def __init__(self, uri: str, found: int, known: int) -> None:
        self.uri = uri
        self.found = found
        super().__init__(
            f"The journal {uri} is of version {found}; this mqflow knows versions up to {known}. "
            "Nothing was changed. Use the newer mqflow that wrote it."
        )


class LaneError(JournalError):
    """A lane has another kind or queue than the caller named, belongs to another owner, or disagrees with the queue manager."""


class TornSegmentError(JournalError):
    """The bytes of a segment differ from the bytes that were written."""

    def __init__(self, uri: str, found: str) -> None:
        self.uri = uri
        super().__init__(
            f"The segment {uri} is damaged: {found}. mqflow used nothing of it. Restore that file from a copy; its name says "
            "its number, rows and checksum."
        )


class MissingSegmentError(JournalError):
    """Segments that a reader asked for do not exist: they were trimmed or are lost."""

    def __init__(self, lane: str, first: int, last: int, why: str) -> None:
        self.lane = lane
        self.first = first
        self.last = last
        which = f"segment {first}" if first == last else f"segments {first} to {last}"
        super().__init__(f"Lane {lane} has no {which}: {why}.")


class SchemaError(JournalError):
    """A segment does not have the columns of its kind."""

    def __init__(self, uri: str, found: str) -> None:
        self.uri = uri
        super().__init__(f"The segment {uri} does not fit: {found}. Another version of mqflow wrote it: use that version.")


class JournalFullError(JournalError):
    """The disk has no room for a segment; its messages are back on their queue."""

    def __init__(self, uri: str, why: str) -> None:
        self.uri = uri
        super().__init__(
            f"No room for {uri}: {why}. The messages are back on their queue. Free space, or trim the segments that "
            "every consumer has read."
        )


class ConsumerError(JournalError):
    """A consumer cannot have the requested offsets."""
