"""The page of the reached branches: packages, their bars, and the packages below."""

import pytest

from tests.coverage_page import Measured, Summary, measured, package_of, page


@pytest.mark.parametrize(
    ("file", "package"),
    [
        ("mqflow/verbs.py", "mqflow"),
        ("mqflow/policy/poison/report.py", "mqflow/policy"),
        ("mqflow/embedded/calls/open.py", "mqflow/embedded/calls"),
        ("mqflow/embedded/wire/client/line.py", "mqflow/embedded/wire"),
        ("mqflow/embedded/connection.py", "mqflow/embedded"),
    ],
)
def test_a_file_counts_for_its_package(file: str, package: str) -> None:
    assert package == package_of(file)


def test_a_package_has_the_sums_of_its_files() -> None:
    files = [("mqflow/mqi/a.py", Summary(10, 9, 4, 3)), ("mqflow/mqi/b.py", Summary(2, 2, 0, 0))]

    assert [Measured("mqflow/mqi", 12, 4, 14)] == measured(files)


def test_one_branch_of_a_decision_that_no_test_reaches_is_below_the_bar() -> None:
    rows = [Measured("mqflow/mqi", 950, 50, 950), Measured("mqflow/policy", 950, 50, 999)]
    written = page(rows, "2026-11-23", "the command")

    assert "| `mqflow/mqi` | 950 | 50 | 95.0 % | 95 % |" in written
    assert written.endswith("Below the bar: `mqflow/policy`.\n")
