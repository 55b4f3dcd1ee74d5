"""mqclient.ini: the paths at which the file is searched for, its CHANNELS stanza, and the lines that cannot be used."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.policy.channels.client_ini import ClientConfiguration, ClientConfigurationError, parse_client_configuration, places
from mqflow.policy.reconnect.mode import DefaultReconnect


def test_the_file_is_looked_for_in_four_places_in_order() -> None:
    found = places({"MQCLNTCF": "/etc/mq/client.ini"}, current="/app", home="/home/app", data="/var/mqm")

    folders = ("/app", "/var/mqm", "/home/app")
    assert ("/etc/mq/client.ini", *(f"{folder}/mqclient.ini" for folder in folders)) == found


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_variable_names_no_place(text: str) -> None:
    assert "/app/mqclient.ini" == places({"MQCLNTCF": text}, current="/app", home="")[0]


@pytest.mark.parametrize("text", ["/a b.ini", "file:///a%20b.ini", "file:/a%20b.ini", "file://localhost/a%20b.ini"])
def test_mqclntcf_is_a_file_with_or_without_saying_so(text: str) -> None:
    assert "/a b.ini" == places({"MQCLNTCF": text}, current="/app", home="/home/app")[0]


@pytest.mark.parametrize("text", ["https://host/mqclient.ini", "ftp://host/x", "file://host/x"])
def test_mqclntcf_on_another_machine_is_refused(text: str) -> None:
    with pytest.raises(ClientConfigurationError, match=r"it takes a path, or file:///path"):
        places({"MQCLNTCF": text}, current="/app", home="/home/app")


#: Each attribute, a value, its field, and the value of the field. Source: q016860, q130380.
ATTRIBUTES: list[tuple[str, str, str, object]] = [
    ("CCSID", "1208", "ccsid", 1208),
    ("CCSID", "1", "ccsid", 1),
    ("CCSID", "65535", "ccsid", 65_535),
    ("MQReconnectTimeout", "0", "reconnect_limit_s", 0),
    ("MQReconnectTimeout", "999999999", "reconnect_limit_s", 999_999_999),
    ("ChannelDefinitionDirectory", "/etc/mq", "channel_definition_directory", "/etc/mq"),
    ("ChannelDefinitionFile", "ccdt.json", "channel_definition_file", "ccdt.json"),
    ("DefRecon", "NO", "default_reconnect", DefaultReconnect.NO),
    ("DefRecon", "YES", "default_reconnect", DefaultReconnect.YES),
    ("DefRecon", "QMGR", "default_reconnect", DefaultReconnect.Q_MGR),
    ("DefRecon", "DISABLED", "default_reconnect", DefaultReconnect.DISABLED),
    ("MQReconnectTimeout", "1800", "reconnect_limit_s", 1800),
    ("Put1DefaultAlwaysSync", "YES", "put1_always_synchronous", True),
    ("ReconDelay", "(1000,200)(2000)", "delays", ((1, 0.2), (2, 0))),
    ("ServerConnectionParms", "A/TCP/h(1)", "server_connection_parms", "A/TCP/h(1)"),
]


@pytest.mark.parametrize(("name", "text", "field", "value"), ATTRIBUTES)
@pytest.mark.parametrize("written", ["{}={}", "  {} = {} ", "{}={}\r"])
def test_an_attribute_is_read(written: str, name: str, text: str, field: str, value: object) -> None:
    said = parse_client_configuration(f"CHANNELS:\n{written.format(name, text)}\n", "x.ini")

    expected: dict[str, Any] = {field: value}
    assert ClientConfiguration(**expected, source="x.ini") == said


def test_the_case_of_names_does_not_matter_and_the_last_of_two_values_wins() -> None:
    said = parse_client_configuration("channels:\n  defrecon=yes\n  DEFRECON=qmgr\n")

    assert DefaultReconnect.Q_MGR is said.default_reconnect


def test_other_stanzas_and_comments_say_nothing_about_channels() -> None:
    outside = "# DefRecon=YES\nDefRecon=NO\nTCP:\n  DefRecon=YES\n"
    text = f"{outside}\nCHANNELS:\n; DefRecon=YES\n  CCSID=819\nSSL:\n  DefRecon=YES\n  no attribute\n"

    said = parse_client_configuration(text)

    assert ClientConfiguration(ccsid=819, other_stanzas=("TCP", "SSL"), source="mqclient.ini") == said
    assert ("CHANNELS: CCSID", "TCP: all of it", "SSL: all of it") == said.not_used


def test_attributes_of_ibm_s_libraries_are_kept_as_written() -> None:
    said = parse_client_configuration("CHANNELS:\nPasswordProtection=ALWAYS\n")

    assert ({"PasswordProtection": "ALWAYS"}, ()) == (said.others, said.warnings)
    assert ("CHANNELS: PasswordProtection",) == said.not_used


def test_a_used_attribute_is_not_listed_as_unused() -> None:
    used = "DefRecon=YES\nReconDelay=(1)\nMQReconnectTimeout=9\nServerConnectionParms=A/TCP/h(1)\nPut1DefaultAlwaysSync=NO\n"

    assert () == parse_client_configuration(f"CHANNELS:\n{used}").not_used


def test_a_probable_typing_error_is_a_warning() -> None:
    said = parse_client_configuration("CHANNELS:\nReconDealy=(1)\n")

    assert ("mqclient.ini, line 2: ReconDealy is not known. Did you mean ReconDelay?",) == said.warnings


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("DefRecon=DıSABLED", "DefRecon: 'DıSABLED' is not accepted; it takes NO, YES, QMGR, DISABLED."),  # noqa: RUF001
        ("DefRecon=MAYBE", "DefRecon: 'MAYBE' is not accepted; it takes NO, YES, QMGR, DISABLED."),
        ("DefRecon=", "DefRecon: '' is not accepted"),
        ("ReconDelay=soon", "ReconDelay: 'soon' is not a ReconDelay"),
        ("MQReconnectTimeout=-1", "a whole number from 0 to 999999999"),
        ("MQReconnectTimeout=٣", "a whole number"),
        ("CCSID=65536", "'65536' is not accepted; it takes a whole number from 1 to 65535."),
        ("CCSID=000001", "'000001' is not accepted; it takes a whole number from 1 to 65535."),
        ("CCSID=0", "a whole number from 1 to 65535"),
        ("Put1DefaultAlwaysSync=1", "it takes NO, YES."),
        ("DefRecon", "'DefRecon' is not of the form attribute=value."),
        ("=YES", "'=YES' is not of the form attribute=value."),
    ],
)
def test_a_line_that_cannot_be_used_is_refused_by_its_number(line: str, said: str) -> None:
    with pytest.raises(ClientConfigurationError) as caught:
        parse_client_configuration(f"# here\nCHANNELS:\n{line}\n", "/etc/mqclient.ini")

    assert str(caught.value).startswith("/etc/mqclient.ini, line 3: ")
    assert said in str(caught.value)


lines = st.text() | st.sampled_from(["CHANNELS:", "ReconDelay=", "DefRecon=", "CCSID="]).flatmap(
    lambda start: st.text(max_size=10).map(lambda text: start + text)
)


@given(st.lists(lines))
def test_any_text_gives_a_configuration_or_the_typed_error(written: list[str]) -> None:
    with suppress(ClientConfigurationError):
        parse_client_configuration("\n".join(written))
