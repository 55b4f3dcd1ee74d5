"""The documentation is correct: its Python runs, its tests pass, every page is in the navigation.

Blocks of a page run in a folder of their own. A block with a title is a file of that name: pytest runs the files `test_*.py`,
Python runs the others. The rest of the Python of a page is one program, in order.
"""

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import Struct

from mqflow.cli.text.exit_codes import EXIT_NOTHING

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))

_BLOCK = re.compile(r'^```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)


class Block(Struct, frozen=True):
    """A fenced block of a page."""

    language: str
    title: str
    text: str


def blocks(page: str) -> list[Block]:
    """Every fenced block of a page."""
    return [
        Block(found["language"], found["title"] or "", found["text"]) for found in _BLOCK.finditer((DOCS / page).read_text())
    ]


def run(folder: Path, *command: str) -> None:
    """Run a Python program in the folder; its output is in the failure."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", [page for page in PAGES if any(block.language == "python" for block in blocks(page))])
def test_the_python_of_a_page_runs(page: str, tmp_path: Path) -> None:
    untitled: list[str] = []
    for block in blocks(page):
        if block.title:
            (tmp_path / block.title).write_text(block.text)
        elif block.language == "python":
            untitled.append(block.text)
    (tmp_path / "page.py").write_text("\n".join(untitled))

    titled = [block.title for block in blocks(page) if block.title.endswith(".py")]
    for program in ["page.py", *(title for title in titled if not title.startswith("test_"))]:
        run(tmp_path, program)
    if any(title.startswith("test_") for title in titled):
        run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider")


def test_the_commands_of_the_first_application_work(tmp_path: Path) -> None:
    page = blocks("first-application.md")
    for block in page:
        if block.title:
            (tmp_path / block.title).write_text(block.text)
    typed = [line for block in page if block.language == "console" for line in block.text.splitlines()]
    commands = [shlex.split(line.removeprefix("$ mqflow ")) for line in typed if line.startswith("$ mqflow ")]

    ended = {command[0]: mqflow(tmp_path, command) for command in commands}

    assert ["mqsc", "put", "run", "get", "browse"] == list(ended)
    assert (0, 0, 0) == (ended["mqsc"], ended["put"], ended["run"])
    # The progress of the application at its stop is random: a queue may still be empty.
    assert {ended["get"], ended["browse"]} <= {0, EXIT_NOTHING}


def mqflow(folder: Path, command: list[str]) -> int:
    """Run an mqflow command in the folder and return its exit code; a command that listens gets a stop at once."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mqflow.cli", *command],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("Listening"):
                process.send_signal(signal.SIGTERM)
    return process.returncode


def test_every_page_is_in_the_navigation_once_and_every_entry_is_a_page() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]

    assert PAGES == sorted(re.findall(r"(\S+\.md)$", navigation, re.MULTILINE))


@pytest.mark.parametrize("decision", [page for page in PAGES if page.startswith("decisions/0")])
def test_a_decision_has_context_options_choice_and_reasons_to_change_it(decision: str) -> None:
    text = (DOCS / decision).read_text()

    parts = [part for part in ("**Context.**", "**Choice", "**What would change our mind.**") if part in text]
    assert ["**Context.**", "**Choice", "**What would change our mind.**"] == parts
    assert text.startswith(f"# {Path(decision).name[:4]} ")
    assert f"]({Path(decision).name})" in (DOCS / "decisions" / "index.md").read_text()
