"""The pictures of `tests.docs.pictures`: they are of today, a page shows each of them, and no page has other drawings."""

import re

from tests.docs.pages import DOCS
from tests.docs.pictures import made


def test_the_pictures_are_made_from_the_tables_of_today() -> None:
    changed = [file.name for file, text in made() if file.read_text() != text]

    assert [] == changed, "Draw them again: python -m tests.docs.pictures"


def test_a_page_shows_each_picture_and_no_page_has_a_drawing_that_the_site_does_not_draw() -> None:
    pages = "".join(page.read_text() for page in DOCS.rglob("*.md"))

    assert [] == [file.name for file, _ in made() if f"](images/{file.name})" not in pages]
    assert [] == re.findall("^```mermaid", pages, re.MULTILINE)
