"""The mark of tests that start several Sparks: a check of every change needs none of them. `MQFLOW_LONG=1` asks for them."""

import os
from typing import Final

import pytest

__all__ = ("LONG",)

LONG: Final = pytest.mark.skipif(os.environ.get("MQFLOW_LONG") != "1", reason="it takes long: MQFLOW_LONG=1 asks for it")
