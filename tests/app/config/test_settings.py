"""The sources of settings, their precedence, and the errors about settings that cannot be used."""

from pathlib import Path
from typing import Any

import pytest

from mqflow import App
from mqflow.app.config.settings import (
    ListenerSettings,
    QueueManagerSettings,
    ReconnectSettings,
    Secret,
    Settings,
    SettingsError,
    TLSSettings,
    load,
    mistyped_listeners,
    mistyped_queue_managers,
    password_reader,
)
from mqflow.policy.reconnect.delays import LADDER


def test_nothing_given_is_the_defaults_with_no_sources(tmp_path: Path) -> None:
    assert Settings() == load(environment={}, folder=tmp_path)


def test_an_argument_wins_over_the_environment_and_the_environment_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mqflow.toml"
    file.write_text('url = "embedded:./file"\ndrain_s = 1\nlog_level = "error"\n')

    settings = load(
        {"url": "embedded:./argument"},
        environment={"MQFLOW_URL": "embedded:./environment", "MQFLOW_DRAIN_S": "2.5"},
        folder=tmp_path,
    )

    assert ("embedded:./argument", 2.5, "error") == (settings.url, settings.drain_s, settings.log_level)
    assert {"url": "an argument", "drain_s": "environment (MQFLOW_DRAIN_S)", "log_level": str(file)} == settings.sources


def test_another_queue_manager_has_the_settings_of_the_application_and_a_connection_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "mqflow.toml"
    file.write_text('drain_s = 5.0\n[queue_managers.archive]\nurl = "embedded:./file"\nuser = "keeper"\n')
    (tmp_path / "pass").write_text("s3cret\n")

    settings = load(
        environment={"MQFLOW_URL": "embedded:./orders", "MQFLOW_USER": "orders", "MQFLOW_PASSWORD": "of orders",
            "MQFLOW_TLS_CIPHER_SPEC": "OF_ORDERS", "MQFLOW_QUEUE_MANAGERS_ARCHIVE_URL": "embedded:./archive",
            "MQFLOW_QUEUE_MANAGERS_ARCHIVE_PASSWORD_FILE": str(tmp_path / "pass"),
            "MQFLOW_QUEUE_MANAGERS_ARCHIVE_TLS_KEY_REPOSITORY_PASSWORD_FILE": "of archive"},
        folder=tmp_path,
    )  # fmt: skip
    archive, other = settings.of_queue_manager("archive"), settings.of_queue_manager("other")

    assert ("embedded:./archive", "keeper", Secret("s3cret"), 5.0) == (
        archive.url, archive.user, archive.password, archive.drain_s,
    )  # fmt: skip
    assert TLSSettings(key_repository_password_file="of archive") == archive.tls  # noqa: S106 - the name of a file
    shown = "environment (MQFLOW_QUEUE_MANAGERS_ARCHIVE_URL)", str(file)
    assert shown == (archive.sources["url"], archive.sources["drain_s"])
    assert ("", "", None, TLSSettings(), 5.0) == (other.url, other.user, other.password, other.tls, other.drain_s)
    assert {"drain_s"} == {key for key in other.sources if not key.startswith("queue_managers")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('password = "x"', r"queue_managers.archive.password .* MQFLOW_QUEUE_MANAGERS_ARCHIVE_PASSWORD\."),
        ("drain_s = 1", r"queue_managers.archive.drain_s .* A queue manager takes url, user, .* below queue_managers"),
        ("url = 1", r"queue_managers.archive.url .* it takes text"),
    ],
)
def test_a_setting_of_another_queue_manager_that_cannot_be_used_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "mqflow.toml").write_text(f"[queue_managers.archive]\n{text}\n")

    with pytest.raises(SettingsError, match=message):
        load(environment={}, folder=tmp_path)


def test_the_argument_none_counts_as_not_given(tmp_path: Path) -> None:
    assert "embedded:./x" == load({"url": None}, environment={"MQFLOW_URL": "embedded:./x"}, folder=tmp_path).url


def test_pyproject_is_read_where_there_is_no_file_of_our_own(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.mqflow]\ndrain_s = 3\n")

    assert 3.0 == load(environment={}, folder=tmp_path).drain_s


