"""mqflow reason: what a reason code means, and what is done about it."""

import json

import pytest

from tests.cli.conftest import Run


@pytest.mark.parametrize("code", ["2009", "CONNECTION_BROKEN", "mqrc_connection_broken"])
def test_a_code_is_found_by_number_and_by_name(code: str, run: Run) -> None:
    shown = run("reason", code).stdout.splitlines()

    assert "MQRC_CONNECTION_BROKEN (2009)" == shown[0]
    assert shown[1].startswith("reconnect: Another connection is got")
    assert shown[2].startswith("The connection is lost")


def test_json_says_whether_the_table_lists_it(run: Run) -> None:
    listed, other = (json.loads(run("reason", "--json", code).stdout) for code in ("2016", "2224"))

    assert (2016, "MQRC_GET_INHIBITED", "wait", True) == tuple(listed[key] for key in ("reason", "name", "class", "listed"))
    assert ("wait", False) == (other["class"], other["listed"])


def test_a_code_that_there_is_not_is_refused_with_the_nearest(run: Run) -> None:
    result = run("reason", "CONNECTION_BROKN")

    assert 2 == result.exit_code
    assert "Did you mean CONNECTION_BROKEN?" in result.stderr


def test_a_number_that_is_no_code_is_refused_without_a_guess(run: Run) -> None:
    result = run("reason", "99")

    assert 2 == result.exit_code
    assert "'99' is no reason code that is known here" in result.stderr
    assert "Did you mean" not in result.stderr


def test_without_a_code_the_command_says_what_it_takes(run: Run) -> None:
    assert "mqflow reason 2009" in run("reason").stderr
