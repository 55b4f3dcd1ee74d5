"""The URLs of IBM MQ with their settings: the user, and the protection of the channel."""

from pathlib import Path
from typing import Any

import pytest

from mqflow.app.channels.client_urls import client_options, where_to
from mqflow.app.channels.location import locate
from mqflow.app.config.settings import Secret, Settings, TLSSettings, load
from mqflow.app.errors import ConfigurationError
from mqflow.bindings.connect_options import ClientPackageError, ConnectOptions
from mqflow.bindings.mqcno import Prepared

URL = "ibmmq://mq.example:1414/QM1?channel=APP.SVRCONN"


def asked(**fields: Any) -> ConnectOptions:
    usual: dict[str, Any] = {"queue_manager": "QM1", "channel": "APP.SVRCONN"}
    return ConnectOptions(**(usual | fields))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (URL, asked(hosts=(("mq.example", 1414),))),
        ("pymqi://mq.example(1415)/QM1?channel=APP.SVRCONN", asked(hosts=(("mq.example", 1415),))),
        ("auto://mq.example/QM1?channel=APP.SVRCONN", asked(hosts=(("mq.example", 1414),))),
        ("ibmmq://a:1414,b:1415,c/QM1?channel=APP.SVRCONN", asked(hosts=(("a", 1414), ("b", 1415), ("c", 1414)))),
        ("ibmmq://[::1]:1415/QM1?channel=APP.SVRCONN", asked(hosts=(("::1", 1415),))),
        ("ibmmq://[fe80::1]/QM1?channel=APP.SVRCONN", asked(hosts=(("fe80::1", 1414),))),
        ("ibmmq://mq.example:1414?channel=APP.SVRCONN", asked(queue_manager="", hosts=(("mq.example", 1414),))),
        ("ibmmq:///QM1", asked(channel="")),
        ("ibmmq:///", asked(queue_manager="", channel="")),
        ("ibmmq:///QM1?binding=local", asked(channel="", binding="local")),
        ("ibmmq:///*GROUP?ccdt=file:///etc/mq/ccdt.json", asked(queue_manager="*GROUP", channel="", ccdt_url="file:///etc/mq/ccdt.json")),
        ("ibmmq:///A%2FB%25C", asked(queue_manager="A/B%C", channel="")),
    ],
)  # fmt: skip
def test_a_url_says_where_the_queue_manager_is(url: str, expected: ConnectOptions) -> None:
    assert expected == where_to(url)
    assert ("client", expected.queue_manager) == (locate(url).kind, locate(url).queue_manager)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ibmmq://mq.example:1414/QM1", "a host needs a channel: ?channel=APP.SVRCONN"),
        ("ibmmq:///QM1?channel=APP.SVRCONN", "the channel APP.SVRCONN needs a host: ibmmq://mq.example:1414/QMGR"),
        ("ibmmq://mq.example:x/QM1?channel=A", "'mq.example:x' is not a host and port; write mq.example:1414"),
        ("ibmmq://mq.example:70000/QM1?channel=A", "is not a host and port"),
        pytest.param(f"ibmmq://mq.example:{'9' * 5_000}/QM1?channel=A", "is not a host and port", id="5000 digits"),
        ("ibmmq://a,,b/QM1?channel=A", "'' is not a host and port"),
        ("ibmmq://a(1414/QM1?channel=A", "is not a host and port"),
        ("ibmmq://2001:db8::5/QM1?channel=A", "'2001:db8::5' is not a host and port"),
        ("ibmmq://mq.example/QM1?channel=TWENTY.ONE.CHARACTERS", "cannot be the name of a channel: 1 to 20"),
        ("ibmmq://mq.example/QM-1?channel=A", "'QM-1' cannot be the name of a queue manager"),
        ("ibmmq://mq.example/QM1/A.SVRCONN?channel=A#x", None),
        ("ibmmq://mq.example/QM1?chanel=A", "chanel is not known here; channel, ccdt, binding are"),
        ("ibmmq://mq.example/QM1?channel=A&ccdt=file:///x", "hosts and ccdt exclude each other"),
        ("ibmmq:///QM1?binding=remote", "binding=remote is not known; local and client are"),
        ("ibmmq://mq.example/QM1?channel=A&binding=local", "a local binding has no channel"),
        ("ibmmq://[::1/QM1?channel=A", "is not a URL: Invalid IPv6 URL"),
        ("ibm://mq.example/QM1?channel=A", "is not the URL of a queue manager. A URL is"),
    ],
)
def test_the_error_for_an_invalid_url_names_the_accepted_forms(url: str, said: str | None) -> None:
    if said is None:  # a name with a slash in it is one that MQ knows
        assert "QM1/A.SVRCONN" == where_to(url).queue_manager
        return

    with pytest.raises(ConfigurationError) as refused:
        locate(url)

    assert said in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "ibmmq://app:hunter2@mq.example/QM1?channel=A",
        "ibmmq://app@mq.example/QM1?channel=A",
        "ibmmq://mq.example/QM1?channel=A&password=hunter2",
        "ibmmq://mq.example/QM1?channel=A&user=app&token=hunter2",
    ],
)
def test_a_url_has_no_user_and_the_error_does_not_repeat_it(url: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        locate(url)

    assert "Set user and password_file (or token_file) in mqflow.toml, or MQFLOW_USER and MQFLOW_PASSWORD" in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_the_settings_have_the_user_and_the_protection_of_the_channel(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hunter2\n")
    (tmp_path / "keys").write_text("swordfish\n")
    environment = {
        "MQFLOW_USER": "app",
        "MQFLOW_PASSWORD_FILE": str(tmp_path / "password"),
        "MQFLOW_TLS_CIPHER_SPEC": "ANY_TLS12_OR_HIGHER",
        "MQFLOW_TLS_KEY_REPOSITORY": "/keys/app.p12",
        "MQFLOW_TLS_KEY_REPOSITORY_PASSWORD_FILE": str(tmp_path / "keys"),
        "MQFLOW_TLS_CERTIFICATE_LABEL": "app",
        "MQFLOW_TLS_PEER_NAME": "CN=mq.example",
    }

    options = client_options(URL, load(environment=environment, folder=tmp_path))

    assert ("app", "ANY_TLS12_OR_HIGHER", "/keys/app.p12") == (options.user, options.cipher_spec, options.key_repository)
    assert ("app", "CN=mq.example") == (options.certificate_label, options.peer_name)
    assert options.password is not None
    assert options.key_repository_password is not None
    assert ("hunter2", "swordfish") == (options.password(), options.key_repository_password())


def test_a_secret_that_was_exchanged_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    options = client_options(URL, Settings(token_file=str(file)))
    assert options.token is not None

    before = options.token()
    file.write_text("second")

    assert ("first", "second") == (before, options.token())


def test_no_secret_shows() -> None:
    options = client_options(URL, Settings(user="app", password=Secret("hunter2")))

    with Prepared(options) as wanted:
        assert "hunter2" not in repr(options) + repr(wanted) + repr(vars(wanted).keys())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (Settings(password=Secret("x")), "There is a password, but no user"),
        (Settings(user="app", token_file="t"), "token_file takes the place of user and password"),  # noqa: S106 - a file's name
        (Settings(tls=TLSSettings(key_repository="k")), "tls.key_repository has no effect without tls.cipher_spec"),
    ],
)
def test_settings_that_exclude_each_other_are_refused(settings: Settings, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        client_options(URL, settings)

    assert said in str(refused.value)


@pytest.mark.parametrize("protection", [TLSSettings(cipher_spec="ANY_TLS12"), TLSSettings(peer_name="CN=mq.example")])
def test_a_protection_that_only_the_table_can_give_is_refused(protection: TLSSettings) -> None:
    settings, table = Settings(tls=protection), "//QM1?ccdt=/etc/mq/ccdt.json"

    for scheme in ("ibmmq", "auto"):
        with pytest.raises(ConfigurationError, match="with ibmmq a channel table decides about TLS"):
            client_options(f"{scheme}:/{table}", settings)
    assert protection.cipher_spec == client_options(f"pymqi:/{table}", settings).cipher_spec


@pytest.mark.parametrize(
    ("url", "http_allowed", "said"),
    [
        ("ibmmq:///QM1?ccdt=http://app:hunter2@mq.example/t.json", False, "http://***@mq.example/t.json: over http an"),
        ("auto:///QM1?ccdt=HTTP://mq.example/ccdt.tab", False, "Use https, or ccdt_over_http or --http in a trusted network"),
        ("ibmmq:///QM1?ccdt=ftp://mq.example/ccdt.json", True, "mqflow does not use ftp"),
        ("ibmmq:///QM1?ccdt=http://mq.example/ccdt.json", True, None),
        ("ibmmq:///QM1?ccdt=https://mq.example/ccdt.json", False, None),
        ("ibmmq:///QM1?ccdt=my tables/AMQCLCHL.TAB", False, None),
    ],
)  # fmt: skip
def test_a_table_that_ibm_s_client_reads_comes_over_http_only_where_that_is_set(
    url: str, said: str | None, *, http_allowed: bool
) -> None:
    settings = Settings(ccdt_over_http=http_allowed)
    if said is None:
        assert client_options(url, settings).ccdt_url
        return
    with pytest.raises(ConfigurationError) as refused:
        client_options(url, settings)

    assert said in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_secret_that_cannot_be_read_says_which(tmp_path: Path) -> None:
    options = client_options(URL, Settings(token_file=str(tmp_path / "missing")))

    with pytest.raises(ClientPackageError, match="The token cannot be read"):
        Prepared(options)


def test_a_password_that_is_no_text_is_not_in_the_error_nor_behind_it() -> None:
    """The environment gives bytes that are no UTF-8 as halves of surrogate pairs; Python's own error holds the text."""
    with pytest.raises(ClientPackageError, match="The password is not text") as refused:
        Prepared(ConnectOptions(user="app", password=lambda: "hunter2\udcff"))

    assert refused.value.__cause__ is None
    assert "hunter2" not in str(refused.value)


def test_more_hosts_than_a_connection_name_has_room_for_are_refused() -> None:
    hosts = ",".join(f"a-rather-long-name-{number}.mq.example:1414" for number in range(9))

    with pytest.raises(ClientPackageError, match="MQ has room for 264"):
        Prepared(where_to(f"ibmmq://{hosts}/QM1?channel=A"))
