"""The channel descriptions that mqflow uses itself, and the channel descriptions that it leaves to IBM's client."""

import pytest

from mqflow import ConfigurationError
from mqflow.app.channels.client_urls import where_to
from mqflow.app.channels.table_dial import readable_choice
from mqflow.policy.channels.client_ini import ClientConfiguration
from mqflow.policy.channels.sources import DefinedBy, Origin, TableAt

NOTHING = ClientConfiguration()


@pytest.mark.parametrize(
    ("url", "package", "environment", "expected"),
    [
        ("pymqi:///QM1?ccdt=ccdt.json", "pymqi", {}, TableAt("ccdt.json", Origin.URL)),
        ("ibmmq:///QM1?ccdt=ccdt.json", "ibmmq", {}, None),  # it passes the table to IBM's client
        ("ibmmq:///QM1", "ibmmq", {"MQCCDTURL": "file:///c.json"}, TableAt("file:///c.json", Origin.TABLE_VARIABLE)),
        (
            "pymqi:///QM1",
            "pymqi",
            {"MQCHLLIB": "/etc/mq", "MQCHLTAB": "ccdt.json"},
            TableAt("/etc/mq/ccdt.json", Origin.TABLE_VARIABLE),
        ),
        ("pymqi:///QM1", "pymqi", {"MQCHLLIB": "/etc/mq"}, None),  # AMQCLCHL.TAB is binary
        ("pymqi:///QM1", "pymqi", {}, None),
        ("ibmmq://mq:1414/QM1?channel=A", "ibmmq", {"MQSERVER": "B/TCP/other(1414)"}, None),  # the URL names the host
        ("ibmmq:///QM1?binding=local", "ibmmq", {"MQSERVER": "B/TCP/other(1414)"}, None),
    ],
)
def test_mqflow_chooses_these_tables_itself(
    url: str, package: str, environment: dict[str, str], expected: TableAt | None
) -> None:
    assert expected == readable_choice(where_to(url), package, NOTHING, environment)


@pytest.mark.parametrize(
    ("environment", "configuration"),
    [
        ({"MQSERVER": "APP.SVRCONN/TCP/mq.example(1415)"}, NOTHING),
        ({}, ClientConfiguration(server_connection_parms="APP.SVRCONN/TCP/mq.example(1415)", source="mqclient.ini")),
    ],
)
def test_one_channel_said_outright_is_gone_through_here(
    environment: dict[str, str], configuration: ClientConfiguration
) -> None:
    choice = readable_choice(where_to("ibmmq:///QM1"), "ibmmq", configuration, environment)

    assert isinstance(choice, DefinedBy)
    assert ("APP.SVRCONN", "mq.example(1415)") == (choice.channel.name, choice.channel.connection_name)


def test_the_error_for_an_invalid_mqserver_shows_its_value() -> None:
    with pytest.raises(ConfigurationError, match="'rubbish' is not of the form CHANNEL/TCP/host"):
        readable_choice(where_to("ibmmq:///QM1"), "ibmmq", NOTHING, {"MQSERVER": "rubbish"})
