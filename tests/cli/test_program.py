"""The program `mqflow`: the garbage collector does not look at imported modules again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import gc, sys
from mqflow.cli.__main__ import program
frozen = gc.get_freeze_count()
sys.argv = ["mqflow", *sys.argv[1:]]
try:
    program()
finally:
    import mqflow.cli.main as imported
    print(gc.isenabled(), gc.get_freeze_count() > frozen, any(each is imported.__dict__ for each in gc.get_objects()))
"""


@pytest.mark.parametrize(
    ("arguments", "enabled"),
    [(["put", "--help"], True), (["--help"], False), (["nothing"], False)],
    ids=["a command", "no command", "an unknown command"],
)
def test_imported_modules_are_kept_out_of_collections_which_are_on_again_in_a_command(
    arguments: list[str], *, enabled: bool
) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, *arguments], check=False, capture_output=True, text=True)

    assert f"{enabled} True False" == done.stdout.splitlines()[-1]


def test_the_modules_of_a_command_are_kept_out_of_collections_too() -> None:
    script = SCRIPT.replace("mqflow.cli.main", "mqflow.cli.messages.put")

    done = subprocess.run([sys.executable, "-c", script, "put", "--help"], check=True, capture_output=True, text=True)

    assert "True True False" == done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("reason 2085 >/dev/full", 1, "mqflow: No space left on device.\n"),
        ("reason 2085 >&-", 1, "mqflow: Bad file descriptor.\n"),
        ("put Q <&-", 1, "mqflow: Bad file descriptor.\n"),
        ("mqsc <&-", 1, "mqflow: Bad file descriptor.\n"),
        ("why 41 2>/dev/full", 1, ""),
        ("put 2>/dev/full", 2, ""),
        ("get Q 2>&-", 2, ""),
    ],
)
def test_a_stream_that_is_full_or_closed_keeps_the_exit_code(tmp_path: Path, command: str, code: int, said: str) -> None:
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    words = ["/bin/sh", "-c", f'exec "$0" -m mqflow {command}', sys.executable]

    done = subprocess.run(words, cwd=tmp_path, env=buffered, check=False, capture_output=True, text=True)

    assert (code, said) == (done.returncode, done.stderr)
