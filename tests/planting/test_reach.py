"""The tests for a planted defect, and their order."""

from pathlib import Path, PurePath

import coverage
import msgspec
import pytest

from tests.planting.reach import SOURCES, Reach, only, read

SOURCE = PurePath("mqflow/policy/poison/raised.py")
OWN, FOLDER, FAR, PROGRAM = (
    "tests/policy/poison/test_raised.py::test_own",
    "tests/policy/poison/test_other.py::test_folder",
    "tests/app/test_app.py::test_far",
    "tests/policy/poison/test_raised.py::test_program",
)
QUICK = "tests/app/test_app.py::test_quick"
KNOWN = Reach(
    tests={SOURCE.as_posix(): {10: [FAR], 12: [FAR, FOLDER, OWN], 30: [FAR, QUICK, FOLDER, OWN]}},
    times_s={FAR: 0.6, FOLDER: 2.0, OWN: 3.0, PROGRAM: 1.0, QUICK: 0.1, "tests/app/test_app.py::test_elsewhere": 0.1},
)


@pytest.mark.parametrize(
    ("lines", "bound_s", "order"),
    [pytest.param(range(10, 13), 9.0, [OWN, FOLDER, FAR, PROGRAM], id="the nearest tests that reach the line come first"),
     pytest.param(range(30, 31), 5.2, [OWN, QUICK, FOLDER], id="a quick test elsewhere comes before a slow test of the folder"),
     pytest.param(range(10, 12), 9.0, [FAR, PROGRAM, FOLDER, OWN], id="programs of near tests can reach the line too"),
     pytest.param(range(20, 22), 9.0, [PROGRAM, OWN, FOLDER], id="a line that no test reaches has the tests of its folder"),
     pytest.param(range(10, 13), 5.2, [OWN, FOLDER], id="the order ends at the bound"),
     pytest.param(range(10, 13), 1.0, [OWN], id="a defect has at least one test")],
)  # fmt: skip
def test_the_tests_for_a_defect_are_in_the_order_of_their_worth(lines: range, bound_s: float, order: list[str]) -> None:
    assert order == KNOWN.order(SOURCE, lines, bound_s)


def test_the_tests_of_a_file_that_shares_a_word_with_the_source_come_before_quick_tests_of_others() -> None:
    of_the_name, quick = "tests/conformance/test_put.py::test_refused", "tests/conformance/test_get.py::test_quick"
    known = Reach(
        tests={"mqflow/embedded/rules/put_plan.py": {5: [quick, of_the_name]}}, times_s={quick: 0.1, of_the_name: 4.0}
    )

    assert [of_the_name, quick] == known.order(PurePath("mqflow/embedded/rules/put_plan.py"), range(5, 6), 9.0)


def test_the_times_of_a_test_whose_file_has_changed_are_left_out(tmp_path: Path) -> None:
    times = tmp_path / "tests+app.times"
    times.write_bytes(msgspec.json.encode({FAR: 0.5, FOLDER: 2.0, OWN: 3.0}))

    kept = only(times, {"tests/app/test_app.py", "tests/policy/poison/test_raised.py"})

    assert {FAR: 0.5, OWN: 3.0} == msgspec.json.decode(kept.read_bytes())
    assert times != kept


def test_the_notes_of_an_earlier_command_move_with_the_lines_of_the_source(tmp_path: Path) -> None:
    noted, times, copy = tmp_path / "tests+app.coverage", tmp_path / "tests+app.times", tmp_path / "copy-0"
    for folder, text in ((noted.with_suffix(SOURCES), "one\ntwo\nthree\nfour\n"), (copy, "new\none\ntwo\n3\nfour\n")):
        (folder / SOURCE).parent.mkdir(parents=True)
        (folder / SOURCE).write_text(text, "utf-8")
    data = coverage.CoverageData(str(noted))
    data.set_context(FAR)
    data.add_lines({str(copy / SOURCE): [2, 3, 4]})
    data.write()
    times.write_bytes(msgspec.json.encode({FAR: 0.5}))

    known = read([copy], {SOURCE}, [(noted, times)])

    assert {3: [FAR], 5: [FAR]} == {line: each for line, each in known.tests[SOURCE.as_posix()].items() if each}
