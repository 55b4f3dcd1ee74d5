"""Reads and writes the messages of COBOL programs: a copybook describes the body, and a handler receives a typed record.

`Copybook` is the codec of a listener, a publisher or a put.
"""

from mqflow_copybook.copybook import Copybook
from mqflow_copybook.record import FieldError
from mqflow_copybook.source import CopybookError

__all__ = ("Copybook", "CopybookError", "FieldError")
