"""The precedence of the sources of channel definitions, and the accepted locations of a table."""

import itertools
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mqflow.policy.channels.client_ini import ClientConfiguration
from mqflow.policy.channels.sources import DefinedBy, Given, Origin, TableAt, choose, locate_table, without_password
from mqflow.policy.channels.table import Address, Channel, ChannelTableError

#: IBM's order for MQI clients (q027440): the value of each source, and the result if it is the strongest.
PLACES: list[tuple[Origin, dict[str, Any], str]] = [
    (Origin.CHANNEL, {"channel": Channel(name="A", addresses=(Address("app"),))}, "app(1414)"),
    (Origin.URL, {"url": "https://app/ccdt.json"}, "https://app/ccdt.json"),
    (Origin.SERVER_VARIABLE, {"environment": {"MQSERVER": "A/TCP/server(1)"}}, "server(1)"),
    (Origin.SERVER_ATTRIBUTE, {"configuration": {"server_connection_parms": "A/TCP/parms(1)"}}, "parms(1)"),
    (Origin.TABLE_VARIABLE, {"environment": {"MQCCDTURL": "https://variable/ccdt.json"}}, "https://variable/ccdt.json"),
    (Origin.TABLE_ATTRIBUTE, {"configuration": {"channel_definition_directory": "/ini"}}, "/ini/AMQCLCHL.TAB"),
    (Origin.DEFAULT, {}, "/var/mqm/AMQCLCHL.TAB"),
]


def given_by(*places: dict[str, Any]) -> Given:
    """Return the values of these sources together."""
    environment: dict[str, str] = {}
    configuration: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for place in places:
        environment |= place.get("environment", {})
        configuration |= place.get("configuration", {})
        rest |= {key: value for key, value in place.items() if key in {"channel", "url"}}
    return Given(environment=environment, configuration=ClientConfiguration(**configuration), **rest)


def found(choice: DefinedBy | TableAt) -> str:
    return choice.location if isinstance(choice, TableAt) else choice.channel.connection_name


@pytest.mark.parametrize(("origin", "says", "expected"), PLACES, ids=[f"q027440: {row[0].name}" for row in PLACES])
def test_a_single_source_counts(origin: Origin, says: dict[str, Any], expected: str) -> None:
    choice = choose(given_by(says))

    assert (origin, expected) == (choice.origin, found(choice))


@pytest.mark.parametrize(("strong", "weak"), list(itertools.combinations(range(len(PLACES)), 2)))
def test_the_stronger_of_two_sources_counts(strong: int, weak: int) -> None:
    assert PLACES[strong][0] is choose(given_by(PLACES[strong][1], PLACES[weak][1])).origin


@pytest.mark.parametrize(
    ("environment", "location"),
    [
        ({"MQCHLLIB": "/etc/mq", "MQCHLTAB": "ccdt.json"}, "/etc/mq/ccdt.json"),
        ({"MQCHLLIB": "/etc/mq/"}, "/etc/mq/AMQCLCHL.TAB"),
        ({"MQCHLTAB": "ccdt.json"}, "/var/mqm/ccdt.json"),
        ({"MQCHLTAB": "/etc/ccdt.json"}, "/etc/ccdt.json"),
        ({"MQCHLLIB": "https://host/tables", "MQCHLTAB": "ccdt.json"}, "https://host/tables/ccdt.json"),
        ({"MQCHLLIB": "https://host/tables/", "MQCHLTAB": "/ccdt.json"}, "https://host/tables/ccdt.json"),
        ({"MQCHLLIB": "file:///etc/mq", "MQCHLTAB": "ccdt.json"}, "file:///etc/mq/ccdt.json"),
        ({"MQCCDTURL": "/one.json", "MQCHLLIB": "/etc/mq", "MQCHLTAB": "two.json"}, "/one.json"),
    ],
    ids=lambda value: f"q016735: {value}",
)
def test_a_folder_or_the_beginning_of_a_url_goes_with_the_name_of_a_file(environment: dict[str, str], location: str) -> None:
    assert location == found(choose(Given(environment=environment)))


@pytest.mark.parametrize("name", ["MQSERVER", "MQCCDTURL", "MQCHLLIB", "MQCHLTAB"])
def test_an_empty_variable_says_nothing(name: str) -> None:
    assert Origin.DEFAULT is choose(Given(environment={name: " "})).origin


def test_a_source_with_nonsense_is_an_error_and_not_skipped() -> None:
    nonsense = given_by({"environment": {"MQSERVER": "nonsense"}}, PLACES[4][1])

    with pytest.raises(ChannelTableError, match="MQSERVER: 'nonsense' is not of the form CHANNEL/TCP/host"):
        choose(nonsense)
    with pytest.raises(ChannelTableError, match=r"ServerConnectionParms in x\.ini: 'nonsense'"):
        choose(Given(configuration=ClientConfiguration(server_connection_parms="nonsense", source="x.ini")))


