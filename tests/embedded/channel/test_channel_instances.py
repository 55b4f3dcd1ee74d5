"""The server-connection channel that a client program gets, and the limits of its instances: decisions over records."""

from typing import Any

import pytest

from mqflow.embedded.administration.channels import RunningChannels
from mqflow.embedded.catalogue.kinds import defined_object
from mqflow.embedded.catalogue.system_objects import SYSTEM_OBJECTS
from mqflow.embedded.mqsc import run
from mqflow.embedded.mqsc.display import as_json
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.rules.channel_instances import (
    ChannelSettings,
    ChannelStatus,
    NoChannel,
    settings_of,
    why_not_as_stated,
    why_not_one_more,
    why_not_secure,
)
from mqflow.mqi.attributes.channel import ChannelType
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason

OF_A_NEW_QUEUE_MANAGER = [each.values for each in SYSTEM_OBJECTS if each.noun == "CHANNEL"]
OWN = {
    "name": "APP", "kind": ChannelType.SVRCONN, "mca_user": "worker", "max_message_bytes": 1000, "heartbeat_s": 5,
    "sharing_conversations": 1, "instances_max": 2, "instances_per_client_max": 1,
}  # fmt: skip
WITH_OWN = [*OF_A_NEW_QUEUE_MANAGER, defined_object("CHANNEL", OWN).values]
SETTINGS = ChannelSettings(
    name="APP", mca_user="worker", message_bytes_max=1000, heartbeat_s=5, conversations_max=1, instances_max=2,
    instances_per_client_max=1, certificate_required=True,
)  # fmt: skip


def test_a_defined_channel_has_the_attributes_of_its_definition() -> None:
    assert SETTINGS == settings_of("APP", WITH_OWN, auto_defined=False)


def test_a_queue_manager_without_own_definitions_takes_every_name_without_limits() -> None:
    assert ChannelSettings(name="ANY") == settings_of("ANY", OF_A_NEW_QUEUE_MANAGER, auto_defined=False)


def test_the_first_own_definition_closes_every_other_name() -> None:
    assert NoChannel("ANY", other_type=False) == settings_of("ANY", WITH_OWN, auto_defined=False)


def test_a_default_channel_of_the_queue_manager_stays_open_beside_own_definitions() -> None:
    found = settings_of("SYSTEM.DEF.SVRCONN", WITH_OWN, auto_defined=False)

    assert isinstance(found, ChannelSettings)
    assert (4_194_304, 300, 10) == (found.message_bytes_max, found.heartbeat_s, found.conversations_max)


def test_with_chad_a_channel_without_a_definition_is_like_system_auto_svrconn() -> None:
    found = settings_of("ANY", WITH_OWN, auto_defined=True)

    assert isinstance(found, ChannelSettings)
    assert ("ANY", 4_194_304) == (found.name, found.message_bytes_max)


def test_a_channel_of_another_type_is_refused_even_with_chad() -> None:
    assert NoChannel("SYSTEM.DEF.SENDER", other_type=True) == settings_of("SYSTEM.DEF.SENDER", WITH_OWN, auto_defined=True)


def test_a_client_connection_channel_of_the_same_name_is_no_channel_of_another_type() -> None:
    client = defined_object("CHANNEL", {"name": "APP", "kind": ChannelType.CLNTCONN}).values

    assert SETTINGS == settings_of("APP", [*WITH_OWN, client], auto_defined=False)
    assert NoChannel("X", other_type=False) == settings_of("X", [*WITH_OWN, {**client, "name": "X"}], auto_defined=False)


ONE, OTHER = ChannelStatus(name="APP", address="10.0.0.1", status=3), ChannelStatus(name="OTHER", address="10.0.0.1", status=3)


