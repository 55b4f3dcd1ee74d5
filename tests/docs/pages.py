"""The blocks of the pages, and a terminal that types the lines of their console blocks."""

import io
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Final
from unittest.mock import patch

from msgspec import Struct

from mqflow.cli.main import main
from tests.imported import imports_of

__all__ = ("DOCS", "PYTEST", "TUTORIAL", "Block", "Terminal", "Typed", "blocks", "typed_on", "write_files")

DOCS: Final = Path(__file__).parents[2] / "docs"
PYTEST: Final = ("pytest", "-p", "no:cacheprovider", "-p", "no:hypothesispytest")
"""The tests of a page use no Hypothesis, whose plugin takes more than a third of the processor time of such a run."""
_BLOCK: Final = re.compile(r'^```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)
TUTORIAL: Final = ("first-application.md", "tutorial/reply-delay-rules.md", "tutorial/failover-console-tables.md")
"""The pages of the tutorial, in order. Each continues with the files of the one before."""
_SETTING: Final = re.compile(r"[A-Z_]+=")
_WAITS: Final = ("Listening on ", "The console is on ", "Landing ", "AMQ8708: ")
"""The begin of a line after which a command waits for Ctrl-C."""
_MESSAGE_ID: Final = re.compile(r"414d[0-9a-f]{44}")
_MESSAGE_ID_OF_A_PAGE: Final = re.compile(r"414d[0-9a-f]*(?:\.\.\.)?|(?<=\.\.)[0-9a-f]{12}\b")
_ANY_TEXT: Final = {
    r"\.\.\.": ".*",
    r"414d[0-9a-f]{44}": "414d[0-9a-f]{44}",
    r"(?<=[^.]\.\.)[0-9a-f]{12}\b": "[0-9a-f]{12}",
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d",
    r"\d\d:\d\d:\d\d\.\d{3}": r"\d\d:\d\d:\d\d\.\d{3}",
}
"""The parts of a shown text that stand for others, and the pattern of the others: three dots, a MsgId, and times."""
_PROMPT: Final = "QM1> "


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


def write_files(page: str, folder: Path) -> None:
    """Write each block with a title to the file of that name."""
    for block in blocks(page):
        if block.title:
            (folder / block.title).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.title).write_text(block.text)


class Typed(Struct, frozen=True):
    """A line of a console block, and the text that the page shows below it."""

    line: str
    shown: str
    #: The lines that the reader types at the prompt of the command.
    answers: str = ""

    def is_shown_by(self, printed: str) -> bool:
        """Return whether the page shows this output. Three dots, a MsgId and a time stand for others."""
        parts = re.split("|".join(f"({part})" for part in _ANY_TEXT), self.shown.strip())
        patterns = [*_ANY_TEXT.values()]
        size = 1 + len(patterns)  # a text, and a group for each kind of part
        expected = "".join(
            re.escape(part) if at % size == 0 else patterns[at % size - 1] for at, part in enumerate(parts) if part is not None
        )
        return not self.shown or re.fullmatch(expected, printed.strip(), re.DOTALL) is not None


def typed_on(page: str) -> list[Typed]:
    """Every line of the console blocks of a page."""
    lines = [
        typed.partition("\n")
        for block in blocks(page)
        if block.language == "console"
        for typed in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]
    ]
    return [_typed(line, shown.splitlines(keepends=True)) for line, _, shown in lines]


def _typed(line: str, below: list[str]) -> Typed:
    answers = [each.removeprefix(_PROMPT) for each in below if each.startswith(_PROMPT)]
    return Typed(line, "".join(each for each in below if not each.startswith(_PROMPT)), "".join(answers))


class _Screen(io.TextIOWrapper):
    """Keeps what a command prints. If a command waits for Ctrl-C, the screen sends it, once."""

    def __init__(self, *, interrupts: bool) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)
        self._interrupts = interrupts

    def write(self, text: str) -> int:
        """Write the text."""
        if self._interrupts and text.startswith(_WAITS):
            self._interrupts = False
            signal.raise_signal(signal.SIGINT)
        return super().write(text)

    def text(self) -> str:
        """Return everything."""
        self.seek(0)
        return self.read()


