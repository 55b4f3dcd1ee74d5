"""`mqflow land` and `mqflow journal` with a journal that a URI names: on this machine, in an object store, and elsewhere."""

import json
from pathlib import Path

import pytest

from mqflow.folders import folder_at
from mqflow.journal import Consumers, Journal, read_table
from tests.cli.conftest import Run
from tests.object_store import new_bucket

DEFINED = "DEFINE QLOCAL('MQFLOW.JOURNAL.STATE') DEFPSIST(YES)"
LAND = ("land", "ORDERS.IN", "--once", "--linger", "0ms", "--journal")


@pytest.fixture
def orders(run: Run, queues: None) -> None:
    assert 0 == run("mqsc", stdin=DEFINED).exit_code
    for number in range(3):
        assert 0 == run("put", "ORDERS.IN", stdin=f"order {number}").exit_code


@pytest.fixture(params=["file", "s3"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return f"file://{tmp_path}/journal"
    request.getfixturevalue("server")
    return f"{new_bucket()}/journal"


@pytest.mark.usefixtures("orders")
def test_a_queue_is_landed_at_a_uri_and_every_command_reads_it_there(run: Run, uri: str, tmp_path: Path) -> None:
    landed = run(*LAND, uri)
    journal = Journal.open(uri)
    Consumers(journal).register("gone")
    Consumers(journal).commit("bronze", {"ORDERS.IN": 1})
    shown = run("journal", "show", uri, "--json")
    verified = run("journal", "verify", uri)
    forgotten = run("journal", "forget", uri, "gone")
    rows = read_table(journal.lane("ORDERS.IN").all_segments()[0], journal.lane("ORDERS.IN").kind)
    trimmed = run("journal", "trim", uri)
    again = run(*LAND, uri)

    assert (0, "ORDERS.IN: 3 messages in 1 segment landed.\n") == (landed.exit_code, landed.stdout), landed.output
    assert f"Landing ORDERS.IN (payload) in {folder_at(uri).uri}." in landed.stderr
    assert {"rows": 3, "segments": 1, "rows_behind": {"bronze": 0, "gone": 3}}.items() <= json.loads(shown.stdout).items()
    assert "1 segment, 3 messages, sound" in verified.stdout, verified.output
    assert 0 == forgotten.exit_code, forgotten.output
    assert [b"order 0", b"order 1", b"order 2"] == rows["body"].to_pylist()
    assert "ORDERS.IN: 1 segment, " in trimmed.stdout, trimmed.output
    assert () == journal.lane("ORDERS.IN").all_segments()
    assert (0, "ORDERS.IN: 0 messages in 0 segments landed.\n") == (again.exit_code, again.stdout), again.output
    assert {"data", "journal"} >= {path.name for path in tmp_path.iterdir()}


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize("scheme", ["hdfs", "viewfs", "gs", "abfss", "https"])
def test_another_scheme_is_refused_before_a_connection_is_made(
    scheme: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(_: object) -> None:
        pytest.fail("a connection is made")

    monkeypatch.setattr("mqflow.cli.pipeline.land.opened", connect)
    landed = run(*LAND, f"{scheme}://host/journal")

    assert 2 == landed.exit_code
    assert f"Invalid value for '--journal': {scheme}://host/journal: folders of the scheme {scheme}: are not supported" in (
        " ".join(landed.stderr.split())
    )
    assert {"data"} == {path.name for path in tmp_path.iterdir()}
    for command in ("show", "verify", "trim"):
        assert 2 == run("journal", command, f"{scheme}://host/journal").exit_code


@pytest.mark.usefixtures("orders", "server")
def test_an_unknown_bucket_is_refused_before_a_message_is_got(run: Run) -> None:
    landed = run(*LAND, "s3://no-such-bucket/journal")

    assert 1 == landed.exit_code
    assert "The object store refused to read s3://no-such-bucket/journal/journal.json: NoSuchBucket" in landed.stderr
    first = json.loads(run("browse", "ORDERS.IN", "--json").stdout.splitlines()[0])
    assert 0 == first["descriptor"]["backout_count"]


def test_a_file_is_not_a_folder(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    shown = run("journal", "show", "file")

    assert (2, True) == (shown.exit_code, "'file' is a file, not a folder" in shown.stderr)
