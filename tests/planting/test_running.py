"""A run of tests on a copy: how it ends, and what it says of a test that hangs."""

from pathlib import Path

import pytest

from tests.planting.running import run

FIRST = "def test_first():\n    pass\n\ndef test_second():\n    "


@pytest.mark.parametrize(
    ("body", "passed", "hung", "test"),
    [
        pytest.param("pass", True, False, "", id="passes"),
        pytest.param("assert 0", False, False, "test_a.py::test_second", id="fails"),
        pytest.param("while True: pass", False, True, "test_a.py::test_second", id="loops"),
        pytest.param("import threading; threading.Event().wait()", False, True, "test_a.py::test_second", id="waits for ever"),
    ],
)
def test_a_run_names_the_test_that_ended_it(tmp_path: Path, body: str, *, passed: bool, hung: bool, test: str) -> None:
    (tmp_path / "test_a.py").write_text(FIRST + body)

    ended = run(tmp_path, ["test_a.py"], 2.0, idle_s=3.0)

    assert (passed, hung, test) == (ended.passed, ended.hung, ended.test)


def test_a_file_that_cannot_be_loaded_fails_without_a_test(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("import no_such_module\n")

    ended = run(tmp_path, ["test_a.py::test_first"], 2.0)

    assert not ended.passed
    assert not ended.hung
