"""Lets the API reference show the `#:` lines above a record's fields, which Griffe does not read by itself."""

import ast
from pathlib import Path
from typing import Any

from griffe import Attribute, Docstring, Extension, ObjectNode

__all__ = ("FieldComments",)


class FieldComments(Extension):
    """Makes the `#:` lines above an attribute its docstring, if it has no docstring."""

    def on_attribute_instance(self, *, node: ast.AST | ObjectNode, attr: Attribute, **_: Any) -> None:  # noqa: ARG002 - Griffe's signature
        """Give the attribute its comment."""
        if attr.docstring is not None or attr.lineno is None or not isinstance(attr.filepath, Path):
            return
        comment = _above(attr.lines_collection[attr.filepath], attr.lineno)
        if comment:
            attr.docstring = Docstring(comment, parent=attr)


def _above(lines: list[str], lineno: int) -> str:
    """Return the text of the `#:` lines that end just above this line (counted from 1)."""
    found: list[str] = []
    for line in reversed(lines[: lineno - 1]):
        text = line.strip()
        if not text.startswith("#:"):
            break
        found.append(text.removeprefix("#:").strip())
    return " ".join(reversed(found))
