"""The page docs/promises.md, made from promises.toml, the totals of the campaigns and the verdicts of the zoo.

`python -m tests.campaign promises` writes it. Figures of campaigns are not written by hand.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import shorten
from typing import Final

import msgspec
from msgspec import Struct

from tests.campaign import results, zoo
from tests.campaign.campaigns import CAMPAIGNS
from tests.campaign.results import Totals, percentile
from tests.planting import results as planting

__all__ = ("PAGE", "Peer", "Promise", "page", "read")

PAGE: Final = Path(__file__).parents[2] / "docs" / "promises.md"
_TABLE: Final = Path(__file__).with_name("promises.toml")
# A list of numbers, or of pairs of a number and the same text.
_LIST: Final = re.compile(r"(\(\d+, ('[^']*')\)|\b\d+)(?:, (?:\(\d+, \2\)|\d+)){3,}")
_HEAD: Final = """\
# Promises

This page lists the promises of mqflow for each fault, the test of each promise, and the results so far. A campaign is a test
that runs with many seeds, and continues where its last run ended: `python -m tests.campaign kills --minutes 10`. The figures
are totals of campaigns. An example is "1,400 of 100,000 kills, 0 wrong". The goal of this campaign is 100,000 kills. It has
made 1,400 kills so far, and no [finding](#findings) is open. A finding is a run that broke the promise. It counts as wrong
until the code is corrected. `python -m tests.campaign` prints all totals, and the command that repeats each finding.

`python -m tests.campaign promises` writes this page from tables, and a test compares the page with the tables. The campaigns
ran on a machine with two processors that was busy with other work.

The *owner* is the process that runs an [embedded queue manager](embedded-queue-manager.md) and holds the lock of its folder. A
standby is a second process, which waits for this lock. A *lander* is the process that moves messages from queues into a
[journal](landing.md), a folder of Parquet files (`mqflow land`).
"""
_TAIL: Final = """\

## Not promised

- **Several queue managers.** There is no replica on another machine and no cluster. The standby shares the disk of the owner.
- **A disk that reports a sync without doing it.** The tests assume that a reported sync is done, and that a sector of 512
  bytes is written whole. If a disk breaks this rule, a power cut can also lose a change
  that got its answer. The next start does not always notice the loss.
- **Non-persistent messages.** They are lost in a restart. They are never doubled.
- **A stopped owner.** A standby cannot take over from an owner that is only stopped (SIGSTOP), because the stopped owner still
  holds the lock of the folder. An operator must kill the stopped owner.
- **A very slow peer.** A peer counts as dead if it has begun a frame and sends fewer than 256 bytes of the frame in 4 s.
- **Network disks.** No shared disk on a network was tested. mqflow refuses such a disk if its locks do not exclude other
  processes.
- **IBM MQ itself.** None of these tests proves anything about IBM MQ.
- **Every switch of threads.** The simulation switches threads only in the functions of `mqflow.world` in which a thread waits.
"""


class Promise(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row: what breaks, what holds, how it is tested, and what is not promised."""

    fault: str
    promise: str
    tested: str
    campaign: tuple[str, ...] = ()
    #: The command of a promise without a campaign.
    check: str = ""
    #: The result of the last long run of that command; the totals of a campaign stand in results.json instead.
    earlier: str = ""
    excluded: str = msgspec.field(name="except")


class Peer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The promises of another product, by its own documentation."""

    name: str
    promise: str
    sources: tuple[str, ...]
    beside: str


class _Table(Struct, frozen=True):
    promise: tuple[Promise, ...]
    peer: tuple[Peer, ...]


def read() -> tuple[tuple[Promise, ...], tuple[Peer, ...]]:
    """Return the rows of promises.toml."""
    table = msgspec.toml.decode(_TABLE.read_text("utf-8"), type=_Table)
    return table.promise, table.peer


def page() -> str:
    """Return docs/promises.md."""
    promises, peers = read()
    totals = results.read()
    head = (_HEAD, *_promises(promises, totals))
    return "\n".join((*head, *_times(totals), *_findings(totals), *_peers(peers), _TAIL, *_zoo(), *_planting())) + "\n"


def _promises(promises: tuple[Promise, ...], totals: dict[str, Totals]) -> Iterator[str]:
    yield "| fault | promise | test | last figure | date | not promised |"
    yield "|---|---|---|---|---|---|"
    for each in promises:
        mine = [(name, totals.get(name, Totals())) for name in each.campaign]
        figures = "<br>".join(_figure(name, each) for name, each in mine) or each.earlier or "in each run of the tests"
        dates = "<br>".join(total.date or "never" for _, total in mine)
        how = each.tested + (f" `{each.check}`" if each.check else "")
        yield f"| {each.fault} | {each.promise} | {how} | {figures} | {dates} | {each.excluded} |"


def _figure(name: str, totals: Totals) -> str:
    campaign = CAMPAIGNS[name]
    wrong = f"**{totals.open_findings} findings**" if totals.open_findings else "0 wrong"
    return f"`{name}`: {totals.done:,} of {campaign.target:,} {campaign.unit}, {wrong}"


def _times(totals: dict[str, Totals]) -> Iterator[str]:
    rows = [
        (campaign, name, times)
        for campaign in CAMPAIGNS.values()
        for name, times in totals.get(campaign.name, Totals()).times_ms.items()
        if times
    ]
    if not rows:
        return
    yield ""
    yield "## Times"
    yield ""
    yield '"An application back" is the time until an application is connected again. The machine counts as busy if its load'
    yield "average (one minute) was above the number of its processors when the campaign began. The promised times hold only"
    yield "for a machine that is not busy, so a row of a busy machine has no promised time."
    if all(name.endswith("busy machine") for _, name, _ in rows):
        yield "So far every campaign ran on a busy machine, so these promises have no figure yet."

    yield ""
    yield "| | count | p50, ms | p99, ms | most, ms | promised |"
    yield "|---|---:|---:|---:|---:|---|"
    for campaign, name, times in rows:
        bounds = [f"p{each.percent:g} {each.ms:g} ms" for each in campaign.bounds if each.time == name]
        spread = " | ".join(f"{percentile(times, percent):,}" for percent in (50, 99, 100))
        yield f"| {name} | {sum(times.values()):,} | {spread} | {''.join(bounds)} |"


def _findings(totals: dict[str, Totals]) -> Iterator[str]:
    rows = [(name, found) for name, each in totals.items() for found in each.findings]
    if not rows:
        return
    yield ""
    yield "## Findings"
    yield ""
    yield "Each row is a run that broke its promise, with the day and the commit of that run. If the column *mended* has a day,"
    yield "the code was corrected on that day. The finding then no longer counts as wrong in the first table. `...` stands for"
    yield "the rest of a long list or text."
    yield ""
    yield "| campaign | seed | finding | found | mended |"
    yield "|---|---:|---|---|---|"
    for name, found in rows:
        says = shorten(_LIST.sub(r"\1, ...", found.says), 200, placeholder=" ...").replace("|", "\\|")
        yield f"| {name} | {found.seed} | {says} | {found.date}, {found.revision} | {found.mended or 'no'} |"


def _peers(peers: tuple[Peer, ...]) -> Iterator[str]:
    yield ""
    yield "## The promises of other products"
    yield ""
    yield "These promises come from the documentation of each product, read in November 2026. The wording is ours:"
    yield ""
    yield "| product | promise | compared with mqflow |"
    yield "|---|---|---|"
    for each in peers:
        links = ", ".join(f"[{number}]({url})" for number, url in enumerate(each.sources, start=1))
        yield f"| {each.name} | {each.promise} (Sources: {links}) | {each.beside} |"


def _zoo() -> Iterator[str]:
    """Yield the matrix of the planted defects and the campaigns."""
    every, verdicts = zoo.plants(), zoo.verdicts()
    judged = {each.says: verdict for each in every if (verdict := verdicts.get(each.says)) and verdict.digest == each.digest}
    names = [name for name in CAMPAIGNS if any(name in each.by for each in every)]
    found = {name: sum(name in verdict.found_by for verdict in judged.values()) for name in names}
    caught = sum(bool(verdict.found_by) for verdict in judged.values())
    planted = "All" if len(judged) == len(every) else str(len(judged))
    noticed = "each planted defect" if caught == len(judged) else f"{caught} of the planted defects"
    yield "## Planted defects"
    yield ""
    yield "A test that never failed proves nothing. `python -m tests.campaign zoo` plants defects in a copy of the sources,"
    yield f"and runs the campaigns with few seeds. The list has {len(every)} defects. {planted} of them were planted, and"
    yield f"at least one campaign found {noticed}. In the table, `+` means that the campaign found the"
    yield "defect, and `-` that it did not. If a cell is empty, the campaign was not tried. The last row counts the defects"
    yield "that each campaign found."
    yield ""
    yield f"| defect | {' | '.join(names)} |"
    yield f"|---|{'---|' * len(names)}"
    for each in every:
        verdict = judged.get(each.says)
        cells = (
            "" if verdict is None else "+" if name in verdict.found_by else "-" if name in verdict.missed_by else ""
            for name in names
        )
        yield f"| {each.says} | {' | '.join(cells)} |"
    yield f"| **finds** | {' | '.join(str(found[name]) for name in names)} |"


def _planting() -> Iterator[str]:
    """Yield the counts of the single defects that the tests notice."""
    yield ""
    yield "## Single defects"
    yield ""
    yield "`python -m tests.planting` changes one random place in the sources at a time: a comparison, a number, a condition,"
    yield "a statement or the order of two arguments. Then it runs the tests that reach the line. The tests notice the defect"
    yield "if a test fails with the defect and passes without it."
    yield from _sample(planting.RESULTS, planting.earlier_sentences())
    if not planting.MUTANTS.exists():
        return
    yield ""
    yield "A second sample has only code that makes decisions (`python -m tests.planting --mutants`): policy, the rules and the"
    yield "calls of the embedded queue manager, and the listener."
    yield from _sample(planting.MUTANTS)


def _sample(file: Path, earlier: Iterable[str] = ()) -> Iterator[str]:
    """Yield the counts of one sample of defects."""
    counted = planting.figures(planting.read(file), planting.equivalents())
    yield from planting.sentences(counted[""])
    yield from earlier
    yield ""
    yield "| package | planted | without effect | noticed at first | the same, after the new tests |"
    yield "|---|---:|---:|---:|---:|"
    for package, each in counted.items():
        share = f"{each.noticed_at_first} ({each.percent_at_first:.0f} %) | {each.noticed} ({each.percent:.0f} %)"
        yield f"| {package or '**all**'} | {each.planted} | {each.equivalent} | {share} |"
