"""Every link has a target: from the pages and the README to pages, their headings, and files of the repository."""

import re
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
