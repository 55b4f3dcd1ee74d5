"""Defects planted in children of one process of pytest: what each child says, and that no other child has the defect."""

import pytest

from tests.planting.forking import Said, Task, plant_in_children
from tests.planting.results import HUNG, NOTICED, SURVIVED

SOURCE = """
def double(number):
    return number * 2

def count(numbers):
    total = 0
    while numbers:
        numbers = numbers[1:]
        total += 1
    return total
"""
LATE = "def late():\n    return 1\n"
TESTS = """
import doubling

def test_double():
    assert doubling.double(2) == 4

def test_count():
    assert doubling.count([7, 7]) == 2

def test_late():
    import imported_late
    assert imported_late.late() == 1

def test_flaky():
    assert doubling.double(2) == 5
"""
FROZEN = "import gc\ndef pytest_collection_finish():\n    gc.freeze()\n"
"""As tests/conftest.py does after the collection."""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Said]:
    """The results of a few defects of one small project."""
    folder = tmp_path_factory.mktemp("project")
    files = {"conftest.py": FROZEN, "doubling.py": SOURCE, "imported_late.py": LATE, "test_doubling.py": TESTS}
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\n")

    def task(name: str, file: str, old: str, new: str, *tests: str) -> Task:
        changed = (folder / file).read_text().replace(old, new)
        return Task(name, str(folder / file), changed, [f"test_doubling.py::{test}" for test in tests], 0.0, 1.0)

    tasks = [
        task("three times", "doubling.py", "* 2", "* 3", "test_count", "test_double"),
        task("not reached", "doubling.py", "* 2", "* 3", "test_count"),
        task("for ever", "doubling.py", "numbers[1:]", "numbers", "test_count"),
        task("crash", "doubling.py", "return total", "return __import__('ctypes').string_at(1)", "test_count"),
        task("late", "imported_late.py", "return 1", "return 2", "test_late"),
        task("fails anyway", "doubling.py", "* 2", "* 3", "test_flaky"),
    ]
    return {each.name: each for each in plant_in_children(folder, tasks)}


@pytest.mark.parametrize(
    ("defect", "result", "by"),
    [
        pytest.param("three times", NOTICED, "test_doubling.py::test_double", id="the first test that fails is named"),
        pytest.param("not reached", SURVIVED, "", id="tests that pass do not notice the defect"),
        pytest.param("for ever", HUNG, "test_doubling.py::test_count", id="a test that does not end is no find"),
        pytest.param("crash", NOTICED, "test_doubling.py::test_count", id="a crash of the process is a find"),
        pytest.param("late", NOTICED, "test_doubling.py::test_late", id="a module that is imported later has the defect too"),
        pytest.param("fails anyway", SURVIVED, "", id="a test that fails without the defect is no find"),
    ],
)
def test_a_child_says_what_its_tests_noticed(said: dict[str, Said], defect: str, result: str, by: str) -> None:
    assert (result, by) == (said[defect].said, said[defect].by)
