"""The program `mqflow`: the garbage collector does not look at imported modules again."""

import subprocess
import sys

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
