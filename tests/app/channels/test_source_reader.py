"""mqflow reads channel tables and mqclient.ini from files. An error in a file does not end a running application."""

import json
import os
from pathlib import Path

import pytest

from mqflow.app.channels.source_reader import Tables, read_client_configuration, read_table
from mqflow.policy.channels.candidates import Preference, candidates
from mqflow.policy.channels.client_ini import ClientConfigurationError
from mqflow.policy.channels.sources import DefinedBy, Given, Origin, TableAt, choose
from mqflow.policy.channels.table import ChannelTableError
from mqflow.policy.channels.table_json import TABLE_BYTES_MAX


def table(*names: str) -> str:
    return json.dumps({"channel": [{"name": name, "type": "clientConnection"} for name in names]})


def names(tables: Tables) -> list[str]:
    return [channel.name for channel in tables.read().table.channels]


@pytest.mark.parametrize("form", ["{}", "file://{}", "file:{}"])
def test_a_table_is_read_from_a_file(form: str, tmp_path: Path) -> None:
    (tmp_path / "ccdt.json").write_text(table("A"))

    assert ["A"] == [channel.name for channel in read_table(form.format(tmp_path / "ccdt.json")).channels]


def test_a_table_is_read_again_each_time(tmp_path: Path) -> None:
    file = tmp_path / "ccdt.json"
    tables = Tables(TableAt(str(file), Origin.URL))
    file.write_text(table("A"))
    before = names(tables)

    file.write_text(table("B"))

    assert (["A"], ["B"]) == (before, names(tables))


@pytest.mark.parametrize("broken", [b"", b'{"channel":[', b"AMQR", b"\xff", b" " * (TABLE_BYTES_MAX + 1), None])
def test_an_unreadable_table_is_replaced_by_the_last_one_with_the_reason(broken: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "ccdt.json"
    file.write_text(table("A"))
    tables = Tables(TableAt(str(file), Origin.URL))
    tables.read()
    file.unlink()
    if broken is not None:
        file.write_bytes(broken)

    latest = tables.read()

    assert ["A"] == [channel.name for channel in latest.table.channels]
    assert latest.problem.startswith(f"Channel table {file}")
    file.write_text(table("B"))
    assert (["B"], "") == (names(tables), tables.read().problem)


def test_a_first_table_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ChannelTableError, match="it cannot be read: No such file or directory"):
        Tables(TableAt(str(tmp_path / "ccdt.json"), Origin.URL)).read()


def test_the_error_for_a_missing_table_names_all_sources(tmp_path: Path) -> None:
    choice = choose(Given(data_directory=str(tmp_path)))

    with pytest.raises(ChannelTableError, match=r"No such file.* in one of these: .*MQSERVER.*MQCCDTURL.*\.ini\.$"):
        Tables(choice).read()


def test_a_pipe_is_refused_as_a_table_without_a_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ccdt.json")

    with pytest.raises(ChannelTableError, match="it is not a regular file"):
        read_table(str(tmp_path / "ccdt.json"))


@pytest.mark.parametrize("path", ["/dev/zero", "/"])
def test_neither_a_device_nor_a_folder_is_a_table(path: str) -> None:
    with pytest.raises(ChannelTableError, match="it is not a regular file"):
        read_table(path)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted where Linux lists them")
def test_reading_leaves_no_file_open(tmp_path: Path) -> None:
    (tmp_path / "ccdt.json").write_text(table("A"))
    before = open_files()

    for path in (str(tmp_path / "ccdt.json"), str(tmp_path)):
        try:
            read_table(path)
        except ChannelTableError:
            continue

    assert before == open_files()


@pytest.mark.parametrize("name", ["QM1", "*GRP", "", "*"])
def test_the_channel_of_mqserver_accepts_any_name(name: str) -> None:
    choice = choose(Given(environment={"MQSERVER": "A/TCP/mq1(1414),mq2(1515)"}))

    latest = Tables(choice, name=name).read()

    assert isinstance(choice, DefinedBy)
    tried = candidates(Preference(table=latest.table), name, random=lambda: 0.0)
    assert ["mq1(1414)", "mq2(1515)"] == [str(attempt.address) for attempt in tried]


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    """The four places, each with a file that names its place."""
    found = {}
    for ccsid, place in enumerate(("named", "current", "data", "home"), start=1):
        (tmp_path / place).mkdir()
        (tmp_path / place / "mqclient.ini").write_text(f"CHANNELS:\nCCSID={ccsid}\n")
        found[place] = tmp_path / place
    return found


@pytest.mark.parametrize(
    ("without", "ccsid"),
    [([], 1), (["named"], 2), (["named", "current"], 3), (["named", "current", "data"], 4)],
    ids=lambda value: f"q016850: {value}",
)
def test_the_first_file_that_can_be_read_counts(folders: dict[str, Path], without: list[str], ccsid: int) -> None:
    for place in without:
        (folders[place] / "mqclient.ini").unlink()

    said = read_client_configuration(
        {"MQCLNTCF": str(folders["named"] / "mqclient.ini"), "HOME": str(folders["home"])},
        current=folders["current"],
        data=str(folders["data"]),
    )

    assert ccsid == said.ccsid


def test_a_file_that_cannot_be_read_counts_as_absent(folders: dict[str, Path]) -> None:
    (folders["current"] / "mqclient.ini").write_bytes(b"\xff\xff")
    (folders["data"] / "mqclient.ini").unlink()
    (folders["data"] / "mqclient.ini").mkdir()

    said = read_client_configuration({}, current=folders["current"], data=str(folders["data"]), home=folders["home"])

    assert 4 == said.ccsid


def test_without_a_client_configuration_file_there_is_no_warning(tmp_path: Path) -> None:
    said = read_client_configuration({}, current=tmp_path, data=str(tmp_path), home=tmp_path)

    assert ("", None, None) == (said.source, said.default_reconnect, said.delays)


def test_a_file_that_says_nonsense_is_an_error_and_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "mqclient.ini").write_text("CHANNELS:\nDefRecon=MAYBE\n")

    with pytest.raises(ClientConfigurationError, match=r"mqclient\.ini, line 2: DefRecon"):
        read_client_configuration({}, current=tmp_path)
