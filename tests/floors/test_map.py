"""The structure has no circle, and the map in docs/architecture.md shows the structure of today."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.floors.__main__ import PAGE, made
from tests.floors.structure import circle, floors, folder_limits, folder_sentences, forbidden_imports, is_known, shortest_arrows

ROOT = Path(__file__).parents[2]
FILES_MAX = 14
#: Folders with one file for each MQI call.
CALLS = {"mqflow/embedded/calls": 24}


def test_no_files_import_each_other_in_a_circle_not_even_for_types() -> None:
    assert [] == circle()


def test_the_map_is_the_one_that_python_m_tests_floors_draws() -> None:
    stale = [path.name for path, text in made() if path.read_text("utf-8") != text]

    assert [] == stale, "run: python -m tests.floors"


def test_every_folder_states_its_purpose() -> None:
    assert [] == [folder for folder, sentence in folder_sentences() if not sentence.endswith(".")]


def test_every_folder_states_what_it_must_not_import() -> None:
    limits = dict(folder_limits())

    assert [] == [folder for folder, forbidden in limits.items() if not forbidden]
    assert [] == sorted({limit for forbidden in limits.values() for limit in forbidden if not is_known(limit)})


def test_no_folder_imports_what_it_must_not() -> None:
    assert [] == [found for folder, limits in folder_limits() for found in forbidden_imports(folder, limits)]


def test_a_limit_forbids_a_package_and_the_modules_below_it() -> None:
    assert [] == forbidden_imports("mqflow/embedded/wire/client", ["mqflow.verb", "mqflow.embedded.wire.server"])
    assert forbidden_imports("mqflow/embedded/wire/client", ["mqflow.embedded.wire.protocol"])
    assert forbidden_imports("mqflow/embedded/wire/client", ["socket"])


def test_a_folder_has_at_most_fourteen_files() -> None:
    counts = {
        folder: len([path for path in (ROOT / folder).glob("*.py") if not path.name.startswith("__")])
        for folder, _ in folder_sentences()
    }

    assert {} == {folder: count for folder, count in counts.items() if count > CALLS.get(folder, FILES_MAX)}


def test_the_page_names_each_layer_of_the_contract() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"][0]
    layers = {name.removeprefix("mqflow.") for floor in contract["layers"] for name in re.findall(r"[\w.]+", floor)}
    _, _, after = PAGE.read_text("utf-8").partition("From the ground up:")
    named = re.findall(r"\*\*(\w+)\*\*", after.partition("\n#")[0])

    assert [] == sorted(layers - set(named))


@pytest.mark.parametrize(
    "named", sorted(set(re.findall(r"`((?:mqflow|tests|plugins|examples|docs)/[\w./-]+)`", PAGE.read_text("utf-8"))))
)
def test_each_file_that_the_map_names_is_there(named: str) -> None:
    assert (ROOT / named).exists()


def test_a_child_stands_above_all_that_it_imports() -> None:
    assert [["a"], ["b"], ["c", "d"]] == floors({"a": {"b", "c"}, "b": {"c", "d"}, "c": set(), "d": set()})


def test_an_arrow_that_another_way_shows_is_left_out() -> None:
    assert [("a", "b"), ("b", "c")] == list(shortest_arrows({"a": {"b", "c"}, "b": {"c"}, "c": set()}))
