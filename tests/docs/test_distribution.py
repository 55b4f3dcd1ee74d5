"""The wheel and the sdist: a package index accepts them, their README has no relative link, and the wheel has every file."""

import re
import subprocess
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from packaging.metadata import parse_email
from twine.commands.check import check

from hatch_build import absolute

ROOT = Path(__file__).parents[2]
README = """![the console](docs/console.png) [Docs](docs/index.md#top), [IBM](https://ibm.com), [below](#below), `[a](b)`"""


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", " Docs, [IBM](https://ibm.com), [below](#below), `a`"),
        (
            "https://example.org/mqflow",
            (
                "![the console](https://example.org/mqflow/raw/v1.2/docs/console.png) "
                "[Docs](https://example.org/mqflow/blob/v1.2/docs/index.md#top), [IBM](https://ibm.com), [below](#below), "
                "`[a](https://example.org/mqflow/blob/v1.2/b)`"
            ),
        ),
    ],
    ids=["without a repository", "with a repository"],
)
def test_a_relative_link_becomes_absolute_or_its_text(source: str, expected: str) -> None:
    assert expected == absolute(README, source, "1.2")


def test_a_package_index_accepts_wheel_and_sdist(tmp_path: Path) -> None:
    [sdist] = SdistBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    [wheel] = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])

    assert check([sdist, wheel], strict=True) is False  # nothing has failed
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.startswith("mqflow/")}
        metadata, _ = parse_email(archive.read(next(name for name in archive.namelist() if name.endswith("/METADATA"))))
    tracked = subprocess.run(["git", "ls-files", "mqflow"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert set(tracked.split()) <= names
    assert [] == re.findall(r"\]\((?!https?:|#)[^)]*\)", metadata.get("description", ""))
    assert "text/markdown" == metadata.get("description_content_type")
