"""`mqflow reason`: the meaning of a reason code, and the reaction of mqflow."""

import json

import pytest

from tests.cli.conftest import Run


@pytest.mark.parametrize("code", ["2009", "CONNECTION_BROKEN", "mqrc_connection_broken"])
def test_a_code_is_found_by_number_and_by_name(code: str, run: Run) -> None:
    shown = run("reason", code).stdout.splitlines()

    assert "MQRC_CONNECTION_BROKEN (2009)" == shown[0]
    assert shown[1].startswith("reconnect: mqflow connects again")
    assert shown[2].startswith("The connection is lost")


def test_json_shows_whether_the_table_lists_the_code(run: Run) -> None:
    listed, other = (json.loads(run("reason", "--json", code).stdout) for code in ("2016", "2224"))

    assert (2016, "MQRC_GET_INHIBITED", "wait", True) == tuple(listed[key] for key in ("reason", "name", "class", "listed"))
    assert ("wait", False) == (other["class"], other["listed"])


def test_an_unknown_name_is_refused_with_a_similar_one(run: Run) -> None:
    result = run("reason", "CONNECTION_BROKN")

    assert 2 == result.exit_code
    assert "Did you mean CONNECTION_BROKEN?" in result.stderr


@pytest.mark.parametrize(("code", "said"), [("99", "is not a known reason code"), ("2O35", "is not a reason code")])
def test_an_unknown_number_is_refused_without_a_guess(run: Run, code: str, said: str) -> None:
    result = run("reason", code)

    assert 2 == result.exit_code
    assert f"{code!r} {said}" in result.stderr
    assert "Did you mean" not in result.stderr


def test_without_a_code_the_command_shows_examples(run: Run) -> None:
    assert "mqflow reason 2009" in run("reason").stderr
