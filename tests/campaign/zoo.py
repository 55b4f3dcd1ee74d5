"""The zoo: planted defects as data (zoo.toml), each with the campaigns whose small forms must find it.

`python -m tests.campaign zoo` plants each defect in a copy of the sources, and writes zoo.json. It continues with the defects
whose entry has changed since, or that have no verdict yet. An error of the defect itself (a wrong type or name) is no find.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

from tests.campaign.campaigns import CAMPAIGNS

__all__ = ("Plant", "Verdict", "plants", "run", "verdicts")

ROOT: Final = Path(__file__).parents[2]
_TABLE: Final = Path(__file__).with_name("zoo.toml")
_FILE: Final = Path(__file__).with_name("zoo.json")
_COPIED: Final = ("mqflow", "tests", "pyproject.toml")
_BOUND_S: Final = 150.0
_ERRORS_OF_PLANTS: Final = (
    "TypeError", "NameError", "AttributeError", "ImportError", "UnboundLocalError", "ModuleNotFoundError",
)  # fmt: skip


class Plant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A defect: a text of a file that occurs once, and the text that replaces it."""

    #: The defect, in one clause.
    says: str
    file: str
    old: str
    new: str
    #: The campaigns that are tried, in this order.
    by: tuple[str, ...]

    @property
    def digest(self) -> str:
        """A short name of this entry, without its sentence."""
        return sha256(repr((self.file, self.old, self.new, self.by)).encode()).hexdigest()[:12]


class Verdict(Struct, frozen=True):
    """The campaigns that found a defect, and the campaigns that did not."""

    digest: str
    found_by: list[str]
    missed_by: list[str] = field(default_factory=list)


class _Table(Struct, frozen=True):
    plant: tuple[Plant, ...]


def plants() -> tuple[Plant, ...]:
    """Return the defects of zoo.toml."""
    return msgspec.toml.decode(_TABLE.read_text("utf-8"), type=_Table).plant


def verdicts() -> dict[str, Verdict]:
    """Return the last verdicts, by the sentence of the defect."""
    return msgspec.json.decode(_FILE.read_bytes(), type=dict[str, Verdict]) if _FILE.exists() else {}


def run(minutes: float, only: Sequence[str]) -> int:
    """Judge the defects without a verdict until the time is over. Return 1 if a judged defect was found by no campaign."""
    until = time.monotonic() + 60 * minutes
    judged = {
        each.says: verdict for each in plants() if (verdict := verdicts().get(each.says)) and verdict.digest == each.digest
    }
    with tempfile.TemporaryDirectory(prefix="mqflow-zoo-") as folder:
        copy = Path(folder)
        for name in _COPIED:
            (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, copy / name)
        for plant in plants():
            wanted = plant.says in only if only else plant.says not in judged
            if wanted and time.monotonic() < until:
                judged[plant.says] = _judge(copy, plant)
                _write(judged)
                said = judged[plant.says]
                sys.stdout.write(
                    f"{plant.says}: found by {', '.join(said.found_by) or 'nothing'}, missed by {said.missed_by}\n"
                )
                sys.stdout.flush()
    missed = [says for says, verdict in judged.items() if not verdict.found_by]
    sys.stdout.write(f"{len(judged)} of {len(plants())} judged, {len(missed)} found by no campaign\n")
    return bool(missed)


def _write(judged: Mapping[str, Verdict]) -> None:
    in_order = {each.says: judged[each.says] for each in plants() if each.says in judged}
    _FILE.write_bytes(msgspec.json.format(msgspec.json.encode(in_order), indent=1) + b"\n")


def _judge(copy: Path, plant: Plant) -> Verdict:
    """Plant the defect in the copy, run the small forms, and restore the file."""
    file = copy / plant.file
    whole = file.read_text("utf-8")
    file.write_text(whole.replace(plant.old, plant.new), "utf-8")
    try:
        found = {name: _finds(copy, name) for name in plant.by}
    finally:
        file.write_text(whole, "utf-8")
    return Verdict(plant.digest, [name for name in plant.by if found[name]], [name for name in plant.by if not found[name]])


def _finds(copy: Path, name: str) -> bool:
    """Return whether the small form prints a finding before it ends or its time is over."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.campaign", CAMPAIGNS[name].name, "--small"],
        cwd=copy, env=os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(process.pid, signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, _BOUND_S)
    try:
        return any(line.strip() and not line.startswith((*_ERRORS_OF_PLANTS, "  ")) for line in process.stdout)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
