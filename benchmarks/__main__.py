"""`python -m benchmarks`: measure the budgets on this machine and write docs/performance.md."""

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.measurement import Effort, measure
from benchmarks.page import render, replaced

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"


def main(arguments: list[str]) -> int:
    """Measure the budgets, write the page and print its path."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--pairs", type=int, default=5, help="pairs of framework and raw loop (5)")
    parser.add_argument("--processes", type=int, default=7, help="fresh processes for each figure of a process (7)")
    parser.add_argument("--share", type=float, default=1.0, help="part of the messages of a full sample (1.0)")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds to wait for an idle machine, each time (30)")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write into")
    given = parser.parse_args(arguments)
    effort = Effort(pairs=given.pairs, processes=given.processes, share=given.share, patience_s=given.patience)
    measured = measure(effort, lambda text: print(f"measuring {text}", file=sys.stderr, flush=True))
    text = render(measured, datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))
    given.page.write_text(replaced(given.page.read_text(), text))
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
