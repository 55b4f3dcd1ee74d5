"""A run knows its skips: an unknown reason, one skip too many, or a statement that only skipped tests hold fails the run."""

import pytest

from tests.skips import Known, known, not_held, unexpected

pytest_plugins = ("pytester",)

KINDS = (Known(reason="it takes long", why="so", most=2), Known(reason="there is no strace", why="so", needs="strace"))


@pytest.mark.parametrize(
    ("skipped", "sentences"),
    [
        ({}, []),
        ({"it takes long: really": 2, "there is no strace to count with": 9}, []),
        ({"it takes long: a": 2, "it takes long: b": 1}, ["3 skipped, and tests/skips.toml expects 2 at most: it takes long"]),
        ({"it is late": 1}, ["1 skipped, and tests/skips.toml does not know why: it is late"]),
    ],
    ids=["nothing", "the expected ones", "one too many", "a new reason"],
)
def test_a_skip_is_expected_if_its_reason_and_number_are_known(skipped: dict[str, int], sentences: list[str]) -> None:
    assert sentences == list(unexpected(skipped, KINDS))


def test_a_statement_is_not_held_by_a_test_of_which_every_case_was_skipped() -> None:
    outcomes = {"a::one": {"skipped"}, "a::two": {"skipped", "passed"}, "a::three": {"passed"}}

    assert ["a::one"] == not_held(outcomes, ["a::one", "a::two", "a::three", "a::four"])


def test_every_kind_has_a_number_or_names_its_need() -> None:
    assert [] == [each.reason for each in known() if (each.most is None) == (not each.needs)]


def test_a_run_with_an_unknown_skip_fails(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        "from tests.skips import Skips\ndef pytest_configure(config): config.pluginmanager.register(Skips(whole_files=True))"
    )
    pytester.makepyfile("import pytest\ndef test_a(): pytest.skip('it is late')\ndef test_b(): pass")

    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")

    assert pytest.ExitCode.TESTS_FAILED == result.ret
    result.stdout.fnmatch_lines(["UNEXPECTED SKIP: 1 skipped, and tests/skips.toml does not know why: it is late"])
