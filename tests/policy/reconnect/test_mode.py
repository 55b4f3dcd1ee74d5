"""The reaction to a lost connection: IBM's complete table of defaults and options, and the JMS names of the options."""

import pytest

from mqflow.policy.reconnect.mode import (
    JMS_OPTIONS,
    DefaultReconnect,
    ReconnectMode,
    ReconnectOption,
    ReconnectOptionError,
    default_reconnect,
    from_jms,
    reconnect_mode,
)

#: IBM, "Reconnection options" (q108390), as printed: rows are defaults, columns options.
OPTIONS = ("RECONNECT", "Q_MGR", "AS_DEF", "DISABLED")
TABLE = {
    "NO": ("ANY", "Q_MGR", "NO", "NO"),
    "YES": ("ANY", "Q_MGR", "ANY", "NO"),
    "Q_MGR": ("ANY", "Q_MGR", "Q_MGR", "NO"),
    "DISABLED": ("NO", "NO", "NO", "NO"),
}
CELLS = [(default, option, mode) for default, row in TABLE.items() for option, mode in zip(OPTIONS, row, strict=True)]


@pytest.mark.parametrize(("default", "option", "mode"), CELLS, ids=lambda value: f"q108390: {value}")
def test_default_and_option_decide_together(default: str, option: str, mode: str) -> None:
    assert ReconnectMode[mode] is reconnect_mode(DefaultReconnect[default], ReconnectOption[option])


def test_every_default_meets_every_option() -> None:
    assert len(DefaultReconnect) * len(ReconnectOption) == len(CELLS)


@pytest.mark.parametrize("configured", DefaultReconnect)
def test_mqclient_ini_overrides_the_channel_even_with_no(configured: DefaultReconnect) -> None:
    assert configured is default_reconnect(configured, DefaultReconnect.YES)


def test_where_mqclient_ini_says_nothing_the_channel_does() -> None:
    assert DefaultReconnect.Q_MGR is default_reconnect(None, DefaultReconnect.Q_MGR)


#: By number, so that the test finds a wrong name. Source: the constants of IBM's own Python package.
def test_the_numbers_are_the_mqi_s() -> None:
    assert {"AS_DEF": 0, "RECONNECT": 0x01000000, "DISABLED": 0x02000000, "Q_MGR": 0x04000000} == {
        each.name: each.value for each in ReconnectOption
    }
    assert {"NO": 0, "YES": 1, "Q_MGR": 2, "DISABLED": 3} == {each.name: each.value for each in DefaultReconnect}


@pytest.mark.parametrize(
    ("word", "queue_manager", "option"),
    [
        ("ANY", "*", ReconnectOption.RECONNECT),
        ("ANY", "*GROUP", ReconnectOption.RECONNECT),
        ("ANY", "", ReconnectOption.RECONNECT),
        ("ANY", "    ", ReconnectOption.RECONNECT),
        ("ASDEF", "QM1", ReconnectOption.AS_DEF),
        ("DISABLED", "QM1", ReconnectOption.DISABLED),
        ("QMGR", "QM1", ReconnectOption.Q_MGR),
        ("QMGR", "*GROUP", ReconnectOption.Q_MGR),
    ],
    ids=lambda value: f"JMS reconnection, table 1: {value}",
)
def test_a_jms_name_means_an_option(word: str, queue_manager: str, option: ReconnectOption) -> None:
    assert option is from_jms(word, queue_manager)


def test_any_with_the_name_of_one_queue_manager_is_refused_with_the_accepted_names() -> None:
    with pytest.raises(ReconnectOptionError, match=r"'QM1' names one\. Name a group \('\*QM1', '\*' or blank\), or use QMGR"):
        from_jms("ANY", "QM1")


@pytest.mark.parametrize("word", ["any", "YES", ""])
def test_another_word_is_refused_with_those_there_are(word: str) -> None:
    with pytest.raises(ReconnectOptionError, match=", ".join(JMS_OPTIONS)):
        from_jms(word, "*")
