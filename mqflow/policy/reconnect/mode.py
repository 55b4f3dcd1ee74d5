"""Decides whether mqflow reconnects after a lost connection, and to which queue managers.

One table combines the option of the application with the administrator's default.
Source: IBM, "Reconnection options" (q108390) for the table; "Automatic JMS client reconnection with CCDTs" for the JMS names.
"""

from collections.abc import Mapping
from enum import Enum, IntEnum
from typing import Final

__all__ = (
    "JMS_OPTIONS",
    "MODES",
    "DefaultReconnect",
    "ReconnectMode",
    "ReconnectOption",
    "ReconnectOptionError",
    "default_reconnect",
    "from_jms",
    "reconnect_mode",
)


class DefaultReconnect(IntEnum):
    """DefRecon of mqclient.ini, or DEFRECON of the channel, with the numbers of MQRCN_*."""

    NO = 0
    YES = 1
    Q_MGR = 2
    DISABLED = 3


class ReconnectOption(IntEnum):
    """The option that the application sets, with the numbers of MQCNO_RECONNECT_*."""

    AS_DEF = 0
    RECONNECT = 0x01000000
    DISABLED = 0x02000000
    Q_MGR = 0x04000000


class ReconnectMode(Enum):
    """The reaction of mqflow to a lost connection."""

    NO = "no"
    """No reconnection: the application gets the error."""
    ANY = "any"
    """Reconnect to any queue manager that the channel table lists under the same name."""
    Q_MGR = "queue manager"
    """Reconnect to the same queue manager, at any address. A queue manager with another QMID is refused (2546)."""


class ReconnectOptionError(ValueError):
    """A word is not a reconnection option, or does not fit the name of the queue manager."""


_NO, _ANY, _Q_MGR = ReconnectMode.NO, ReconnectMode.ANY, ReconnectMode.Q_MGR
_ORDER: Final = (ReconnectOption.RECONNECT, ReconnectOption.Q_MGR, ReconnectOption.AS_DEF, ReconnectOption.DISABLED)

MODES: Final[Mapping[DefaultReconnect, Mapping[ReconnectOption, ReconnectMode]]] = {
    # application:                           RECONNECT, Q_MGR, AS_DEF, DISABLED
    DefaultReconnect.NO: dict(zip(_ORDER, (_ANY, _Q_MGR, _NO, _NO), strict=True)),
    DefaultReconnect.YES: dict(zip(_ORDER, (_ANY, _Q_MGR, _ANY, _NO), strict=True)),
    DefaultReconnect.Q_MGR: dict(zip(_ORDER, (_ANY, _Q_MGR, _Q_MGR, _NO), strict=True)),
    DefaultReconnect.DISABLED: dict(zip(_ORDER, (_NO, _NO, _NO, _NO), strict=True)),
}
"""The mode for each default and option. An administrator can forbid reconnection (DISABLED), and so can an application."""

JMS_OPTIONS: Final[Mapping[str, ReconnectOption]] = {
    "ANY": ReconnectOption.RECONNECT,
    "ASDEF": ReconnectOption.AS_DEF,
    "DISABLED": ReconnectOption.DISABLED,
    "QMGR": ReconnectOption.Q_MGR,
}
"""The values of CLIENTRECONNECTOPTIONS in a JMS connection factory."""


def reconnect_mode(default: DefaultReconnect, option: ReconnectOption) -> ReconnectMode:
    """Return the reaction to a lost connection."""
    return MODES[default][option]


def default_reconnect(configured: DefaultReconnect | None, channel: DefaultReconnect) -> DefaultReconnect:
    """Return the default that applies: DefRecon of mqclient.ini if it is set, otherwise the channel's DEFRECON."""
    return channel if configured is None else configured


def from_jms(word: str, queue_manager: str) -> ReconnectOption:
    """Return the option that CLIENTRECONNECTOPTIONS of a JMS connection factory means, if its QMANAGER is `queue_manager`.

    Raises `ReconnectOptionError` if the word is no value of CLIENTRECONNECTOPTIONS, and for ANY with the name of one queue
    manager. With ANY, QMANAGER must be "*", "*" and the name of a group, or blank.
    Source: IBM, "Automatic JMS client reconnection with CCDTs", table 1.
    """
    option = JMS_OPTIONS.get(word)
    if option is None:
        raise ReconnectOptionError(f"{word!r} is not a CLIENTRECONNECTOPTIONS; it takes {', '.join(JMS_OPTIONS)}.")
    if option is ReconnectOption.RECONNECT and queue_manager.strip() and not queue_manager.startswith("*"):
        raise ReconnectOptionError(
            f"ANY may lead to any queue manager of a group, but {queue_manager!r} names one. "
            f"Name a group ('*{queue_manager.strip()}', '*' or blank), or use QMGR."
        )
    return option
