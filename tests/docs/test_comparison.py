"""The comparison with other packages: each of its 82 rows names a test or a page, and a reason if it is no yes."""

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "comparison.md").read_text()
ROWS = re.findall(r"^\| (\d+) \| ([^|]+) \| (yes|partly|no) \| (?:`([^`]+)`|\[([^]]+)\]\(\5\)) \|(.*)\|$", PAGE, re.MULTILINE)


def test_the_page_has_the_82_rows_in_their_order() -> None:
    assert [str(number) for number in range(1, 83)] == [row[0] for row in ROWS]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_names_a_test_or_a_page_and_a_reason_unless_it_is_a_yes(row: tuple[str, ...]) -> None:
    _, _, state, test, page, remark = row
    file, _, name = test.partition("::")

    proof = ROOT / file if file else ROOT / "docs" / page
    assert proof.is_file()
    assert bool(name) == file.endswith(".py")
    assert not name or f"def {name}(" in proof.read_text()
    assert state == "yes" or re.search(r"(lead|peer).*\.\s*$", remark)


def test_the_page_counts_its_rows() -> None:
    counts = Counter(row[2] for row in ROWS)

    assert f"{counts['yes']} rows are yes, {counts['partly']} partly, {counts['no']} no." in PAGE
