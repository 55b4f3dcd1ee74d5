"""The blocks of the pages, and a terminal that types the lines of their console blocks."""

import io
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Final
from unittest.mock import patch

from msgspec import Struct

from mqflow.cli.main import main

__all__ = ("DOCS", "PYTEST", "Block", "Terminal", "Typed", "blocks", "typed_on", "write_files")

DOCS: Final = Path(__file__).parents[2] / "docs"
PYTEST: Final = ("pytest", "-p", "no:cacheprovider", "-p", "no:hypothesispytest")
"""The tests of a page use no Hypothesis, whose plugin takes more than a third of the processor time of such a run."""
_BLOCK: Final = re.compile(r'^```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)
_SETTING: Final = re.compile(r"[A-Z_]+=")
_WAITS: Final = ("Listening on ", "The console is on ")
"""The begin of a line after which a command waits for Ctrl-C."""


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

    def __str__(self) -> str:
        return self.line

    def is_shown_by(self, printed: str) -> bool:
        """Return whether the page shows this output. Three dots stand for any text."""
        expected = re.escape(self.shown.strip()).replace(r"\.\.\.", ".*")
        return not self.shown or re.fullmatch(expected, printed.strip(), re.DOTALL) is not None


def typed_on(page: str) -> list[Typed]:
    """Every line of the console blocks of a page."""
    lines = [
        typed.partition("\n")
        for block in blocks(page)
        if block.language == "console"
        for typed in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]
    ]
    return [Typed(line, shown) for line, _, shown in lines]


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

    If messages were put, the next `mqflow run` ends when it has handled as many. Any other ends as soon as it listens.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._exported: dict[str, str] = {}
        #: The bodies of `mqflow put` that no application has had yet.
        self._put = 0

    def type(self, line: str) -> tuple[int, str]:
        """Run a line. Return its exit code and its output; after a failure with its notes and errors."""
        words = shlex.split(line, comments=True)
        if words[0] == "export":
            self._exported |= dict(word.split("=", 1) for word in words[1:])
            return 0, ""
        settings = dict(word.split("=", 1) for word in words if _SETTING.match(word))
        program, *arguments = words[len(settings) :]
        with patch.dict(os.environ, self._exported | settings):
            if program == "mqflow":
                return self._mqflow(arguments)
            return _other({"python": [], "pytest": ["-m", *PYTEST]}[program], arguments, self._folder)

    def _mqflow(self, arguments: list[str]) -> tuple[int, str]:
        typed = b""
        if "<" in arguments:
            arguments, (_, file) = arguments[:-2], arguments[-2:]
            typed = (self._folder / file).read_bytes()
        screens = _Screen(interrupts=False), _Screen(interrupts=True)
        match arguments[0]:
            case "put":
                self._put += len(arguments) - 2
            case "run" if self._put:
                arguments, self._put = [*arguments, "--recycle-after", str(self._put)], 0
                screens = _Screen(interrupts=False), _Screen(interrupts=False)
            case "standin":  # it becomes another program
                return _other(["-m", "mqflow.cli"], arguments, self._folder)
            case "console":  # the port of the page may be in use
                arguments = [*arguments, "--http", "0"]
        stdin = io.TextIOWrapper(io.BytesIO(typed))
        with (
            redirect_stdout(screens[0]),
            redirect_stderr(screens[1]),
            patch.object(sys, "stdin", stdin),
            _imports_of(self._folder),
        ):
            try:
                main(arguments)
            except SystemExit as ended:
                code = int(ended.code or 0)
        printed, notes = (screen.text() for screen in screens)
        return code, printed if code == 0 else printed + notes


@contextmanager
def _imports_of(folder: Path) -> Iterator[None]:
    """Let the modules of the folder be imported in the block, and be forgotten after it."""
    with patch.object(sys, "path", list(sys.path)):
        yield
    for name, module in list(sys.modules.items()):
        if Path(getattr(module, "__file__", None) or "/").is_relative_to(folder):  # built-in modules have no file
            del sys.modules[name]


def _other(start: list[str], arguments: list[str], folder: Path) -> tuple[int, str]:
    """Run a Python program in the folder, as after `. .venv/bin/activate`."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, *start, *arguments],
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stdout if done.returncode == 0 else done.stdout + done.stderr
