"""The PCF commands about statuses. The table in `mqsc.status` gives their responses.

Source: IBM, "Inquire Queue Manager Status", "Inquire Pub/Sub Status", "Inquire Topic Status", "Inquire Subscription Status",
"Inquire Channel Listener Status", "Inquire Service Status", "Reset Queue Statistics" and their responses.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from msgspec import Struct

from mqflow.embedded.administration.interface import Administration
from mqflow.embedded.mqsc.commands import StatusNoun
from mqflow.embedded.mqsc.connections import external_name
from mqflow.embedded.mqsc.status import STATUSES, rows_of
from mqflow.embedded.pcf.queues import Row
from mqflow.embedded.pcf.request import Request
from mqflow.embedded.pcf.selection import is_chosen, responses, wanted
from mqflow.mqi.pcf.codes import CommandCode, ParameterId, PCFReason
from mqflow.mqi.pcf.structures import CFBS, CFIN, Parameter, PCFError

__all__ = ("STATUS_COMMANDS",)

_P: Final = ParameterId
_CHANNEL_NAME: Final = 3501
_Q_NAME, _Q_MGR_NAME, _TOPIC_STRING, _SUB_NAME, _SUB_ID = 2016, 2015, 2094, 3152, 7016
_LISTENER_NAME, _SERVICE_NAME, _DURABLE = 3554, 2077, 1274


class _Command(Struct, frozen=True):
    """One command: the status that it shows, and its parameters."""

    noun: StatusNoun
    #: The parameter of the name; 0 if the command has no name.
    name: int
    #: The parameter that lists the attributes; 0 if the command has no such list.
    attributes: int = 0
    optional: frozenset[int] = frozenset()
    #: The optional parameters that choose objects by their values.
    choices: frozenset[int] = frozenset()
    #: The attributes in every response, even if the list of the command leaves them out.
    always: tuple[int, ...] = ()


_INQUIRE: Final[Mapping[CommandCode, _Command]] = {
    CommandCode.INQUIRE_Q_MGR_STATUS: _Command(
        "QMSTATUS", 0, _P.Q_MGR_STATUS_ATTRS, frozenset({1445}), always=(_Q_MGR_NAME, 1149)
    ),
    CommandCode.INQUIRE_PUBSUB_STATUS: _Command(
        "PUBSUB", 0, _P.PUBSUB_STATUS_ATTRS, choices=frozenset({_P.PS_STATUS_TYPE}), always=(_Q_MGR_NAME, 1314)
    ),
    CommandCode.INQUIRE_LISTENER_STATUS: _Command("LSSTATUS", _LISTENER_NAME, 1223),
    # The choices are instance type, transmission queue and address. Client programs have no transmission queue.
    CommandCode.INQUIRE_CHANNEL_STATUS: _Command(
        "CHSTATUS",
        _CHANNEL_NAME,
        1524,
        choices=frozenset({1523, 3505, 3506}),
        always=(_CHANNEL_NAME, 1511, 1523, 1527, 1543, 3506, 3548),
    ),
    CommandCode.INQUIRE_SERVICE_STATUS: _Command("SVSTATUS", _SERVICE_NAME, 1225),
    CommandCode.INQUIRE_CLUSTER_Q_MGR: _Command("CLUSQMGR", 2031, 1093),
    CommandCode.INQUIRE_CHLAUTH_RECS: _Command("CHLAUTH", 3501, 1355, choices=frozenset({1352})),
    CommandCode.RESET_Q_STATS: _Command("QSTATS", _Q_NAME),
}


def _inquire(command: _Command, request: Request, administration: Administration) -> Iterable[Row]:
    taken = command.optional | command.choices | ({command.attributes} if command.attributes else frozenset())
    request.check((command.name,) if command.name else (), taken, filters=bool(command.attributes))
    name = request.pattern(command.name) if command.name else ""
    selectors = wanted(request, command.attributes, command.always) if command.attributes else None
    return _responses(command.noun, name, selectors, request, administration, choices=command.choices)


def _inquire_topic_status(request: Request, administration: Administration) -> Iterable[Row]:
    """MQCMD_INQUIRE_TOPIC_STATUS: returns the status of topics, of their subscribers or of their publishers."""
    request.check((_TOPIC_STRING,), {_P.TOPIC_STATUS_TYPE, _P.TOPIC_STATUS_ATTRS}, filters=True)
    nouns: dict[int, StatusNoun] = {
        _P.TOPIC_STATUS: "TPSTATUS", _P.TOPIC_SUB: "TPSTATUS SUB", _P.TOPIC_PUB: "TPSTATUS PUB"
    }  # fmt: skip
    kind = request.choice(_P.TOPIC_STATUS_TYPE, tuple(nouns), _P.TOPIC_STATUS, PCFReason.PARM_VALUE_ERROR)
    selectors = wanted(request, _P.TOPIC_STATUS_ATTRS, (_TOPIC_STRING,))
    rows = _responses(nouns[kind], request.text(_TOPIC_STRING), selectors, request, administration)
    return [(*row, CFIN(_P.TOPIC_STATUS_TYPE, kind)) for row in rows]


def _inquire_subscription_status(request: Request, administration: Administration) -> Iterable[Row]:
    """MQCMD_INQUIRE_SUB_STATUS: finds the subscriptions by name, by generic name or by identifier."""
    by_name = request.has(_SUB_NAME)
    choices = frozenset({_P.SUB_TYPE, _DURABLE})
    request.check((_SUB_NAME,) if by_name else (_SUB_ID,), choices | {_P.SUB_STATUS_ATTRS}, filters=True)
    selectors = wanted(request, _P.SUB_STATUS_ATTRS, (_SUB_NAME,))
    digits = "" if by_name else request.bytes(_SUB_ID).ljust(24, b"\0").hex().upper()
    name = request.text(_SUB_NAME) if by_name else "*"
    return _responses("SBSTATUS", name, selectors, request, administration, identifier=digits, choices=choices)


def _responses(
    noun: StatusNoun,
    name: str,
    selectors: frozenset[int] | None,
    request: Request,
    administration: Administration,
    *,
    identifier: str = "",
    choices: frozenset[int] = frozenset(),
) -> Iterable[Row]:
    kind = STATUSES[noun]
    rows = [
        row
        for row in rows_of(noun, name, administration)
        if (not identifier or row["identifier"] == identifier) and is_chosen(request, choices, row, kind.specs)
    ]
    queue_manager = administration.queue_manager.name
    found = [
        (*parameters, *_byte_strings(row, queue_manager))
        for row in rows
        for parameters in responses([(row, kind.specs)], selectors, request.filter)
    ]
    if not found:
        raise PCFError(kind.nothing, detail="Nothing has this identifier and these values, or passes the filter")
    return found


# Any: the table of attributes gives each value its type.
def _byte_strings(row: Mapping[str, Any], queue_manager: str) -> Iterable[Parameter]:
    """Yield SUBID and ACTCONN of the row as byte strings. In MQSC, these values are hexadecimal digits."""
    if "identifier" in row and "connection" in row:
        yield CFBS(_SUB_ID, bytes.fromhex(row["identifier"]))
    if row.get("connection"):
        yield CFBS(_P.CONNECTION_ID, external_name(queue_manager) + bytes.fromhex(row["connection"]))


STATUS_COMMANDS: Final[Mapping[CommandCode, Callable[[Request, Administration], Iterable[Row] | None]]] = {
    **{code: partial(_inquire, command) for code, command in _INQUIRE.items()},
    CommandCode.INQUIRE_TOPIC_STATUS: _inquire_topic_status,
    CommandCode.INQUIRE_SUB_STATUS: _inquire_subscription_status,
}