def test_the_data_directory_may_be_elsewhere() -> None:
    assert "/data/AMQCLCHL.TAB" == found(choose(replace(given_by(), data_directory="/data")))


@pytest.mark.parametrize("text", ["/etc/mq/a b.json", "file:///etc/mq/a%20b.json", "FILE:/etc/mq/a%20b.json"])
def test_a_table_may_be_a_file(text: str) -> None:
    assert "/etc/mq/a b.json" == locate_table(text).path


@pytest.mark.parametrize(
    ("text", "host", "port", "target"),
    [
        ("https://host/ccdt.json", "host", 443, "/ccdt.json"),
        ("HTTPS://host:8443/a/b?c=d#e", "host", 8443, "/a/b?c=d"),
        ("https://host", "host", 443, "/"),
        ("https://[::1]:1/x", "::1", 1, "/x"),
    ],
)
def test_a_table_may_be_fetched_over_https(text: str, host: str, port: int, target: str) -> None:
    location = locate_table(text)

    assert (True, host, port, target, "") == (location.secure, location.host, location.port, location.target, location.path)


def test_http_needs_permission() -> None:
    with pytest.raises(ChannelTableError, match="Use https, or ccdt_over_http or --http"):
        locate_table("http://host/ccdt.json")

    allowed = locate_table("http://host/ccdt.json", http_allowed=True)

    assert (False, "host", 80) == (allowed.secure, allowed.host, allowed.port)


@pytest.mark.parametrize(
    "text",
    ["", "ftp://host/x", "gopher://host/x", "file://host/x", "file:", "https:///x", "https://host:port/x", "https://[::1/x",
     "https://host/a b", "https://host/a\r\nX: y", "/a\0b", "a:b", "javascript:1"],
)  # fmt: skip
@pytest.mark.parametrize("http_allowed", [False, True])
def test_any_other_location_is_refused(text: str, http_allowed: object) -> None:
    with pytest.raises(ChannelTableError):
        locate_table(text, http_allowed=bool(http_allowed))


SECRET = "hunter2"  # noqa: S105 - one to look for


@pytest.mark.parametrize(
    "text",
    [
        f"https://user:{SECRET}@host/ccdt.json",
        f"https://user:{SECRET}@host:port/ccdt.json",
        f"ftp://user:{SECRET}@host/ccdt.json",
        f"http://user:{SECRET}@host/ccdt.json",
        f"https://user:{SECRET}/x@host/ccdt.json",
        f"https://user:{SECRET}@[::1/ccdt.json",
    ],
)
def test_a_password_in_a_url_is_shown_nowhere(text: str) -> None:
    said = [repr(TableAt(text, Origin.URL)), without_password(text)]
    try:
        said.append(repr(locate_table(text)))
    except ChannelTableError as error:
        said += [str(error), repr(error)]

    assert [] == [each for each in said if SECRET in each]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://user:secret@host/a@b", "https://***@b"),
        ("https://host/ccdt.json", "https://host/ccdt.json"),
        ("/home/me@work/ccdt.json", "/home/me@work/ccdt.json"),
        ("embedded:/home/me@work?qmgr=QM1", "embedded:/home/me@work?qmgr=QM1"),
        ("embedded:./data?qmngr=QM1&password=secret", "embedded:./data?qmngr=QM1&password=***"),
        ("ibmmq://mq:1414/QM1?channel=APP", "ibmmq://mq:1414/QM1?channel=APP"),
        ("ibmmq:///app:secret@mq/QM1", "ibmmq:///***@mq/QM1"),
        ("ibmmq:app:secret@mq/QM1", "ibmmq:***@mq/QM1"),
        ("https:app:secret@host", "https:***@host"),
        ("ibmmq://mq/QM1?channel=APP&apikey=secret", "ibmmq://mq/QM1?channel=APP&apikey=***"),
        ("ibmmq:///QM1?ccdt=https%3A%2F%2Fapp%3Asecret%40host%2Fc.json", "ibmmq:///***@host/c.json"),
        ("ibmmq:///QM1?ccdt=https%3A%2F%2Fhost%2Fc.json%3Ftoken%3Dsecret", "ibmmq:///QM1?ccdt=https://host/c.json?token=***"),
        ("https://host/c.json?token=secret", "https://host/c.json?token=***"),
    ],
)
def test_only_a_url_is_shown_without_its_user(url: str, shown: str) -> None:
    assert shown == without_password(url)


def test_a_password_in_a_url_is_available_for_the_fetch() -> None:
    assert "user:p@ss" == locate_table("https://user:p%40ss@host/ccdt.json").credentials


@given(st.text() | st.sampled_from(["https://", "http://", "file:"]).flatmap(lambda start: st.text().map(start.__add__)))
def test_any_text_gives_a_location_or_the_typed_error(text: str) -> None:
    with suppress(ChannelTableError):
        locate_table(text, http_allowed=True)