@pytest.mark.parametrize(
    ("source", "address", "running", "state", "refusal"),
    [
        ("nothing runs", "10.0.0.1", [], "", ""),
        ("rc2537: in stopped state", "10.0.0.1", [], "stopped", "START CHANNEL(APP)"),
        ("q015640: other channels do not count", "10.0.0.1", [OTHER, OTHER], "", ""),
        ("MAXINSTC: the same address is the same client", "10.0.0.1", [ONE], "", "MAXINSTC(1) is reached for 10.0.0.1"),
        ("MAXINSTC: another client", "10.0.0.2", [ONE], "", ""),
        ("MAXINST: whichever client started them", "10.0.0.3", [ONE, ONE], "", "MAXINST(2) is reached"),
    ],
)
def test_one_more_instance_of_a_channel_begins_within_its_limits(
    source: str, address: str, running: list[ChannelStatus], state: str, refusal: str
) -> None:
    refused = why_not_one_more(SETTINGS, address, running, stopped=state == "stopped")

    assert bool(refusal) == bool(refused), source
    if refused:
        assert Reason.CHANNEL_NOT_AVAILABLE == refused[0]
        assert refusal in refused[1]


@pytest.mark.parametrize(
    ("source", "settings", "names", "reason"),
    [
        ("without SSLCIPH there is no check", {"certificate_required": True, "peer_name": "CN=ann"}, None, 0),
        ("SSLCIPH needs TLS", {"cipher_spec": "ANY_TLS12_OR_HIGHER"}, None, 2393),
        ("SSLCAUTH(OPTIONAL) needs no certificate", {"cipher_spec": "ANY_TLS12_OR_HIGHER"}, [], 0),
        ("SSLCAUTH(REQUIRED) needs one", {"cipher_spec": "ANY_TLS12_OR_HIGHER", "certificate_required": True}, [], 2393),
        ("any name is good", {"cipher_spec": "ANY_TLS12_OR_HIGHER", "certificate_required": True}, ["ann"], 0),
        ("SSLPEER: the same name", {"cipher_spec": "X", "peer_name": "CN=ann"}, ["ann"], 0),
        ("SSLPEER: in quotation marks", {"cipher_spec": "X", "peer_name": 'cn = "a, b"'}, ["a, b"], 0),
        ("SSLPEER: an asterisk for the rest", {"cipher_spec": "X", "peer_name": "CN=an*"}, ["ann"], 0),
        ("SSLPEER: another name", {"cipher_spec": "X", "peer_name": "CN=ann"}, ["anna"], 2398),
        ("SSLPEER: no certificate", {"cipher_spec": "X", "peer_name": "CN=*"}, [], 2398),
        ("SSLPEER: two names are no name", {"cipher_spec": "X", "peer_name": "CN=ann"}, ["ann", "bob"], 2398),
        ("SSLPEER: mqflow cannot check it", {"cipher_spec": "X", "peer_name": "CN=ann,O=IBM"}, ["ann"], 2399),
    ],
)
def test_a_channel_with_a_cipher_takes_programs_with_the_tls_that_it_names(
    source: str, settings: dict[str, Any], names: list[str] | None, reason: int
) -> None:
    refused = why_not_secure(ChannelSettings(name="APP", **settings), names)

    assert reason == (0 if refused is None else int(refused[0])), source


@pytest.mark.parametrize(("names", "said"), [(["anna"], "anna"), (["ann", "bob"], "ann and bob"), ([], "no name")])
def test_the_refusal_of_another_name_says_the_names_in_the_certificate(names: list[str], said: str) -> None:
    refused = why_not_secure(ChannelSettings(name="APP", cipher_spec="X", peer_name="CN=ann"), names)

    assert (2398, f"SSLPEER(CN=ann) is not the name in the certificate, which has {said}") == refused


@pytest.mark.parametrize(
    ("channel", "names", "reason"), [("TLS", None, 2393), ("TLS", [], 2393), ("TLS", ["anna"], 0), ("NOBODY", None, 0)]
)
def test_a_program_that_states_its_tls_needs_that_of_a_channel_that_is_defined(
    channel: str, names: list[str] | None, reason: int
) -> None:
    given = {"name": "TLS", "kind": ChannelType.SVRCONN, "cipher_spec": "ANY_TLS12_OR_HIGHER", "peer_name": "CN=ann"}
    refused = why_not_as_stated(channel, [*WITH_OWN, defined_object("CHANNEL", given).values], names)

    assert reason == (0 if refused is None else int(refused[0]))


