"""ibmmq and pymqi for tests: ibmmq if it is installed, pymqi built from its source against our headers, once.

The build is kept in `.cache`, by version, Python and a digest of the headers, for later runs and the other workers of this run.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from fcntl import LOCK_EX, flock
from functools import cache
from pathlib import Path

import pytest

from mqflow.standin.library.development_kit import write_kit
from mqflow.standin.library.shared_library import can_load

__all__ = ("PACKAGES", "ROOT", "folder_of", "import_here")

ROOT = Path(__file__).parents[1]
PACKAGES = ("ibmmq", "pymqi")
_PYMQI = "pymqi==1.12.13"
_CACHE = ROOT / ".cache" / "pymqi"


def folder_of(package: str) -> list[str]:
    """Return the folder for the path of a process that imports the package; skip the test if the package cannot be made."""
    if why := can_load():
        pytest.skip(why)
    if package == "pymqi":
        return [str(_built_pymqi())]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    return []


def import_here(package: str) -> None:
    """Put the package on the path of this process. The stand-in library must be installed before the import."""
    for folder in folder_of(package):
        if folder not in sys.path:
            sys.path.append(folder)


@cache
def _built_pymqi() -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc, and pymqi comes as source only")
    _CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_CACHE) as scratch, (_CACHE / "lock").open("w") as lock:
        kit = Path(scratch) / "kit"
        write_kit(kit)
        folder = _CACHE / f"{_PYMQI}-{sys.implementation.cache_tag}-{_digest(kit)}"
        flock(lock, LOCK_EX)  # another worker may be building it
        if not folder.is_dir():
            built = Path(scratch) / "built"
            _build(kit, built)
            built.rename(folder)
    return folder


def _digest(kit: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(kit.rglob("*.[hs]*")):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def _build(kit: Path, folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-cache-dir", "--no-binary", "pymqi"]
    done = subprocess.run(
        [*command, "--target", str(folder), _PYMQI],
        env=os.environ | {"MQ_FILE_PATH": str(kit)},
        capture_output=True,
        text=True,
        check=False,
    )
    if "No matching distribution" in done.stderr or "Could not find a version" in done.stderr:
        pytest.skip("there is no package index to get the source of pymqi from")
    assert done.returncode == 0, done.stderr
