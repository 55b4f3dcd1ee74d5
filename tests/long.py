"""`MQFLOW_LONG=1` asks for tests that start several Sparks, and for more rounds of campaigns. No small change needs them."""

import os
from typing import Final, TypeVar

import pytest

__all__ = ("LONG", "usually")

T = TypeVar("T")
_ASKED: Final = os.environ.get("MQFLOW_LONG") == "1"
LONG: Final = pytest.mark.skipif(not _ASKED, reason="it takes long: MQFLOW_LONG=1 asks for it")
"""The mark of a long test."""


def usually(small: T, *, long: T) -> T:
    """Return the size of a test in each run of the tests, or with `MQFLOW_LONG=1` its long size."""
    return long if _ASKED else small