def test_the_nearest_file_above_the_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / "mqflow.toml").write_text("drain_s = 4\n")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    (below.parent / "pyproject.toml").write_text('[project]\nname = "says nothing about mqflow"\n')

    assert 4.0 == load(environment={}, folder=below).drain_s


def test_a_folder_that_cannot_be_searched_has_no_settings() -> None:
    """The system refuses such a name, as it refuses to search a folder of another user."""
    assert Settings() == load(environment={}, folder=Path("/", "x" * 300, "below"))


def test_a_name_of_a_file_that_the_system_refuses_is_an_error_of_the_setting() -> None:
    with pytest.raises(SettingsError, match=r"from MQFLOW_CONFIG: there is no file x+\."):
        load(environment={"MQFLOW_CONFIG": "x" * 300})


def test_mqflow_config_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "mqflow.toml").write_text("drain_s = 4\n")
    other = tmp_path / "other.toml"
    other.write_text("drain_s = 5\n")

    assert 5.0 == load(environment={"MQFLOW_CONFIG": str(other)}, folder=tmp_path).drain_s


@pytest.mark.parametrize(
    "text",
    [
        "[tool]\nmqflow.drain_s = 3",
        "[tool]\nmqflow = {drain_s = 3}",
        "tool.mqflow.drain_s = 3",
        "tool = {mqflow = {drain_s = 3}}",
        "  [ 'tool' . \"mqflow\" ]\ndrain_s = 3",
        "[tool.mqflow.ledger]\n[tool.mqflow]\ndrain_s = 3",
    ],
)
def test_each_spelling_of_the_table_of_a_pyproject_is_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)

    assert 3.0 == load(environment={}, folder=tmp_path).drain_s


