"""The index of decisions is in order, and the index and the pages agree about decisions that a later page replaces."""

import re
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs" / "decisions"
INDEX = (FOLDER / "index.md").read_text("utf-8")
ROW = re.compile(r"^\| \[(\d{4})\]\(([\w.-]+)\) \|.*$", re.MULTILINE)


def replaced(text: str) -> set[str]:
    """Return the numbers of the later decisions that this text names as replacements."""
    return {
        number
        for sentence in re.findall(r"[Rr]eplaced [\w ]*by [^:.\n]*", text)
        for number in re.findall(r"\[(\d{4})\]", sentence)
    }


def test_the_numbers_in_each_group_are_in_order() -> None:
    groups = [[row[1] for row in ROW.finditer(group)] for group in INDEX.split("\n## ")]

    assert [sorted(group) for group in groups] == groups


def test_each_decision_is_in_the_index_once() -> None:
    assert sorted(path.name for path in FOLDER.glob("0*.md")) == sorted(row[2] for row in ROW.finditer(INDEX))


def test_the_index_marks_the_decisions_whose_page_names_a_replacement() -> None:
    marked = {row[2]: replaced(row[0]) for row in ROW.finditer(INDEX) if replaced(row[0])}
    heads = {path.name: replaced(path.read_text("utf-8").partition("**Context.**")[0]) for path in FOLDER.glob("0*.md")}

    assert {name: numbers for name, numbers in heads.items() if numbers} == marked
