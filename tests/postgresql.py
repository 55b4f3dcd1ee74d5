"""A PostgreSQL server for the tests, on a socket in a temporary folder, if the programs are installed."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

__all__ = ("own_server",)

# Debian does not put them on the path, because several versions may be installed.
_PLACES = (*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True), Path("/usr/local/bin"), Path("/usr/bin"))


@contextmanager
def own_server() -> Iterator[str]:
    """Return the URL of a server that runs for the duration of the block; skip the test if it cannot start."""
    found = shutil.which("initdb", path=os.pathsep.join([os.environ.get("PATH", ""), *map(str, _PLACES)]))
    if found is None or find_spec("psycopg") is None:
        pytest.skip("PostgreSQL is not installed, or its driver psycopg is not")
    user = "postgres" if os.getuid() == 0 else None  # it refuses to run as root
    folder = Path(tempfile.mkdtemp(prefix="inbox-"))
    if user:
        shutil.chown(folder, user)
    control = [str(Path(found).with_name("pg_ctl")), "--pgdata", str(folder / "data"), "--silent", "--wait"]
    try:
        _run(found, "--pgdata", str(folder / "data"), "--auth=trust", "--username=postgres", "--no-sync", user=user)
        options = f"-F -k {folder} -c listen_addresses=''"
        _run(*control, "--log", str(folder / "log"), "--options", options, "start", user=user)
        try:
            yield f"postgresql+psycopg://postgres@/postgres?host={folder}"
        finally:
            _run(*control, "--mode=immediate", "stop", user=user)
    finally:
        shutil.rmtree(folder)


def _run(*command: str, user: str | None) -> None:
    # To a file, not a pipe: the server inherits it, and a pipe would be open for as long as it runs.
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(command, user=user, stdout=said, stderr=said, check=False, cwd="/")
        said.seek(0)
        assert done.returncode == 0, said.read().decode(errors="replace")
