"""Checks every model with larger constants, and prints the time. Leaves liveness out if its check takes hours.

`python -m tests.models_tla` needs some minutes and 3 GB; `--only NAME` checks one.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from mqflow.cli.text.terminal import note, show_table
from tests.models_tla.models import ALL, Model, check


def _row(model: Model, *, lively: bool) -> tuple[tuple[str, ...], bool]:
    note(f"{model.module}: {model.constants | model.large} ...")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = check(model, Path(folder), large=True, lively=lively, limit_s=3600)
    if not found.holds:
        note(found.said)
    took = f"{time.monotonic() - began:.0f}"
    return (
        model.module,
        f"{found.states:,}",
        took,
        "yes" if lively else "no",
        "holds" if found.holds else "FAILS",
    ), found.holds


def main(arguments: list[str]) -> int:
    """Check the models, and print the results."""
    parser = argparse.ArgumentParser(prog="python -m tests.models_tla", description=__doc__)
    parser.add_argument("--only", choices=[model.module for model in ALL])
    parser.add_argument("--lively", action="store_true", help="liveness too")
    given = parser.parse_args(arguments)
    chosen = [model for model in ALL if given.only in {None, model.module}]
    rows, hold = zip(*(_row(model, lively=given.lively) for model in chosen), strict=True)
    show_table(("model", "states", "s", "liveness", ""), rows, numbers=frozenset({1, 2}))
    return not all(hold)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
