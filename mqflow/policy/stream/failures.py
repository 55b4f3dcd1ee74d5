"""Decides from the text of a failed job whether another attempt can help, and whether it needs a new Spark session.

A failure is permanent unless the table below lists it: an unnecessary retry only hides an error in the data from people for
some minutes. Spark gives most of these failures no stable class, so their texts decide. This file is pure.
"""

import re
from enum import StrEnum
from typing import Final

from msgspec import Struct

__all__ = ("FAILURES", "PERMANENT", "Failure", "Kind", "classify", "words_of")


class Kind(StrEnum):
    """The remedy after a failure."""

    TRANSIENT = "transient"
    """Another attempt in the same session can succeed."""
    SESSION_LOST = "session_lost"
    """The session is dead. Another attempt needs a new session."""
    PERMANENT = "permanent"
    """Every attempt fails until a person changes something."""


class Failure(Struct, frozen=True):
    """A kind of failure, with a short name for logs and metrics."""

    kind: Kind
    name: str


PERMANENT: Final = Failure(Kind.PERMANENT, "permanent")


def _lost(name: str, pattern: str) -> tuple[re.Pattern[str], Failure]:
    return re.compile(pattern, re.MULTILINE), Failure(Kind.SESSION_LOST, name)


def _transient(name: str, pattern: str) -> tuple[re.Pattern[str], Failure]:
    return re.compile(pattern), Failure(Kind.TRANSIENT, name)


FAILURES: Final = (
    # A dead session comes first, because its errors often quote the error of a task too.
    _lost(
        "jvm_ended",
        r"Answer from Java side is empty|Py4JNetworkError|connect to the Java server|does not exist in the JVM|"
        r"^ConnectionRefusedError",
    ),
    _lost("context_stopped", r"SparkContext was shut down|stopped SparkContext|LiveListenerBus is stopped"),
    _lost("connect_session_closed", r"INVALID_HANDLE\.SESSION_(?:CLOSED|CHANGED|NOT_FOUND)|SESSION_NOT_FOUND"),
    _lost("connect_unavailable", r"StatusCode\.UNAVAILABLE|failed to connect to all addresses"),
    _transient("worker_did_not_connect", r"Python worker failed to connect back|Timed out while waiting for the Python worker"),
    _transient("worker_ended", r"Python worker exited unexpectedly"),
    _transient("executor_lost", r"ExecutorLostFailure|Lost executor|ExecutorDeadException|Remote RPC client disassociated"),
    _transient("fetch_failed", r"FetchFailed"),  # matches MetadataFetchFailedException too
    _transient("rpc_timeout", r"RpcTimeoutException|Futures timed out"),
    _transient("disk_full", r"No space left on device|Disk quota exceeded"),
    _transient("store_busy", r"\bSlowDown\b|\bServiceUnavailable\b|\bRequestTimeout\b|\b50[03] (?:Internal|Service|Slow)"),
    # Another run or `mqflow spark optimize` was faster. The next attempt begins with the state that it has left.
    _transient("tables_busy", r"Another process writes the tables in|another program writes the same rows"),
    _transient("timeout", r"(?i)\b(?:timed out|timeout error|connection reset|connection refused|broken pipe)\b"),
)
"""The failures that deserve another attempt. The first pattern that matches the text of a failure counts."""


def classify(text: str) -> Failure:
    """Return the failure that the text describes; `PERMANENT` if no pattern matches."""
    return next((failure for pattern, failure in FAILURES if pattern.search(text)), PERMANENT)


def words_of(text: str, *names: str) -> str:
    """Return the words of the text that match a failure with one of these names; empty if none matches."""
    found = (pattern.search(text) for pattern, failure in FAILURES if failure.name in names)
    return next((match[0] for match in found if match is not None), "")
