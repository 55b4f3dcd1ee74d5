"""Text that no file of the project may contain: conflict markers of a merge, and private notes."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = frozenset({".cfg", ".json", ".md", ".mqsc", ".py", ".toml", ".yml", ".yaml", ""})
FILES = sorted(
    path
    for folder in (".", "benchmarks", "docs", "examples", "mqflow", "plugins", "tests")
    for path in ((ROOT / folder).glob("*") if folder == "." else (ROOT / folder).rglob("*"))
    if path.is_file() and path.suffix in TEXT and path.stat().st_size < 1_000_000 and not path.name.startswith(".git")
)


@pytest.mark.parametrize(
    "mark",
    [
        r"^(<{7}|>{7}|\|{7}) ",
        r"\b(T[O]DO|FIX[M]E|XX[X])\b",
        r"\bzip\([^\n]*strict=[F]alse",
        r"raises\(\([^)\n]*\b(Base)?[E]xception\b",
    ],
    ids=["a merge left half done", "a note to oneself", "a zip that drops the rest", "a test that any error passes"],
)
def test_no_file_holds_this(mark: str) -> None:
    found = re.compile(mark, re.MULTILINE)

    held = [str(path.relative_to(ROOT)) for path in FILES if found.search(path.read_text(encoding="utf-8", errors="replace"))]

    assert [] == held


def test_the_files_looked_at_are_those_of_the_project() -> None:
    assert {ROOT / "README.md", ROOT / "mkdocs.yml", ROOT / "mqflow" / "__init__.py"} <= set(FILES)
