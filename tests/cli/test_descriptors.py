"""A process that serves connections may have as many files open as the system lets it."""

import resource
import subprocess
import sys

_LIMITED = """
import resource
from mqflow.cli.descriptors import allow_all_descriptors
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
allow_all_descriptors()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


def test_the_limit_of_open_files_is_raised_to_what_the_system_allows() -> None:
    said = subprocess.run([sys.executable, "-c", _LIMITED], capture_output=True, text=True, check=True).stdout

    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] == int(said)
