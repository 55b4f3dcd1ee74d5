"""`mqflow ccdt explain`: a channel table as a table for people and as JSON for scripts."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run


def entry(name: str, queue_manager: str, *hosts: str, weight: int = 0, **more: object) -> dict[str, Any]:
    connection = [{"host": host, "port": 1414} for host in hosts]
    return {
        "name": name,
        "type": "clientConnection",
        "clientConnection": {"queueManager": queue_manager, "connection": connection},
        "connectionManagement": {"clientWeight": weight, **more},
    }


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Remove the channel settings of this machine."""
    for name in ("MQSERVER", "MQCCDTURL", "MQCHLLIB", "MQCHLTAB", "MQCLNTCF"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    entries = [
        entry("HEAVY", "GRP", "heavy", weight=99),
        entry("FIRST", "GRP", "one", "two", defaultReconnect="yes"),
        entry("OTHER", "QM1", "other"),
        entry("LOST", "GRP"),
    ]
    (tmp_path / "ccdt.json").write_text(json.dumps({"channel": entries}))
    return tmp_path / "ccdt.json"


def test_the_output_has_the_order_the_reasons_and_the_unused_entries(run: Run, table: Path) -> None:
    result = run("ccdt", "explain", "ccdt.json", "--connect", "*GRP", "--host", "host1")

    assert 0 == result.exit_code
    assert "-  LOST     " in result.stdout  # the names of channels are aligned to the left
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert [
        "Channels: ccdt.json (the application's CCDT URL)",
        "Connecting with *GRP: a queue manager of any name is accepted.",
    ] == lines[:2]
    first = "Weight 0: before all others, by name, then in the order of the file."
    assert [
        f"1 FIRST one(1414) any {first} Address 1 of 2 of the entry.",
        f"2 FIRST two(1414) any {first} Address 2 of 2 of the entry.",
        "3 HEAVY heavy(1414) no Weight 99 of 99, in the order of this host (AFFINITY(PREFERRED)).",
        "- OTHER other(1414) - Its queue manager is QM1, not GRP.",
        "- LOST - It names no address: clientConnection.connection is empty.",
    ] == lines[5:]
    assert "warning: Entry 3 (LOST) is never tried." in result.stderr


def test_a_script_reads_a_record_for_each_attempt_and_each_entry_that_is_not_tried(run: Run, table: Path) -> None:
    shown = run("ccdt", "explain", "ccdt.json", "--connect", "QM1", "--json")

    records = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [(1, "OTHER", 2), (None, "HEAVY", 0), (None, "FIRST", 1), (None, "LOST", 3)] == [
        (record["attempt"], record["channel"], record["entry"]) for record in records
    ]
    common = {"attempt": 1, "channel": "OTHER", "entry": 2, "queue_manager": "QM1"}
    assert common | {"host": "other", "port": 1414, "reconnects": "no", "why": records[0]["why"]} == records[0]
    why = "Its queue manager is GRP, not QM1."
    assert {"attempt": None, "channel": "HEAVY", "entry": 0, "queue_manager": "GRP", "why": why} == records[1]


@pytest.mark.parametrize(
    ("name", "rule", "why"),
    [("", "Connecting with a blank name: a queue manager of any name is accepted.", "1 BLANK one(1414)"),
     ("*", "Connecting with *: a queue manager of any name is accepted.", "1 BLANK one(1414)"),
     ("QM1", "Connecting with QM1: the queue manager must have the name QM1.",
      "- BLANK one(1414) - Its queue manager is (blank), not QM1.")],
)  # fmt: skip
def test_an_entry_without_a_name_is_for_connections_without_a_name(
    run: Run, tmp_path: Path, name: str, rule: str, why: str
) -> None:
    (tmp_path / "ccdt.json").write_text(json.dumps({"channel": [entry("BLANK", "", "one")]}))

    lines = [" ".join(line.split()) for line in run("ccdt", "explain", "ccdt.json", "--connect", name).stdout.splitlines()]

    assert (rule, True) == (lines[1], lines[5].startswith(why)), lines


def test_unused_attributes_are_named(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, more = entry("PLAIN", "QM1", "one"), entry("MORE", "QM1", "two", disconnectInterval=6000)
    more["compression"] = {"header": ["system"], "message": ["none", "zlibfast"]}
    (tmp_path / "ccdt.json").write_text(json.dumps({"channel": [plain, more]}))
    (tmp_path / "client.ini").write_text("CHANNELS:\n  MQPasswordProtection=always\nTCP:\n  KeepAlive=YES\n")
    monkeypatch.setenv("MQCLNTCF", str(tmp_path / "client.ini"))

    printed = run("ccdt", "explain", "ccdt.json", "--connect", "QM1").stderr

    assert (
        "warning: Entry 1 (MORE): mqflow does not use connectionManagement.disconnectInterval, compression.message.\n"
        in printed
    )
    assert (
        "client.ini: mqflow does not use CHANNELS: MQPasswordProtection; TCP: all of it. IBM's client library reads" in printed
    )
    assert "PLAIN" not in printed


def test_the_command_shows_that_the_name_is_checked(run: Run, table: Path) -> None:
    assert "the queue manager must have the name QM1." in run("ccdt", "explain", "ccdt.json", "--connect", "QM1").stdout


def test_without_a_match_the_exit_code_is_3_and_the_entries_are_shown(run: Run, table: Path) -> None:
    result = run("ccdt", "explain", "ccdt.json")

    assert 3 == result.exit_code
    assert "MQRC_Q_MGR_NAME_ERROR" in result.stderr
    assert "Its queue manager is GRP, not (blank)." in result.stdout


def test_without_a_file_the_environment_names_the_channels(run: Run, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQCHLLIB", str(table.parent))
    monkeypatch.setenv("MQCHLTAB", "ccdt.json")
    from_variables = run("ccdt", "explain", "--connect", "QM1").stdout
    monkeypatch.setenv("MQSERVER", "SERVER/TCP/mq1(1414)")

    from_server = run("ccdt", "explain", "--connect", "QM1").stdout

    assert f"Channels: {table} (MQCCDTURL, or MQCHLLIB and MQCHLTAB)" in from_variables
    assert "Channels: SERVER (MQSERVER)" in from_server
    assert "mq1(1414)" in from_server


def test_mqclient_ini_overrides_the_reconnection_of_the_channels(run: Run, table: Path, tmp_path: Path) -> None:
    (tmp_path / "mqclient.ini").write_text("CHANNELS:\nDefRecon=QMGR\nReconDealy=(1)\n")

    result = run("ccdt", "explain", "ccdt.json", "--connect", "*GRP", "--json")

    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert {"queue manager"} == {record["reconnects"] for record in records if record["attempt"]}
    assert "Did you mean ReconDelay?" in result.stderr


@pytest.mark.parametrize(
    ("content", "expected"),
    [(None, "No such file"), (b"AMQR\0", "Say the same in JSON"), (b'{"channel":[{}]}', "at $.channel[0]: ")],
)
def test_an_unusable_table_is_a_sentence(content: bytes | None, expected: str, run: Run, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "bad.json").write_bytes(content)

    result = run("ccdt", "explain", "bad.json")

    assert 1 == result.exit_code
    assert result.stderr.startswith("mqflow: Channel table bad.json")
    assert expected in result.stderr


def test_http_needs_the_option(run: Run) -> None:
    assert (
        "Use https, or ccdt_over_http or --http in a trusted network"
        in run("ccdt", "explain", "http://user:hunter2@127.0.0.1:9/ccdt.json").stderr
    )
    allowed = run("ccdt", "explain", "--http", "http://user:hunter2@127.0.0.1:9/ccdt.json").stderr
    assert "Connection refused" in allowed
    assert "hunter2" not in allowed


def test_control_characters_of_a_table_never_reach_the_terminal(run: Run, tmp_path: Path) -> None:
    evil = entry("A", "GRP\x1b[2J", "h\x07")
    (tmp_path / "ccdt.json").write_text(json.dumps({"channel": [evil]}))

    shown = run("ccdt", "explain", "ccdt.json", "--connect", "*GRP\x1b[2J")

    assert 0 == shown.exit_code
    assert not {"\x1b", "\x07"} & set(shown.output)
