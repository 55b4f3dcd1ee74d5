"""The documentation is correct: its Python runs, its tests pass, every page is in the navigation.

Blocks of a page run in a folder of their own. A block with a title is a file of that name: pytest runs the files `test_*.py`,
Python runs the others. The rest of the Python of a page is one program, in order. On the how-to pages every console block runs
too, and its output is compared. A block of the language `py` is no program. With a title it is a file that the others
import. Without a title it is code for a package that is not installed here, and is only compiled.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from shutil import which

import pytest
from msgspec import Struct

from mqflow.app.run.signals import LEAVE_AFTER_S
from mqflow.cli.text.exit_codes import EXIT_NOTHING

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
HOW_TO = [page for page in PAGES if page.startswith("how-to/")]
PYTEST = ("pytest", "-p", "no:cacheprovider", "-p", "no:hypothesispytest")
"""The tests of a page use no Hypothesis, whose plugin takes more than a third of the processor time of such a run."""

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
        timeout=250,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def write_files(page: str, folder: Path) -> None:
    """Write each block with a title to the file of that name."""
    for block in blocks(page):
        if block.title:
            (folder / block.title).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.title).write_text(block.text)


@pytest.mark.parametrize("page", [page for page in PAGES if any(block.language == "python" for block in blocks(page))])
def test_the_python_of_a_page_runs(page: str, tmp_path: Path) -> None:
    write_files(page, tmp_path)
    untitled = [block.text for block in blocks(page) if block.language == "python" and not block.title]
    (tmp_path / "page.py").write_text("\n".join(untitled))

    titled = [block.title for block in blocks(page) if block.language == "python" and block.title]
    for program in ["page.py", *(title for title in titled if not title.startswith("test_"))]:
        run(tmp_path, program)
    if any(title.startswith("test_") for title in titled):
        run(tmp_path, "-m", *PYTEST, "-q")


def test_the_commands_of_the_first_application_work(tmp_path: Path) -> None:
    page = blocks("first-application.md")
    write_files("first-application.md", tmp_path)
    typed = [line for block in page if block.language == "console" for line in block.text.splitlines()]
    commands = [shlex.split(line.removeprefix("$ mqflow ")) for line in typed if line.startswith("$ mqflow ")]

    ended = {command[0]: mqflow(tmp_path, command) for command in commands}

    assert ["mqsc", "put", "run", "get", "browse"] == list(ended)
    assert (0, 0, 0) == (ended["mqsc"], ended["put"], ended["run"])
    # The progress of the application at its stop is random: a queue may still be empty.
    assert {ended["get"], ended["browse"]} <= {0, EXIT_NOTHING}


@pytest.mark.parametrize("page", [page for page in HOW_TO if any(block.language == "console" for block in blocks(page))])
def test_the_console_blocks_of_a_how_to_page_run_and_print_what_they_show(page: str, tmp_path: Path) -> None:
    write_files(page, tmp_path)
    for block in blocks(page):
        for typed in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:] if block.language == "console" else ():
            command, _, shown = typed.partition("\n")
            code, printed = typed_in(tmp_path, command)
            assert code == 0, f"{command}\n{printed}"
            # Three dots stand for any text.
            expected = re.escape(shown.strip()).replace(r"\.\.\.", ".*")
            assert not shown or re.fullmatch(expected, printed.strip(), re.DOTALL), f"{command}\n{printed}"


@pytest.mark.parametrize("page", HOW_TO)
def test_the_code_of_other_packages_on_a_how_to_page_compiles(page: str) -> None:
    for number, block in enumerate(blocks(page)):
        if block.language == "py" and not block.title:
            compile(block.text, f"{page}, block {number}", "exec")


@pytest.mark.skipif(which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit_and_waits_longer_than_the_drain(tmp_path: Path) -> None:
    write_files("how-to/deploy.md", tmp_path)
    unit = (tmp_path / "orders.service").read_text()
    # The user and the paths of the page are not on this machine.
    here = re.sub(r"^(User|WorkingDirectory)=.*\n", "", unit, flags=re.MULTILINE)
    (tmp_path / "orders.service").write_text(re.sub(r"^ExecStart=\S+", f"ExecStart={sys.executable}", here, flags=re.MULTILINE))

    verified = subprocess.run(["systemd-analyze", "verify", tmp_path / "orders.service"], capture_output=True, check=False)
    kill_after_s = float(re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)[0])
    drain_s = tomllib.loads((tmp_path / "mqflow.toml").read_text())["drain_s"]

    assert (0, b"") == (verified.returncode, verified.stderr)
    assert kill_after_s > drain_s + LEAVE_AFTER_S


def typed_in(folder: Path, line: str) -> tuple[int, str]:
    """Run a line of a console block in the folder. Return its exit code and what it printed."""
    words = shlex.split(line, comments=True)
    settings = [word for word in words if re.match(r"MQFLOW_\w+=", word)]
    program, *arguments = words[len(settings) :]
    starts = {"mqflow": ["-m", "mqflow.cli"], "python": [], "pytest": ["-m", *PYTEST]}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # as after `. .venv/bin/activate`
    environment = os.environ | {"PATH": path} | dict(word.split("=", 1) for word in settings)
    return ended([sys.executable, *starts[program], *arguments], folder, environment)


def mqflow(folder: Path, command: list[str]) -> int:
    """Run an mqflow command in the folder and return its exit code; a command that listens gets a stop at once."""
    return ended([sys.executable, "-m", "mqflow.cli", *command], folder, os.environ)[0]


def ended(command: list[str], folder: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    """Run a command, with a stop as soon as it listens. Return its exit code and what it printed."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stderr is not None
        assert process.stdout is not None
        notes = ""
        for line in process.stderr:
            notes += line
            if line.startswith("Listening"):
                process.send_signal(signal.SIGTERM)
        printed = process.stdout.read()
    return process.returncode, printed if process.returncode == 0 else printed + notes


def test_every_page_is_in_the_navigation_once_and_every_entry_is_a_page() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]

    assert PAGES == sorted(re.findall(r"(\S+\.md)$", navigation, re.MULTILINE))


def test_the_navigation_has_the_four_kinds_of_documentation_and_at_most_twelve_entries_at_one_level() -> None:
    lines = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2].splitlines()

    kinds = [line.strip("- ").partition(":")[0] for line in lines if line.startswith("  - ")]
    assert ["Home", "Tutorial", "How-to", "Explanation", "Reference"] == kinds
    assert {} == {section: count for section, count in entries_below(lines).items() if count > 12}


def entries_below(navigation: list[str]) -> dict[tuple[str, ...], int]:
    """Return the number of entries below each section; the key of a section is the titles that lead to it."""
    counts: Counter[tuple[str, ...]] = Counter()
    titles: dict[int, str] = {}
    for line in navigation:
        indent = len(line) - len(line.lstrip())
        titles = {at: title for at, title in titles.items() if at < indent}
        counts[tuple(titles.values())] += 1
        titles[indent] = line.strip("- :")
    return dict(counts)


@pytest.mark.parametrize("decision", [page for page in PAGES if page.startswith("decisions/0")])
def test_a_decision_has_context_options_choice_and_reasons_to_change_it(decision: str) -> None:
    text = (DOCS / decision).read_text()

    parts = [part for part in ("**Context.**", "**Choice", "**What would change our mind.**") if part in text]
    assert ["**Context.**", "**Choice", "**What would change our mind.**"] == parts
    assert text.startswith(f"# {Path(decision).name[:4]} ")
    assert f"]({Path(decision).name})" in (DOCS / "decisions" / "index.md").read_text()
