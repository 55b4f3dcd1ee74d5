"""The small form of each campaign finds nothing; totals add up; a finding can be repeated; the page is made from the tables."""

from collections import Counter
from pathlib import Path

import pytest

from tests.campaign import promises, zoo
from tests.campaign.__main__ import main
from tests.campaign.campaigns import CAMPAIGNS, Campaign
from tests.campaign.parsers import PARSERS
from tests.campaign.pieces import Piece
from tests.campaign.results import FILE, Totals, keep, percentile, read
from tests.campaign.running import one, run, small
from tests.campaign.soaking import Held, grown
from tests.long import of_the_day

#: The tests of the other folders run these harnesses already, in sizes of their own.
_TESTED_ELSEWHERE = {"application", "bit-flips", "drains", "failovers", "journals", "kills", "model", "network", "simulation"}
ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(300)
@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", sorted(CAMPAIGNS.keys() - _TESTED_ELSEWHERE))
def test_the_small_form_of_a_campaign_finds_nothing(name: str) -> None:
    campaign = CAMPAIGNS[name]

    pieces = list(small(campaign, of_the_day(campaign.small, 3, name=name)))

    assert [] == [finding for _, piece in pieces for finding in piece.findings]
    assert all(piece.done for _, piece in pieces)


def failing(seed: int) -> Piece:
    if seed == 2:
        raise AssertionError("a message is lost")
    return Piece(done=3, counts={"kills": 3}, times_ms={"back": [0.4, 12.5]}, findings=["twice"] if seed == 3 else [])


@pytest.fixture
def campaign(monkeypatch: pytest.MonkeyPatch) -> Campaign:
    made = Campaign(name="kills", goal="R2", unit="kills", target=10, run=failing, small=range(4))
    monkeypatch.setitem(CAMPAIGNS, "kills", made)
    return made


