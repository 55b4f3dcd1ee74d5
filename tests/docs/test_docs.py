"""The documentation is correct: its Python runs, its tests pass, every page is in the navigation.

Blocks of a page run in a folder of their own. A block with a title is a file of that name: pytest runs the files `test_*.py`,
Python runs the others. The rest of the Python of a page is one program, in order. Every console block runs too, and its output
is compared; `NOT_TYPED` has the lines that are not typed. A block of the language `py` is no program. With a title it is a file
that the others import. Without a title it is code for a package that is not installed here, and is only compiled.
"""

import gzip
import json
import logging
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from shutil import which

import pytest
import yaml
from click.testing import CliRunner

from mqflow.app.run.signals import LEAVE_AFTER_S
from mqflow.cli.main import main
from mqflow.embedded import mqsc
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from tests.docs.pages import DOCS, PYTEST, TUTORIAL, Terminal, blocks, typed_on, write_files
from tests.docs.scenes import NOT_TYPED, problems_of

ROOT = Path(__file__).parents[2]
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
FLIGHTS = "flights-2013-01.jsonl.gz"
FLIGHTS_TAKEN = 480
"""The first flights of the month, with the first cancelled one."""
MQSC = re.compile("(ALTER|CLEAR|DEFINE|DELETE|DISPLAY|SET) ")
WITH_A_TERMINAL = [page for page in PAGES if typed_on(page) and page not in {*TUTORIAL, "errors.md"}]
"""The lines of errors.md fail: `python -m tests.mistakes.table` types them, and writes what they print."""


def run(folder: Path, *command: str) -> None:
    """Run a Python program in the folder; its output is in the failure."""
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, timeout=250, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


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


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """Give a terminal in an empty folder with a short name, because the path of a socket must be short."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    with tempfile.TemporaryDirectory(prefix="mqflow-") as folder:
        monkeypatch.chdir(folder)
        yield Terminal(Path(folder))
        for queue_manager in Path(folder).glob("QM*"):
            CliRunner().invoke(main, ["qmgr", "stop", queue_manager.name, "-i"])
    root.level, root.handlers[:] = level, handlers


@pytest.mark.parametrize("pages", [TUTORIAL, *([page] for page in WITH_A_TERMINAL)], ids=lambda pages: pages[-1])
def test_the_console_blocks_of_a_page_run_and_print_what_they_show(pages: list[str], terminal: Terminal) -> None:
    """The pages of the tutorial continue each other, in one folder."""
    assert [] == [problem for page in pages for problem in problems_of(page, terminal)]


@pytest.mark.parametrize("page", ["../README.md", "../CONTRIBUTING.md", *PAGES])
def test_each_line_for_a_terminal_is_in_a_console_block(page: str) -> None:
    assert set() == {"sh", "bash", "shell"} & {block.language for block in blocks(page)}


def mqsc_of(page: str) -> str:
    """Return the blocks of text that begin with an MQSC command."""
    return "".join(block.text for block in blocks(page) if block.language == "text" and MQSC.match(block.text))


@pytest.mark.parametrize("page", [page for page in PAGES if page != "errors.md" and mqsc_of(page)])
def test_a_queue_manager_accepts_the_mqsc_of_a_page(page: str) -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        answers = mqsc.run(mqsc_of(page), queue_manager.administration).responses

    assert {mqsc.Verdict.DONE} == {each.verdict for each in answers}


def test_each_beginning_of_a_line_that_is_not_typed_is_on_a_page() -> None:
    lines = [typed.line for page in PAGES for typed in typed_on(page)]

    assert [] == [begin for begin in NOT_TYPED if not any(line.startswith(begin) for line in lines)]


@pytest.mark.parametrize("reason", sorted(set(NOT_TYPED.values())))
def test_the_reason_of_a_line_that_is_not_typed_names_tests_that_are_there(reason: str) -> None:
    named = re.findall(r"\btests/[\w/.]*\w", reason)

    assert named
    assert [] == [name for name in named if not (ROOT / name).exists()]


def test_the_readme_works(terminal: Terminal) -> None:
    """With the first flights of the month only, and in one process."""
    write_files("../README.md", Path())
    shutil.copytree(ROOT / "examples/flights", "examples/flights", ignore=shutil.ignore_patterns("*.py", "*.gz"))
    with gzip.open(ROOT / f"examples/flights/{FLIGHTS}") as month, gzip.open(f"examples/flights/{FLIGHTS}", "w") as short:
        short.writelines(islice(month, FLIGHTS_TAKEN))
    for typed in typed_on("../README.md"):
        line = typed.line.replace("--workers 2", "")
        if not line.startswith("make "):
            code, printed = terminal.type(line)

            assert code == 0, f"{line}\n{printed}"
    run(Path(), "-m", *PYTEST, "-q")


@pytest.mark.parametrize("page", [page for page in PAGES if any(block.language == "py" for block in blocks(page))])
def test_the_code_of_other_packages_on_a_page_compiles(page: str) -> None:
    for number, block in enumerate(blocks(page)):
        if block.language == "py" and not block.title:
            compile(block.text, f"{page}, block {number}", "exec")


READERS: Mapping[str, Callable[[str], object]] = {
    "json": lambda text: [json.loads(line) for line in text.splitlines()],
    "toml": tomllib.loads,
    "yaml": yaml.safe_load,
}


@pytest.mark.parametrize("page", [page for page in PAGES if any(block.language in READERS for block in blocks(page))])
def test_the_data_of_a_page_can_be_read(page: str) -> None:
    """A block with a title is a file, which the programs of the page read."""
    for block in blocks(page):
        if block.language in READERS and not block.title:
            READERS[block.language](block.text)


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
