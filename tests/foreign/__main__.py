"""Runs the checks of `suites` by name: `python -m tests.foreign [CHECK ...]`."""

import sys

from tests.foreign.suites import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