class Instance:
    """A running channel of the program at an address."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.ended = False
        self.shown: dict[str, Any] = {"status": 3}

    def status(self) -> ChannelStatus:
        return ChannelStatus(name="APP", address=self.address, **self.shown)

    def end(self) -> None:
        self.ended = True


@pytest.fixture
def running(queue_manager: EmbeddedQueueManager) -> RunningChannels:
    assert 0 == run("DEFINE CHANNEL(APP) CHLTYPE(SVRCONN)", queue_manager.administration).exit_code()
    return queue_manager.channels


def test_counts_of_nine_digits_begin_again_and_the_last_call_and_a_request_to_stop_are_shown(
    running: RunningChannels, queue_manager: EmbeddedQueueManager
) -> None:
    instance = Instance("10.0.0.1")
    running.begin(instance, SETTINGS)
    counts = {"call_count": 999_999_999, "bytes_sent": 10**9, "bytes_received": 5 * 10**9 + 7, "buffers_sent": 3}
    instance.shown = {**counts, "status": 4, "last_call_s": 86_400.0 * 365 + 3_723.9}

    [record] = run("DISPLAY CHSTATUS(*) ALL", queue_manager.administration).responses[0].records

    expected = {
        "MSGS": 999_999_999, "BYTSSENT": 0, "BYTSRCVD": 7, "BUFSSENT": 3, "BUFSRCVD": 0, "STATUS": "STOPPING",
        "STOPREQ": "YES", "LSTMSGDA": "1971-01-01", "LSTMSGTI": "01.02.03",
    }  # fmt: skip
    shown = dict(as_json(record))
    assert expected == {keyword: shown[keyword] for keyword in expected}


def test_a_status_without_a_call_has_no_time_and_irrelevant_attributes_are_no_error(
    running: RunningChannels, queue_manager: EmbeddedQueueManager
) -> None:
    running.begin(Instance("10.0.0.1"), SETTINGS)

    results = run("DISPLAY CHSTATUS(*) LSTMSGDA LSTMSGTI STOPREQ BATCHES CURMSGS", queue_manager.administration)

    assert 0 == results.exit_code()
    shown = dict(as_json(results.responses[0].records[0]))
    assert ("", "", "NO") == (shown["LSTMSGDA"], shown["LSTMSGTI"], shown["STOPREQ"])
    assert not {"BATCHES", "CURMSGS"} & shown.keys()


def test_an_instance_that_has_ended_leaves_its_place(running: RunningChannels) -> None:
    first, second = Instance("10.0.0.1"), Instance("10.0.0.1")
    running.begin(first, SETTINGS)
    with pytest.raises(MQIError, match="MAXINSTC") as refused:
        running.begin(second, SETTINGS)
    assert Reason.CHANNEL_NOT_AVAILABLE == refused.value.reason

    running.ended(first)

    running.begin(second, SETTINGS)


def test_a_stopped_channel_ends_its_instances_and_takes_none_until_it_starts(
    running: RunningChannels, queue_manager: EmbeddedQueueManager
) -> None:
    instance, administration = Instance("10.0.0.1"), queue_manager.administration.channels
    running.begin(instance, SETTINGS)

    administration.stop("APP")

    assert instance.ended
    running.ended(instance)
    assert [("APP", 6)] == [(each.name, each.status) for each in administration.statuses()]
    with pytest.raises(MQIError, match=r"START CHANNEL\(APP\)"):
        running.begin(instance, SETTINGS)

    administration.start("APP")

    assert () == administration.statuses()
    running.begin(instance, SETTINGS)


def test_one_client_of_a_channel_can_be_stopped(running: RunningChannels, queue_manager: EmbeddedQueueManager) -> None:
    one, other = Instance("10.0.0.1"), Instance("10.0.0.2")
    running.begin(one, SETTINGS)
    running.begin(other, SETTINGS)

    queue_manager.administration.channels.stop("APP", address="10.0.0.2", stays_stopped=False)

    assert (False, True) == (one.ended, other.ended)


@pytest.mark.parametrize(
    ("name", "reason"), [("APP", 4064), ("NOBODY", 4032), ("SYSTEM.DEF.SENDER", Reason.FUNCTION_NOT_SUPPORTED)]
)
def test_a_channel_without_an_instance_cannot_become_inactive(
    running: RunningChannels, queue_manager: EmbeddedQueueManager, name: str, reason: int
) -> None:
    with pytest.raises(MQIError) as refused:
        queue_manager.administration.channels.stop(name, stays_stopped=False)

    assert reason == refused.value.reason