def test_a_pyproject_without_settings_is_not_parsed(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'mqflow'\n[tool.ruff]\nnot TOML")

    assert Settings() == load(environment={}, folder=tmp_path)


def test_mqflow_config_can_name_a_pyproject_and_then_its_table_of_mqflow_counts(tmp_path: Path) -> None:
    named = tmp_path / "pyproject.toml"

    def drain_s() -> float:
        return load(environment={"MQFLOW_CONFIG": str(named)}, folder=tmp_path).drain_s

    named.write_text("[tool.mqflow]\ndrain_s = 6\n")
    assert 6.0 == drain_s()
    named.write_text("[tool.other]\ndrain_s = 6\n")
    assert 25.0 == drain_s()
    named.write_text('[project]\nname = "orders"\n')
    assert 25.0 == drain_s()


def test_a_file_that_mqflow_config_names_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refused:
        load(environment={"MQFLOW_CONFIG": "no/such.toml"}, folder=tmp_path)

    assert "Settings from MQFLOW_CONFIG: there is no file no/such.toml." == str(refused.value)


def test_a_listener_is_found_by_its_queue_and_its_name_says_more(tmp_path: Path) -> None:
    (tmp_path / "mqflow.toml").write_text(
        '[listeners."ORDERS.IN"]\nconcurrency = 8\nbackout_threshold = "queue"\n[listeners.book]\nconcurrency = 2\n'
    )

    settings = load(environment={}, folder=tmp_path)

    assert ListenerSettings(concurrency=2, backout_threshold="queue") == settings.listener("book", "ORDERS.IN")
    assert ListenerSettings() == settings.listener("other", "OTHER.IN")


def test_a_variable_names_a_queue_with_underscores_for_dots(tmp_path: Path) -> None:
    settings = load(environment={"MQFLOW_LISTENERS_ORDERS_IN_BACKOUT_THRESHOLD": "5"}, folder=tmp_path)

    assert ListenerSettings(backout_threshold=5) == settings.listener("book", "ORDERS.IN")


def test_a_listener_is_called_as_its_user_wrote_it(tmp_path: Path) -> None:
    (tmp_path / "mqflow.toml").write_text(
        '[listeners."ORDERS.IN"]\nconcurrency = 8\nunit_of_work = 4\n[listeners.book]\nconcurrency = 1\n'
    )
    variables = {"MQFLOW_LISTENERS_ORDERS_IN_CONCURRENCY": "2", "MQFLOW_LISTENERS_OTHER_IN_CONCURRENCY": "3"}

    settings = load(environment=variables, folder=tmp_path)

    assert [
        'listeners."ORDERS.IN".concurrency',
        'listeners."ORDERS.IN".unit_of_work',
        "listeners.book.concurrency",
        "listeners.OTHER_IN.concurrency",
    ] == list(settings.sources)
    assert ["ORDERS.IN", "book", "OTHER_IN"] == list(settings.listeners)
    assert ListenerSettings(concurrency=2, unit_of_work=4) == settings.listener("handle", "ORDERS.IN")
    assert ListenerSettings(concurrency=3) == settings.listener("handle", "OTHER.IN")


def test_settings_made_in_the_source_find_a_listener_by_its_queue() -> None:
    settings = Settings(listeners={"ORDERS.IN": ListenerSettings(concurrency=8)})

    assert 8 == settings.listener("book", "ORDERS.IN").concurrency


def test_a_mistyped_listener_gives_a_warning_and_one_of_another_application_does_not() -> None:
    said = {
        "ODERS.IN": ListenerSettings(),
        "bok": ListenerSettings(),
        "ORDERS.IN": ListenerSettings(),
        "RATES": ListenerSettings(),
    }

    assert [
        "There are settings for a listener 'ODERS.IN', but no such listener. Did you mean 'ORDERS.IN'?",
        "There are settings for a listener 'bok', but no such listener. Did you mean 'book'?",
    ] == list(mistyped_listeners(Settings(listeners=said), ["book", "ORDERS.IN"]))


def test_a_mistyped_queue_manager_gives_a_warning_and_one_of_another_application_does_not() -> None:
    settings = Settings(queue_managers=dict.fromkeys(("archve", "Archive", "rates"), QueueManagerSettings()))

    assert ["There are settings for a queue manager 'archve', but no such queue manager. Did you mean 'archive'?"] == list(
        mistyped_queue_managers(settings, ["archive"])
    )


REFUSED = [
    pytest.param("drain = 5", "drain", "Did you mean drain_s?", id="a misspelt key"),
    pytest.param("zzzqqq = 5", "zzzqqq", "There are url, user, password", id="a key like none there is"),
    pytest.param("drain_s = -1", "drain_s", "takes a number from 0", id="out of range"),
    pytest.param('drain_s = "soon"', "drain_s", "'soon' is not accepted", id="of the wrong kind"),
    pytest.param('log_level = "loud"', "log_level", '"debug" or "error" or "info" or "warning"', id="not one of the words"),
    pytest.param("ledger.record = 5", "ledger.record", '"all" or "nothing" or "troubled"', id="in a group"),
    pytest.param("telemetry = 1", "telemetry", "true or false", id="a number for a truth value"),
    pytest.param("listeners.X.speed = 1", "listeners.X.speed", "A listener takes concurrency", id="of a listener"),
    pytest.param("listeners.X.time_limit_s = 0", "listeners.X.time_limit_s", "takes a number above 0", id="no time at all"),
    pytest.param("listeners = 5", "listeners", "there is no such setting", id="a value where a table belongs"),
    pytest.param('password = "hunter2"', "password", "use password_file, or MQFLOW_PASSWORD", id="a password in a file"),
    pytest.param("x = [", "", "cannot be read as TOML", id="no TOML"),
    pytest.param('sources = "x"', "sources", "there is no such setting", id="what only load may set"),
]


@pytest.mark.parametrize(("text", "key", "said"), REFUSED)
def test_a_setting_that_cannot_be_used_is_refused_by_key_source_and_accepted_values(
    tmp_path: Path, text: str, key: str, said: str
) -> None:
    file = tmp_path / "mqflow.toml"
    file.write_text(text)

    with pytest.raises(SettingsError) as refused:
        load(environment={}, folder=tmp_path)

    assert (key, str(file)) == (refused.value.key, refused.value.source)
    assert str(refused.value).startswith(f"{f'Setting {key}' if key else 'Settings'} from {file}: ")
    assert said in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_variable_with_a_wrong_value_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"drain_s from environment \(MQFLOW_DRAIN_S\): 'soon' is not accepted"):
        load(environment={"MQFLOW_DRAIN_S": "soon"}, folder=tmp_path)


