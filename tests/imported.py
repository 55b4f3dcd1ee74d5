"""Modules that a test writes into a folder are forgotten after it: the next test may write others of the same names."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

__all__ = ("imports_of",)


@contextmanager
def imports_of(folder: Path) -> Iterator[None]:
    """Let the modules of the folder be imported in the block, and be forgotten after it, with each change of `sys.path`."""
    with patch.object(sys, "path", list(sys.path)):
        yield
    for name, module in sys.modules.copy().items():
        # A built-in module has no file; a package without an `__init__` has only the paths of its folders.
        places = (getattr(module, "__file__", None) or "", *getattr(module, "__path__", ()))
        if any(str(place).startswith(f"{folder}/") for place in places):
            del sys.modules[name]
