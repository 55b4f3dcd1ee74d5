"""Runs the pieces of a campaign in processes of their own, until the time is over or a seed is done."""

import gc
import logging
import os
import subprocess
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from tests.campaign.campaigns import CAMPAIGNS, Campaign
from tests.campaign.pieces import SMALL, Piece
from tests.campaign.results import Totals
from tests.leaving import die_with_parent

__all__ = ("one", "revision", "run", "small", "today")

_ROOT: Final = Path(__file__).parents[2]


def one(name: str, seed: int) -> Piece:
    """Run the piece of this seed. An exception is a finding."""
    try:
        return CAMPAIGNS[name].run(seed)
    except Exception as error:  # noqa: BLE001 - every failure of a harness is a finding
        return Piece(done=0, findings=[f"{_innermost(error)} {' '.join(getattr(error, '__notes__', ()))}".strip()])


def _innermost(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def small(campaign: Campaign, seeds: Iterable[int] | None = None) -> Iterator[tuple[int, Piece]]:
    """Yield the pieces of the small form, or those of these seeds only, each a tenth of its size, in this process."""
    before = os.environ.get(SMALL)
    os.environ[SMALL] = "1"
    try:
        for seed in campaign.small if seeds is None else seeds:
            yield seed, one(campaign.name, seed)
    finally:
        del os.environ[SMALL]
        if before is not None:
            os.environ[SMALL] = before


def run(campaign: Campaign, totals: Totals, minutes: float, workers: int) -> Iterator[tuple[int, Piece]]:
    """Run the next seeds until the time is over, at least one, and add them to the totals. Yield each seed with its piece."""
    began, wrote, date = time.monotonic(), time.monotonic(), today()
    of, first, busy = revision(), totals.next_seed, os.getloadavg()[0] > (os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, get_context("spawn"), _begin, (os.getpid(),)) as pool:
        running: dict[Future[Piece], int] = {}
        while True:
            while len(running) < workers and (totals.next_seed == first or time.monotonic() - began < 60 * minutes):
                running[pool.submit(one, campaign.name, totals.next_seed)] = totals.next_seed
                totals.next_seed += 1
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                seed, piece = running.pop(future), future.result()
                totals.add(seed, piece, of, date, busy=busy)
                totals.took_s += time.monotonic() - wrote
                wrote = time.monotonic()
                yield seed, piece


def _begin(parent: int) -> None:
    """Prepare a process for pieces.

    Nobody reads the log of thousands of failing handlers, and printing it takes time. Rare collections of garbage take less.
    """
    die_with_parent(parent)
    gc.set_threshold(100_000, 50, 50)
    logging.getLogger().addHandler(logging.NullHandler())


def revision() -> str:
    """Return the short name of the commit."""
    return subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=_ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()


def today() -> str:
    return datetime.now(UTC).date().isoformat()