class Terminal:
    """Types lines in a folder, which must be the current folder. `mqflow` runs in this process, `python` in another.

    If messages were put, the next `mqflow run` ends when it has handled as many. Any other ends as soon as it listens. A MsgId
    in a line is an example: it stands for the last MsgId that a line has printed. With `python`, the executable of another
    environment, everything runs there.
    """

    def __init__(self, folder: Path, python: Path | None = None) -> None:
        self._folder = folder
        self._python = python
        self._exported: dict[str, str] = {}
        self._message_id = ""
        #: The bodies of `mqflow put` that no application has had yet.
        self._put = 0

    def type(self, line: str, answers: str = "") -> tuple[int, str]:
        """Run a line. Return its exit code and its output; after a failure with its notes and errors."""
        line = _MESSAGE_ID_OF_A_PAGE.sub(lambda found: self._message_id[-12 if len(found[0]) == 12 else 0 :], line)
        if line.startswith("echo "):
            echo, _, line = line.partition(" | ")
            answers = f"{shlex.split(echo)[1]}\n"
        code, printed = self._run(shlex.split(line, comments=True), answers.encode())
        self._message_id = [self._message_id, *_MESSAGE_ID.findall(printed)][-1]
        return code, printed

    def _run(self, words: list[str], typed: bytes) -> tuple[int, str]:
        if words[0] == "export":
            self._exported |= dict(word.split("=", 1) for word in words[1:])
            return 0, ""
        settings = dict(word.split("=", 1) for word in words if _SETTING.match(word))
        program, *arguments = words[len(settings) :]
        python = self._python or Path(sys.executable)
        path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"  # as after `. .venv/bin/activate`
        with patch.dict(os.environ, self._exported | settings | {"PATH": path}):
            if program == "mqflow":
                return self._mqflow(arguments, typed)
            return _process([str(python), *{"python": [], "pytest": ["-m", *PYTEST]}[program], *arguments], self._folder)

    def _mqflow(self, arguments: list[str], typed: bytes) -> tuple[int, str]:
        if "<" in arguments:
            arguments, (_, file) = arguments[:-2], arguments[-2:]
            typed = (self._folder / file).read_bytes()
        interrupts = "--once" not in arguments and (arguments[0] != "dlq" or b"WAIT(YES)" in typed)
        match arguments[0]:
            case "run" if self._put:
                arguments = [*arguments, "--recycle-after", str(self._put)]
                interrupts, self._put = False, 0
            case "get" | "land":
                self._put = 0
            case "console":  # the port of the page may be in use
                arguments = [*arguments, "--http", "0"]
            case "run" if "--http" in arguments:
                arguments[arguments.index("--http") + 1] = "0"
            case _:
                pass
        if self._python or arguments[0] == "standin":  # `standin` becomes another program
            command = [str(self._python or sys.executable), "-m", "mqflow", *arguments]
            code, printed = _process(command, self._folder, typed, interrupts=interrupts)
        else:
            code, printed = _here(arguments, self._folder, typed, interrupts=interrupts)
        if arguments[0] == "put" and code == 0:
            self._put += int(printed) if "--jsonl" in arguments else len(printed.splitlines())
        return code, printed


def _here(arguments: list[str], folder: Path, typed: bytes, *, interrupts: bool) -> tuple[int, str]:
    """Run a command of mqflow in this process."""
    screens = _Screen(interrupts=interrupts), _Screen(interrupts=interrupts)
    stdin = io.TextIOWrapper(io.BytesIO(typed))
    code = 0
    with redirect_stdout(screens[0]), redirect_stderr(screens[1]), patch.object(sys, "stdin", stdin), imports_of(folder):
        try:
            main(arguments)
        except SystemExit as ended:
            code = int(ended.code or 0)
    printed, notes = (screen.text() for screen in screens)
    return code, printed if code == 0 else printed + notes


def _process(command: list[str], folder: Path, typed: bytes = b"", *, interrupts: bool = False) -> tuple[int, str]:
    """Run a command in the folder. A command that waits for Ctrl-C gets it."""
    with tempfile.TemporaryFile() as stdin:
        stdin.write(typed)
        stdin.seek(0)
        process = subprocess.Popen(
            command, cwd=folder, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )  # fmt: skip
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        notes = ""
        for line in process.stderr:
            notes += line
            if interrupts and line.startswith(_WAITS):
                interrupts = False
                process.send_signal(signal.SIGINT)
        printed = process.stdout.read()
    return process.returncode, printed if process.returncode == 0 else printed + notes
