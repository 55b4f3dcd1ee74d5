"""Long campaigns: `python -m tests.campaign NAME --minutes M` continues where the last run ended, and adds up its totals.

Without a name, the command prints a table of all campaigns. `--seed S` repeats one seed, and adds nothing to the totals; if the
seed passes, its findings are marked as mended. `--small` runs the small form of the tests. `zoo` plants the defects of zoo.toml
one at a time, and notes which campaigns find them. `promises` writes docs/promises.md.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence

from mqflow.cli.text.terminal import show_table
from tests.campaign import promises, results, zoo
from tests.campaign.campaigns import CAMPAIGNS, Campaign
from tests.campaign.pieces import Piece
from tests.campaign.results import Totals, percentile
from tests.campaign.running import one, run, small, today
from tests.leaving import end_by_exception

_WRITE_EVERY_S = 10.0


def main(arguments: Sequence[str]) -> int:
    """Run what the arguments ask for. Return 1 after a finding."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("name", nargs="?", choices=[*CAMPAIGNS, "zoo", "promises"])
    parser.add_argument("--minutes", type=float, default=1.0, help="begin no seed after so long (1)")
    parser.add_argument("--workers", type=int, default=1, help="processes that run seeds side by side (1)")
    parser.add_argument("--seed", type=int, help="repeat this seed")
    parser.add_argument("--small", action="store_true", help="run the small form of the tests")
    parser.add_argument("--only", nargs="*", default=(), help="with zoo: these defects")
    given = parser.parse_args(arguments)
    end_by_exception()
    if given.name is None:
        _show(results.read())
        return 0
    if given.name == "zoo":
        return zoo.run(given.minutes, given.only)
    if given.name == "promises":
        promises.PAGE.write_text(promises.page(), "utf-8")
        return 0
    campaign = CAMPAIGNS[given.name]
    if given.seed is not None:
        return _repeat(campaign, given.seed)
    return _told(campaign, small(campaign)) if given.small else _go_on(campaign, given.minutes, given.workers)


def _go_on(campaign: Campaign, minutes: float, workers: int) -> int:
    totals = results.read().get(campaign.name, Totals())
    before, wrote_s = totals.done, totals.took_s

    def pieces() -> Iterable[tuple[int, Piece]]:
        nonlocal wrote_s
        for each in run(campaign, totals, minutes, workers):
            yield each
            if totals.took_s - wrote_s > _WRITE_EVERY_S:
                wrote_s = totals.took_s
                results.keep(campaign.name, totals)

    try:
        found = _told(campaign, pieces())
    finally:
        results.keep(campaign.name, totals)
    sys.stdout.write(f"{totals.done - before:,} {campaign.unit} more: {totals.done:,} of {campaign.target:,}\n")
    return found


def _repeat(campaign: Campaign, seed: int) -> int:
    found = _told(campaign, [(seed, one(campaign.name, seed))])
    totals = results.read().get(campaign.name)
    if not found and totals is not None:
        totals.passed(seed, today())
        results.keep(campaign.name, totals)
    return found


def _told(campaign: Campaign, pieces: Iterable[tuple[int, Piece]]) -> int:
    """Print each finding with the command that repeats it. Return 1 if there is one."""
    found = 0
    for seed, piece in pieces:
        for finding in piece.findings[:5]:
            found = 1
            sys.stdout.write(f"{finding}\n  python -m tests.campaign {campaign.name} --seed {seed}\n")
            sys.stdout.flush()
    return found


def _show(every: dict[str, Totals]) -> None:
    rows = []
    for campaign in CAMPAIGNS.values():
        totals = every.get(campaign.name, Totals())
        left = max(0, campaign.target - totals.done)
        hours = f"{left / totals.rate / 60:.1f}" if totals.rate else "?"
        rows.append(
            (
                campaign.name,
                campaign.goal,
                f"{totals.done:,} of {campaign.target:,} {campaign.unit}",
                f"{totals.rate:,.0f}",
                hours,
                totals.date or "never",
                f"{totals.open_findings}",
            )
        )
    show_table(("campaign", "goal", "done", "a minute", "hours left", "last", "findings"), rows, numbers=frozenset({3, 4, 6}))
    for campaign in CAMPAIGNS.values():
        for bound in campaign.bounds:
            times = every.get(campaign.name, Totals()).times_ms.get(bound.time)
            if times:
                sys.stdout.write(
                    f"{bound.time}: p{bound.percent:g} {percentile(times, bound.percent)} ms of at most {bound.ms:g} ms\n"
                )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
