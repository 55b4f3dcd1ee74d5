"""Draws the map in docs/architecture.md from the imports.

`python -m tests.floors` writes the pictures and the table of folders.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.floors.picture import drawn
from tests.floors.structure import folder_limits, folder_sentences

__all__ = ("made",)

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "architecture.md"
PICTURES = {"floors": "mqflow", "floors-of-embedded": "mqflow.embedded", "floors-of-runtime": "mqflow.runtime"}
_TABLE = re.compile(r"(?<=<!-- folders -->\n).*(?=<!-- end of folders -->)", re.DOTALL)


def made() -> Iterator[tuple[Path, str]]:
    """Yield each file of the map with the text that the imports and the docstrings of today ask for."""
    for name, package in PICTURES.items():
        yield DOCS / "images" / f"{name}.svg", drawn(package)
    limits = dict(folder_limits())
    rows = "".join(
        f"| `{folder}` | {sentence} | {', '.join(f'`{limit}`' for limit in limits[folder])} |\n"
        for folder, sentence in folder_sentences()
    )
    page, count = _TABLE.subn(
        lambda _: f"| folder | what it is for | what it must not import |\n|---|---|---|\n{rows}", PAGE.read_text("utf-8")
    )
    if count != 1:
        sys.exit(f"{PAGE} has no place for the table: <!-- folders --> and <!-- end of folders --> are missing.")
    yield PAGE, page


if __name__ == "__main__":
    for path, text in made():
        path.write_text(text, "utf-8")
