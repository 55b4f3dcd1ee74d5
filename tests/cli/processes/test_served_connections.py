"""A process that serves connections can open as many files as the system allows."""

import resource
import subprocess
import sys

import pytest

from mqflow.cli.processes.served_connections import too_few_open_files

_LIMITED = """
import resource
from mqflow.cli.processes.served_connections import raise_open_file_limit
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
raise_open_file_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


def test_the_limit_of_open_files_is_raised_to_the_hard_limit() -> None:
    printed = subprocess.run([sys.executable, "-c", _LIMITED], capture_output=True, text=True, check=True).stdout

    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] == int(printed)


@pytest.mark.parametrize(
    ("allowed", "wanted", "room"),
    [(1_024, 2_048, "320"), (63, 1, "0"), (66, 1, "0"), (1_023, 320, "319"), (69, 2, "1"), (6_207, 2_048, "2,047")],
)
def test_a_low_limit_of_open_files_is_a_warning_with_the_possible_connections(allowed: int, wanted: int, room: str) -> None:
    assert (
        f"The system allows {allowed:,} open files. That is enough for {room} connections, not for {wanted:,}: "
        "raise the hard limit (ulimit -Hn, LimitNOFILE), or lower --max-connections."
    ) == too_few_open_files(allowed, wanted)


@pytest.mark.parametrize(("allowed", "wanted"), [(67, 1), (6_208, 2_048), (None, 1_000_000)])
def test_a_sufficient_limit_gives_no_warning(allowed: int | None, wanted: int) -> None:
    assert not too_few_open_files(allowed, wanted)
