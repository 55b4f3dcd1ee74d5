"""Draws the map in docs/architecture.md from the imports.

`python -m tests.floors` writes the pictures and the table of folders. It also writes the table of repeated names
in the decision page 0055.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.floors.picture import drawn
from tests.floors.repeated_names import listed
from tests.floors.structure import folder_limits, folder_sentences

__all__ = ("made",)

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "architecture.md"
DECISION = DOCS / "decisions" / "0055-folders-are-floors.md"
PICTURES = {"floors": "mqflow", "floors-of-embedded": "mqflow.embedded", "floors-of-runtime": "mqflow.runtime"}


def made() -> Iterator[tuple[Path, str]]:
    """Yield each file of the map with the text that the imports and the docstrings of today ask for."""
    for name, package in PICTURES.items():
        yield DOCS / "images" / f"{name}.svg", drawn(package)
    limits = dict(folder_limits())
    rows = "".join(
        f"| `{folder}` | {sentence} | {', '.join(f'`{limit}`' for limit in limits[folder])} |\n"
        for folder, sentence in folder_sentences()
    )
    yield PAGE, _with_table(PAGE, "folders", f"| folder | what it is for | what it must not import |\n|---|---|---|\n{rows}")
    names = "".join(
        f"| `{name}` | {', '.join(f'`{file}`' for file in repetition.files)} | {repetition.why} |\n"
        for repetitions in (listed().modules, listed().classes)
        for name, repetition in repetitions.items()
    )
    yield DECISION, _with_table(DECISION, "repeated names", f"| name | files | what both are about |\n|---|---|---|\n{names}")


def _with_table(page: Path, name: str, table: str) -> str:
    place = re.compile(rf"(?<=<!-- {name} -->\n).*(?=<!-- end of {name} -->)", re.DOTALL)
    text, count = place.subn(lambda _: table, page.read_text("utf-8"))
    if count != 1:
        sys.exit(f"{page} has no place for the table: <!-- {name} --> and <!-- end of {name} --> are missing.")
    return text


if __name__ == "__main__":
    for path, text in made():
        path.write_text(text, "utf-8")
