"""A hole in the types has its reason beside it: `getattr`, `hasattr` and `cast` look past the type checker."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOLES = frozenset({"cast", "getattr", "hasattr"})
_HOLE = re.compile(r"\b(?:cast|getattr|hasattr)\(")
#: A comment for several calls stands at most so many lines above each of them.
LINES_ABOVE = 3


def without_reason(text: str) -> list[int]:
    """Return the lines with a hole that has no comment in its lines, or in the lines above it."""
    if not _HOLE.search(text):
        return []
    lines = text.splitlines()
    return [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in HOLES
        if not any("#" in line for line in lines[max(node.lineno - 1 - LINES_ABOVE, 0) : node.end_lineno])
    ]


def test_each_hole_in_the_types_has_its_reason_beside_it() -> None:
    found = {path.relative_to(ROOT).as_posix(): without_reason(path.read_text("utf-8")) for path in ROOT.glob("mqflow/**/*.py")}

    assert {} == {file: lines for file, lines in found.items() if lines}


def test_no_handle_of_the_seam_or_of_the_embedded_queue_manager_is_any() -> None:
    files = [ROOT / "mqflow" / "verbs.py", *(ROOT / "mqflow" / "embedded").rglob("*.py")]

    assert [] == [file.name for file in files if re.search(r"\bhandle: Any\b", file.read_text("utf-8"))]


def test_a_reason_is_a_comment_at_most_three_lines_above() -> None:
    assert [5] == without_reason("# why\n\n\n\ncast('int', a)")
    assert [] == without_reason("# why\n\n\ncast('int', a)")
