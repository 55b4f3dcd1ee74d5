"""The folders of `tests` mirror those of `mqflow`: a reader finds the tests of a folder under the same path."""

from pathlib import Path

ROOT = Path(__file__).parents[2]

#: Folders of mqflow without tests under the same path, each with the tests that check it. The list only becomes shorter.
ELSEWHERE = {
    "": "tests/typing",  # the public names
    "embedded": "tests/conformance",  # the connection and the queue manager: every verb, on every queue manager
    "embedded/catalogue": "tests/embedded/administration",  # tables, which only the commands read
    "embedded/rules": "tests/conformance",  # the options of each verb, on every queue manager
}

#: Folders of tests that check the whole, one story or one risk, and not one folder of mqflow.
OF_THE_WHOLE = {
    "", "benchmarks", "campaign", "conformance", "docs", "embedded/disk_faults", "embedded/failover", "embedded/network",
    "floors", "foreign", "foreign/jms", "mistakes", "model", "models_tla", "pipeline/cluster", "pipeline/killing",
    "plain_english", "planting", "simulation", "sources", "stories",
}  # fmt: skip


def folders_of(top: str, files: str) -> set[str]:
    """Return the folders below `top` that have such files, relative to it. The folder itself is an empty text."""
    found = {path.parent.relative_to(ROOT / top).as_posix() for path in (ROOT / top).rglob(files)}
    return {"" if folder == "." else folder for folder in found}


def test_each_folder_of_mqflow_has_its_tests_under_the_same_path() -> None:
    assert set(ELSEWHERE) == folders_of("mqflow", "__init__.py") - (folders_of("tests", "test_*.py") - {""})


def test_each_folder_of_tests_has_the_path_of_a_folder_of_mqflow() -> None:
    assert OF_THE_WHOLE == (folders_of("tests", "test_*.py") - folders_of("mqflow", "__init__.py")) | {""}


def test_the_tests_that_stand_elsewhere_are_there() -> None:
    assert [] == [folder for folder in ELSEWHERE.values() if not list((ROOT / folder).glob("*.py"))]
