"""A newcomer: installs the wheel into an empty environment, follows the tutorial, and creates an application.

It does so for each Python of this machine, with pip, and installs the command with uv and pipx if they are there.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from tests.docs.pages import TUTORIAL, Terminal
from tests.docs.scenes import problems_of

ROOT = Path(__file__).parents[2]
VERSIONS = ("3.11", "3.12", "3.13", "3.14", "3.14t")
"""The versions to look for; `t` is a build without the global lock. msgspec needs 3.14 for such a build."""

SOURCES = "pyenv and uv install each version, from python.org and GitHub; Debian has no version without the global lock"

pytestmark = [
    pytest.mark.skipif(os.environ.get("MQFLOW_FOREIGN") != "1", reason="it installs and clones: MQFLOW_FOREIGN=1 asks for it"),
    pytest.mark.timeout(3_600),
]


def pythons() -> dict[str, Path]:
    """Return the executables of the versions that this machine has: on the path, or installed by pyenv or uv."""
    home = Path.home()
    folders = [*home.glob(".pyenv/versions/*/bin"), *home.glob(".local/share/uv/python/*/bin")]
    path = os.pathsep.join([os.environ["PATH"], *map(str, folders)])
    places = [Path(folder) / f"python{version}" for version in VERSIONS for folder in path.split(os.pathsep)]
    works = {place.name: place for place in reversed(places) if place.exists() and not said(place, "--version", check=False)}
    return dict(sorted(works.items()))


def said(*command: str | Path, folder: Path | None = None, check: bool = True) -> str:
    """Return what the command has printed after a failure, or an empty text."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    problem = f"{command}\n{done.stdout}\n{done.stderr}" if done.returncode else ""
    assert not check or not problem, problem
    return problem


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> str:
    [made] = WheelBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("wheel")), versions=["standard"])
    return made


@pytest.mark.parametrize("version", VERSIONS)
def test_the_tutorial_works_in_an_empty_folder(
    version: str, wheel: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = pythons().get(f"python{version}")
    if base is None:
        pytest.skip(f"there is no Python {version}: {SOURCES}")
    folder = tmp_path_factory.mktemp(f"py{version}")
    python = folder / ".venv/bin/python"
    said(base, "-m", "venv", folder / ".venv")
    said(python, "-m", "pip", "install", "--quiet", f"{wheel}[cli,console,journal]", "pytest")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    terminal = Terminal(folder, python)

    assert [] == [
        each for page in TUTORIAL for each in problems_of(page, terminal, skipped=("pip ", "uv ", "pipx ", "mqflow spark "))
    ]
    for kind, name in (("", "greeter"), ("--plugin", "acme-audit")):
        said(python, "-m", "mqflow", "init", *kind.split(), name)
        said(python, "-m", "pip", "install", "--quiet", "--find-links", "wheels", "-e", ".[test]", folder=folder / name)
        said(python, "-m", "pytest", "-q", folder=folder / name)


@pytest.mark.parametrize("command", [("uv", "tool", "install"), ("pipx", "install")], ids=["uv", "pipx"])
def test_the_command_is_installed_with(
    command: tuple[str, ...], wheel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"there is no {command[0]}")
    for name in ("UV_TOOL_DIR", "UV_TOOL_BIN_DIR", "PIPX_HOME", "PIPX_BIN_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))

    said(*command, f"{wheel}[cli]")

    [installed] = tmp_path.glob("*_BIN_DIR/mqflow")
    said(installed, "put", "SYSTEM.DEFAULT.LOCAL.QUEUE", "hello", "--url", "embedded::memory:?qmgr=QM1")
