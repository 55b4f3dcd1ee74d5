"""The journal: messages of queues in immutable Parquet segments, which any number of consumers can read again.

A journal is a folder with a lane for each stream of messages. A lane has numbered segments. Each consumer has an offset in each
lane: the last segment that it has read. This folder knows files and columns, and the records of the layers below. It knows no
queue manager and no Spark. Needs pyarrow (`mqflow[journal]`), which is loaded when columns are made or read, not before.

No module here imports `mqflow.runtime`, `mqflow.embedded`, `mqflow.bindings` or `pyspark`.
"""

from mqflow.journal.consumers import Consumers, Trimmed
from mqflow.journal.errors import (
    ConsumerError,
    ForeignJournalError,
    JournalError,
    JournalFullError,
    JournalVersionError,
    LaneError,
    MissingSegmentError,
    SchemaError,
    TornSegmentError,
)
from mqflow.journal.journal import JOURNAL_VERSION, Journal, Lane
from mqflow.journal.schemas import SCHEMA_VERSION, Column, Kind, arrow_schema, columns_of, ddl
from mqflow.journal.segments import Segment, check_segment, read_batches, read_table

__all__ = (
    "JOURNAL_VERSION", "SCHEMA_VERSION", "Column", "ConsumerError", "Consumers", "ForeignJournalError", "Journal",
    "JournalError", "JournalFullError", "JournalVersionError", "Kind", "Lane", "LaneError", "MissingSegmentError",
    "SchemaError", "Segment", "TornSegmentError", "Trimmed", "arrow_schema", "check_segment", "columns_of", "ddl",
    "read_batches", "read_table",
)  # fmt: skip
