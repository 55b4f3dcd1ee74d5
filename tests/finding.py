"""The exception for a broken invariant in a run with planted defects or faults.

An error that a planted defect itself raises ("database is locked", a bare timeout, a failed assertion of mqflow) is no finding.
"""

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ("FindingError", "findings", "has_finding")


class FindingError(AssertionError):
    """A check of a run has found that an invariant does not hold."""


@contextmanager
def findings() -> Iterator[None]:
    """Raise a failed assertion of this block, or of the decorated function, as `FindingError`."""
    try:
        yield
    except AssertionError as wrong:
        raise FindingError(*wrong.args) from wrong


def has_finding(error: BaseException) -> bool:
    """Return whether the error is a finding, or a group that contains a finding."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(has_finding, error.exceptions))
    return isinstance(error, FindingError)