def test_an_unknown_variable_is_a_warning_because_orchestrators_invent_such(tmp_path: Path) -> None:
    settings = load(environment={"MQFLOW_DRAINS": "1", "OTHER": "x"}, folder=tmp_path)

    assert ("MQFLOW_DRAINS is not a setting, so it is ignored. Did you mean MQFLOW_DRAIN_S?",) == settings.warnings


def test_a_variable_of_mqflow_that_is_no_applications_is_no_warning(tmp_path: Path) -> None:
    """Otherwise `mqflow standin run -- mqflow run app` warns about variables that the first command sets."""
    assert () == load(environment={"MQFLOW_STANDIN_URL": "embedded::memory:", "MQFLOW_TEST_URL": "x"}, folder=tmp_path).warnings


@pytest.mark.parametrize("variable", ["MQFLOW_ALERT_WEBHOOK", "MQFLOW_CONFIG", "MQFLOW_DEBUG", "MQFLOW_NOTES_FILE"])
def test_a_variable_of_a_command_or_a_host_is_no_warning(tmp_path: Path, variable: str) -> None:
    (tmp_path / "mqflow.toml").touch()

    assert () == load(environment={variable: str(tmp_path / "mqflow.toml")}, folder=tmp_path).warnings


def test_a_secret_equals_only_a_secret_with_its_value() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"


def test_a_password_comes_from_its_file_and_is_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("hunter2\n")

    settings = load(environment={"MQFLOW_PASSWORD_FILE": str(file)}, folder=tmp_path)

    assert (Secret("hunter2"), f"password_file ({file})") == (settings.password, settings.sources["password"])
    assert "hunter2" not in f"{settings} {settings!r}"


def test_a_password_that_is_no_text_is_refused_and_not_shown(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="password from an argument: the value given is not accepted; it takes ") as refused:
        load({"password": 4711}, environment={}, folder=tmp_path)

    assert "4711" not in str(refused.value)


def test_a_password_from_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    settings = load(environment={"MQFLOW_PASSWORD": "a", "MQFLOW_PASSWORD_FILE": "/does/not/exist"}, folder=tmp_path)

    assert Secret("a") == settings.password


def test_the_byte_order_mark_of_an_editor_belongs_to_no_setting_and_no_password(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter2\n", encoding="utf-8-sig")
    (tmp_path / "mqflow.toml").write_text(f"password_file = '{tmp_path / 'secret'}'\n", encoding="utf-8-sig")

    assert Secret("hunter2") == load(environment={}, folder=tmp_path).password


def test_an_empty_variable_is_no_password(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("hunter2\n")

    settings = load(environment={"MQFLOW_PASSWORD": "", "MQFLOW_PASSWORD_FILE": str(file)}, folder=tmp_path)

    assert Secret("hunter2") == settings.password


def test_a_password_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"password_file from environment .* cannot be read"):
        load(environment={"MQFLOW_PASSWORD_FILE": "/does/not/exist"}, folder=tmp_path)


def test_a_password_file_that_is_no_text_is_refused_and_no_byte_of_it_is_shown(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"hunter2\xff")

    with pytest.raises(SettingsError, match=r"password_file from environment .*secret is not text in UTF-8\.$") as refused:
        load(environment={"MQFLOW_PASSWORD_FILE": str(tmp_path / "secret")}, folder=tmp_path)

    assert refused.value.__cause__ is None
    assert "0xff" not in str(refused.value)


def test_a_path_that_no_file_can_have_is_refused_like_a_file_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "mqflow.toml").write_text('password_file = "a\\u0000b"')

    with pytest.raises(SettingsError, match=r"password_file from .*mqflow\.toml: it cannot be read"):
        load(environment={}, folder=tmp_path)


