"""The pages agree with each other: every link has a target, the comparison names tests, and the decisions have an index."""

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "plugins").glob("*/*.md")])

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


@cache
def prose(page: Path) -> str:
    """Return the text outside of code."""
    return re.sub(r"`[^`\n]*`", lambda code: code[0].replace("](", "] ("), _FENCE.sub("", page.read_text()))


@cache
def headings(page: Path) -> frozenset[str]:
    """The anchors of a page, as Python-Markdown makes them."""
    plain = (re.sub(r"[^\w\s-]", "", heading.lower()) for heading in _HEADING.findall(prose(page)))
    return frozenset(re.sub(r"[-\s]+", "-", heading).strip("-") for heading in plain)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_link_leads_nowhere(page: Path) -> None:
    dead = []
    for link in _LINK.findall(prose(page)):
        where, _, anchor = link.partition("#")
        if ":" in where:  # elsewhere
            continue
        # What follows the name of a picture tells the theme when to show it.
        target = (page.parent / where).resolve() if where else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in headings(target)):
            dead.append(link)

    assert [] == dead


# The comparison with other packages: each of its 82 rows names a test or a page, and a reason if it is no yes.

COMPARISON = (ROOT / "docs" / "comparison.md").read_text()
ROWS = re.findall(
    r"^\| (\d+) \| ([^|]+) \| (yes|partly|no) \| (?:`([^`]+)`|\[([^]]+)\]\(\5\)) \|(.*)\|$", COMPARISON, re.MULTILINE
)


def test_the_comparison_has_its_82_rows_in_their_order() -> None:
    assert [str(number) for number in range(1, 83)] == [row[0] for row in ROWS]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_of_the_comparison_names_a_test_or_a_page_and_a_reason_unless_it_is_a_yes(row: tuple[str, ...]) -> None:
    _, _, state, test, page, remark = row
    file, _, name = test.partition("::")

    proof = ROOT / file if file else ROOT / "docs" / page
    assert proof.is_file()
    assert bool(name) == file.endswith(".py")
    assert not name or f"def {name}(" in proof.read_text()
    assert state == "yes" or re.search(r"(lead|peer).*\.\s*$", remark)


def test_the_comparison_counts_its_rows() -> None:
    counts = Counter(row[2] for row in ROWS)

    assert f"{counts['yes']} rows are yes, {counts['partly']} partly, {counts['no']} no." in COMPARISON


# The index of decisions is in order. The index and the pages agree about decisions that a later page replaces.

DECISIONS = ROOT / "docs" / "decisions"
INDEX = (DECISIONS / "index.md").read_text("utf-8")
DECISION = re.compile(r"^\| \[(\d{4})\]\(([\w.-]+)\) \|.*$", re.MULTILINE)


def replaced(text: str) -> set[str]:
    """Return the numbers of the later decisions that this text names as replacements."""
    return {
        number
        for sentence in re.findall(r"[Rr]eplaced [\w ]*by [^:.\n]*", text)
        for number in re.findall(r"\[(\d{4})\]", sentence)
    }


def test_the_decisions_of_each_group_are_in_order() -> None:
    groups = [[row[1] for row in DECISION.finditer(group)] for group in INDEX.split("\n## ")]

    assert [sorted(group) for group in groups] == groups


def test_each_decision_is_in_the_index_once() -> None:
    assert sorted(path.name for path in DECISIONS.glob("0*.md")) == sorted(row[2] for row in DECISION.finditer(INDEX))


def test_the_index_marks_the_decisions_whose_page_names_a_replacement() -> None:
    marked = {row[2]: replaced(row[0]) for row in DECISION.finditer(INDEX) if replaced(row[0])}
    heads = {path.name: replaced(path.read_text("utf-8").partition("**Context.**")[0]) for path in DECISIONS.glob("0*.md")}

    assert {name: numbers for name, numbers in heads.items() if numbers} == marked


def test_the_first_version_is_not_compared_with_states_that_nobody_could_install() -> None:
    first = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text("utf-8"), flags=re.MULTILINE)[-1]

    assert [] == re.findall(
        r"^### (?:Changed|Fixed|Removed)|\bBefore,|[;.] before, |\b(?:as|so) before\b|\bno longer\b|\bis gone\b",
        first,
        re.MULTILINE,
    )
