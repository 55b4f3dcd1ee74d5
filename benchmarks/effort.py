"""The size of a measurement: the arguments that all commands share, and the command that prints the tables of a module."""

import argparse
import sys
from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from benchmarks.machine import wait_for_idle
from benchmarks.samples import Pairs, Sample, interleaved
from benchmarks.tables import Table, markdown

__all__ = ("Effort", "arguments", "effort_of", "print_tables")


class Effort(Struct, frozen=True, kw_only=True):
    """The size of the measurement for each figure."""

    #: The number of pairs of candidate and baseline.
    pairs: int = 5
    #: The number of new processes.
    processes: int = 7
    #: The fraction of the messages of a full sample.
    share: float = 1.0
    #: The longest wait for an idle machine before each comparison, in seconds.
    patience_s: float = 30.0
    #: Only comparisons with this text in their name are measured, by a module that can leave some out.
    only: str = ""

    def scaled(self, messages: int, *, least: int = 1) -> int:
        """Return the part of this number of messages, as a multiple of `least`."""
        return max(1, round(messages * self.share / least)) * least

    def say(self, text: str) -> None:
        """Tell on the standard error output which measurement begins."""
        print(f"measuring {text}", file=sys.stderr, flush=True)

    def compared(self, text: str, candidate: Callable[[], Sample], baseline: Callable[[], Sample]) -> Pairs:
        """Tell which measurement begins, wait for an idle machine, and return the pairs of candidate and baseline."""
        self.say(text)
        busy = wait_for_idle(self.patience_s)
        return replace(interleaved(candidate, baseline, self.pairs), busy=busy)


def arguments(program: str, about: str | None) -> argparse.ArgumentParser:
    """Return a parser of the arguments of an effort."""
    parser = argparse.ArgumentParser(prog=program, description=about)
    parser.add_argument("--pairs", type=int, default=5, help="pairs of candidate and baseline (5)")
    parser.add_argument("--processes", type=int, default=7, help="fresh processes for each figure of a process (7)")
    parser.add_argument("--share", type=float, default=1.0, help="part of the messages of a full sample (1.0)")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds to wait for an idle machine, each time (30)")
    parser.add_argument("--only", default="", metavar="TEXT", help="of goals 1 to 4, only comparisons with this in their name")
    return parser


def effort_of(given: argparse.Namespace) -> Effort:
    """Return the effort of the parsed arguments."""
    return Effort(pairs=given.pairs, processes=given.processes, share=given.share, patience_s=given.patience, only=given.only)


def print_tables(tables: Callable[[Effort], Iterator[Table]], program: str, about: str | None, given: list[str]) -> int:
    """Measure with the effort that the arguments give, and print the tables."""
    for table in tables(effort_of(arguments(program, about).parse_args(given))):
        print("\n".join(markdown(table)), flush=True)
    return 0