def test_totals_add_up_over_runs(campaign: Campaign, tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    for seeds in (range(2), range(2, 4)):
        totals = read(file).get(campaign.name, Totals())
        for seed in seeds:
            totals.add(seed, one(campaign.name, seed), "abc", "2026-01-01")
        keep(campaign.name, totals, file)
        keep("drains", Totals(done=1), file)

    found = read(file)
    assert (9, {"kills": 9}, {"back": {1: 3, 13: 3}}) == (found["kills"].done, found["kills"].counts, found["kills"].times_ms)
    assert [(2, "AssertionError: a message is lost"), (3, "twice")] == [
        (each.seed, each.says) for each in found["kills"].findings
    ]
    assert 1 == found["drains"].done


def test_times_of_a_busy_machine_are_kept_apart(campaign: Campaign) -> None:
    totals = Totals()
    for busy in (True, False):
        totals.add(0, one(campaign.name, 0), "abc", "2026-01-01", busy=busy)

    assert {"back": {1: 1, 13: 1}, "back, on a busy machine": {1: 1, 13: 1}} == totals.times_ms


def test_a_seed_that_passes_again_is_mended_and_the_other_findings_stay_open(campaign: Campaign) -> None:
    totals = Totals()
    for seed in (2, 3):
        totals.add(seed, one(campaign.name, seed), "abc", "2026-01-01")

    totals.passed(3, "2026-01-02")

    assert ["", "2026-01-02"] == [each.mended for each in totals.findings]
    assert 1 == totals.open_findings


@pytest.mark.timeout(120)
def test_a_run_goes_on_with_the_first_seed_that_is_not_done() -> None:
    totals = Totals(next_seed=3, done=100)

    [(seed, piece)] = run(CAMPAIGNS["application"], totals, minutes=0, workers=1)

    assert (3, [], 4, 100 + piece.done) == (seed, piece.findings, totals.next_seed, totals.done)


@pytest.mark.usefixtures("campaign")
def test_a_finding_is_printed_with_the_command_that_repeats_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.campaign.__main__.end_by_exception", lambda: None)

    assert 1 == main(["kills", "--seed", "2"])
    assert "AssertionError: a message is lost\n  python -m tests.campaign kills --seed 2\n" == capsys.readouterr().out


@pytest.mark.parametrize(
    ("percent", "expected"), [(1, 1), (50, 1), (99, 20), (100, 300)], ids=["least", "median", "p99", "most"]
)
def test_a_percentile_comes_from_the_counts_of_milliseconds(percent: float, expected: int) -> None:
    assert expected == percentile({20: 99, 1: 100, 300: 1}, percent)


def test_each_measured_time_with_a_bound_is_within_it() -> None:
    totals = read()
    bounds = [(campaign.name, bound) for campaign in CAMPAIGNS.values() for bound in campaign.bounds]
    measured = [(bound, times) for name, bound in bounds if (times := totals[name].times_ms.get(bound.time))]

    assert [] == [
        (bound, percentile(times, bound.percent)) for bound, times in measured if percentile(times, bound.percent) > bound.ms
    ]


OPEN: set[tuple[str, int]] = set()
"""Findings that are not mended yet."""


def test_no_campaign_has_an_open_finding_that_is_not_known() -> None:
    assert OPEN == {(name, each.seed) for name, totals in read().items() for each in totals.findings if not each.mended}


def test_every_campaign_has_totals_and_every_total_a_campaign() -> None:
    assert CAMPAIGNS.keys() == read().keys(), f"{FILE.name} lacks a campaign, or has an old one"


SAME = Held(files=9, threads=3, objects=1_000, disk_bytes=500)


@pytest.mark.parametrize(
    ("end", "sentences"),
    [
        (SAME, 0),
        (Held(files=10, threads=3, objects=1_000, disk_bytes=500), 1),
        (Held(files=9, threads=4, objects=1_000, disk_bytes=500), 1),
        (Held(files=9, threads=3, objects=2_000, disk_bytes=500), 1),
        (Held(files=9, threads=3, objects=1_000, disk_bytes=500 + 2**23 + 1), 1),
    ],
    ids=["nothing", "a file", "a thread", "objects", "bytes on disk"],
)
def test_a_soak_names_each_resource_that_grows(end: Held, sentences: int) -> None:
    assert sentences == len(grown(SAME, end))


def test_there_are_at_least_sixty_planted_defects_and_each_fits_its_file_once() -> None:
    plants = zoo.plants()

    assert 60 <= len({each.says for each in plants})
    assert [] == [each.says for each in plants if (ROOT / each.file).read_text("utf-8").count(each.old) != 1]
    assert [] == [each.says for each in plants if each.old == each.new or not set(each.by) <= CAMPAIGNS.keys()]


def test_every_planted_defect_was_found_and_every_campaign_found_at_least_three() -> None:
    verdicts = zoo.verdicts()
    found = Counter(name for verdict in verdicts.values() for name in verdict.found_by)

    assert {each.says: each.digest for each in zoo.plants()} == {says: verdict.digest for says, verdict in verdicts.items()}
    assert [] == [says for says, verdict in verdicts.items() if not verdict.found_by]
    assert [] == [name for name in CAMPAIGNS if found[name] < 3]


def test_there_are_at_least_eight_parsers() -> None:
    assert 8 <= len(PARSERS)


def test_the_page_of_promises_is_made_from_the_tables() -> None:
    current = promises.PAGE.read_text("utf-8")

    assert promises.page() == current, "Make it again: python -m tests.campaign promises"


def test_every_campaign_stands_behind_a_promise() -> None:
    named = [name for each in promises.read()[0] for name in each.campaign]

    assert sorted(CAMPAIGNS) == sorted(named)


def test_every_promise_has_a_campaign_or_a_check() -> None:
    assert [] == [each.fault for each in promises.read()[0] if bool(each.campaign) == bool(each.check)]
