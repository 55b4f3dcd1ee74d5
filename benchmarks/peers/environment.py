"""The virtual environment of the peers: made once in a folder that git ignores, and made again when the requirements change."""

import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

__all__ = ("FOLDER", "python_of_the_peers")

_ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = _ROOT / ".bench-peers"
_REQUIREMENTS: Final = Path(__file__).with_name("requirements.txt")


def python_of_the_peers() -> Path:
    """Return the interpreter of the environment; make the environment if it does not have the present requirements."""
    python, installed = FOLDER / "venv" / "bin" / "python", FOLDER / "installed.txt"
    wanted = _REQUIREMENTS.read_text()
    if not installed.exists() or installed.read_text() != wanted:
        venv.create(FOLDER / "venv", clear=True, with_pip=True)
        words = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(_REQUIREMENTS)]
        subprocess.run(words, check=True, stdout=sys.stderr)
        installed.write_text(wanted)
    return python