def test_settings_made_by_hand_name_the_password_file_of_another_queue_manager_that_cannot_be_read() -> None:
    settings = Settings(queue_managers={"archive": QueueManagerSettings(password_file="/does/not/exist")})  # noqa: S106 - a path

    with pytest.raises(
        SettingsError, match=r"queue_managers\.archive\.password_file from Settings\(\.\.\.\): it cannot be read"
    ):
        settings.of_queue_manager("archive")


def test_a_password_is_read_from_its_file_each_time_unless_the_environment_has_the_password(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("old\n")
    of_file = load(environment={"MQFLOW_PASSWORD_FILE": str(file)}, folder=tmp_path)
    of_both = load(environment={"MQFLOW_PASSWORD": "own", "MQFLOW_PASSWORD_FILE": str(file)}, folder=tmp_path)
    by_hand = Settings(password=Secret("own"), password_file=str(file))
    given = {"archive": QueueManagerSettings(password_file=str(file))}
    read = [
        password_reader(each)
        for each in (of_file, of_both, by_hand, Settings(queue_managers=given).of_queue_manager("archive"), Settings())
    ]
    file.write_text("new\n")

    assert ["new", "own", "own", "new", None] == [each and each() for each in read]


def test_a_number_is_text_where_text_is_taken(tmp_path: Path) -> None:
    assert "123" == load(environment={"MQFLOW_USER": "123"}, folder=tmp_path).user


def test_a_url_set_from_outside_is_stronger_than_the_one_in_the_source(tmp_path: Path) -> None:
    outside = load(environment={"MQFLOW_URL": "embedded:./outside"}, folder=tmp_path)

    assert "embedded:./outside" == outside.url_over("embedded:./source")
    assert "embedded:./source" == Settings().url_over("embedded:./source")
    assert Settings().url == Settings().url_over(None)


def test_a_url_in_settings_made_by_hand_is_stronger_than_the_one_in_the_source() -> None:
    archive = QueueManagerSettings(url=Settings().url)
    settings = Settings(url="embedded:./settings", queue_managers={"archive": archive})

    assert "embedded:./settings" == settings.url_over("embedded:./source")
    assert archive.url == settings.of_queue_manager("archive").url_over("embedded:./source")
    assert "embedded:./source" == settings.of_queue_manager("other").url_over("embedded:./source")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        pytest.param({"listeners": {"ORDERS.IN": ListenerSettings(concurrency=0)}},
                     'listeners."ORDERS.IN".concurrency from Settings(...): 0 is not accepted; it takes a whole number from 1.',
                     id="a listener without workers"),
        pytest.param({"listeners": {"IN": 5}},
                     "listeners.IN from Settings(...): 5 is not accepted; it takes ListenerSettings(...).",
                     id="no settings of a listener"),
        pytest.param({"queue_managers": {"qm2": QueueManagerSettings(user=7)}},  # type: ignore[arg-type]  # wrong on purpose
                     "queue_managers.qm2.user from Settings(...): 7 is not accepted; it takes text.",
                     id="a user of another queue manager"),
        pytest.param({"ledger": "all"}, "ledger from Settings(...): 'all' is not accepted; it takes LedgerSettings(...).",
                     id="a word for a group of settings"),
        pytest.param({"reconnect": ReconnectSettings(delays="abc")},
                     "reconnect.delays from Settings(...): 'abc' is not a ReconDelay",
                     id="delays"),
    ],
)  # fmt: skip
def test_settings_made_by_hand_that_cannot_be_used_are_refused_before_the_application_runs(
    settings: dict[str, Any], problem: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        App(settings=Settings(**settings))

    assert str(refused.value).startswith(f"Setting {problem}")


@pytest.mark.parametrize("text", ["tool = 5", "[tool]\nmqflow = 'drain_s'"])
@pytest.mark.parametrize("named", [True, False], ids=["named by MQFLOW_CONFIG", "found"])
def test_a_pyproject_whose_settings_are_no_table_is_refused(tmp_path: Path, text: str, *, named: bool) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text(text)

    with pytest.raises(SettingsError, match=r"pyproject\.toml: \[tool\.mqflow\] is not a table"):
        load(environment={"MQFLOW_CONFIG": str(file)} if named else {}, folder=tmp_path)


def test_the_variable_for_the_password_of_a_queue_manager_with_a_dot_in_its_name_can_be_set(tmp_path: Path) -> None:
    (tmp_path / "mqflow.toml").write_text('[queue_managers."my.qm"]\npassword = "x"\n')
    with pytest.raises(SettingsError, match=r"or MQFLOW_QUEUE_MANAGERS_MY_QM_PASSWORD\."):
        load(environment={}, folder=tmp_path)
    (tmp_path / "mqflow.toml").write_text('[queue_managers."my.qm"]\nuser = "app"\n')

    settings = load(environment={"MQFLOW_QUEUE_MANAGERS_MY_QM_PASSWORD": "s3cret"}, folder=tmp_path)

    assert ("app", Secret("s3cret")) == (settings.queue_managers["my.qm"].user, settings.queue_managers["my.qm"].password)


def test_delays_between_attempts_to_reconnect_are_written_as_mqclient_ini_does(tmp_path: Path) -> None:
    settings = load(
        environment={"MQFLOW_RECONNECT_DELAYS": "(500,100)(2000)", "MQFLOW_RECONNECT_LIMIT_S": "60"}, folder=tmp_path
    )

    assert (((0.5, 0.1), (2.0, 0.0)), 60.0) == (settings.reconnect.ladder, settings.reconnect.limit_s)


def test_without_a_word_about_delays_they_are_those_of_jms_for_ever(tmp_path: Path) -> None:
    settings = load(environment={}, folder=tmp_path)

    assert (LADDER, None) == (settings.reconnect.ladder, settings.reconnect.limit_s)


def test_invalid_delays_are_refused_with_their_place(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"Setting reconnect\.delays from environment \(MQFLOW_RECONNECT_DELAYS\): 'soon'"):
        load(environment={"MQFLOW_RECONNECT_DELAYS": "soon"}, folder=tmp_path)


@pytest.mark.parametrize("variable", ["MQFLOW_URL", "MQFLOW_PASSWORD", "MQFLOW_NO_SUCH", "MQFLOW_LISTENERS_Q_CONCURRENCY"])
def test_bytes_of_a_variable_that_are_not_utf_8_are_refused_by_its_name(tmp_path: Path, variable: str) -> None:
    with pytest.raises(SettingsError, match=rf"from environment \({variable}\): its bytes are not UTF-8") as refused:
        load(environment={variable: "secret\udcff"}, folder=tmp_path)

    assert refused.value.__cause__ is None
    assert "secret" not in str(refused.value)


def test_a_variable_whose_name_is_not_utf_8_is_refused_in_printable_text(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refused:
        load(environment={"MQFLOW_A\udcff": "1"}, folder=tmp_path)

    assert str(refused.value).isprintable()
    assert str(refused.value).encode()


@pytest.mark.parametrize("value", ["9" * 4_400, "[" * 5_000], ids=["a number of 4,400 digits", "5,000 brackets"])
def test_a_file_that_python_cannot_read_as_toml_is_refused_by_its_name(tmp_path: Path, value: str) -> None:
    (tmp_path / "mqflow.toml").write_text(f"drain_s = {value}")

    with pytest.raises(SettingsError, match=r"mqflow\.toml: the file cannot be read as TOML"):
        load(environment={}, folder=tmp_path)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("x" * 78, f"'{'x' * 78}'"), ("x" * 79, f"'{'x' * 79}..."), ("9" * 5_000, f"'{'9' * 79}...")],
    ids=["80 characters with the quotes", "81 characters", "a number of 5,000 digits"],
)
def test_a_refused_value_of_more_than_80_characters_is_shown_shortened(tmp_path: Path, text: str, shown: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load(environment={"MQFLOW_LEDGER_ENTRIES_MAX": text}, folder=tmp_path)

    problem = f"{shown} is not accepted; it takes a whole number from 1."
    assert f"Setting ledger.entries_max from environment (MQFLOW_LEDGER_ENTRIES_MAX): {problem}" == str(refused.value)
