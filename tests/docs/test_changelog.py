"""The changelog says what a version is, compared with the version before it. The first version compares itself with nothing."""

import re
from pathlib import Path

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"


def test_the_first_version_is_not_compared_with_states_that_nobody_could_install() -> None:
    first = re.split(r"^## ", CHANGELOG.read_text("utf-8"), flags=re.MULTILINE)[-1]

    assert [] == re.findall(
        r"^### (?:Changed|Fixed|Removed)|\bBefore,|[;.] before, |\b(?:as|so) before\b|\bno longer\b|\bis gone\b",
        first,
        re.MULTILINE,
    )
