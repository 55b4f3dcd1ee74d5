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
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(f"{folder}/"):  # built-in modules have no file
            del sys.modules[name]
