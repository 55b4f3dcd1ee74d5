"""The PCF commands about connections, channels, listeners, services and clusters.

Source: IBM, "Inquire Connection" and its response, "Set Channel Authentication Record", "Start Channel", "Stop Channel",
"Start Channel Listener", "Stop Channel Listener", "Ping Channel", "Purge Channel", "Reset Channel", "Resolve Channel",
"Start Service", "Stop Service", "Refresh Cluster", "Reset Cluster", "Resume Queue Manager Cluster", "Suspend Queue Manager
Cluster", "Refresh Queue Manager".
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from mqflow.embedded.administration import not_running
from mqflow.embedded.administration.interface import Administration, ConnectionStatus
from mqflow.embedded.mqsc.commands import RemoveChannelRules, SetChannelRule
from mqflow.embedded.mqsc.connections import CONNECTION, CONNECTION_HANDLE, change_channels, connection_rows, external_name
from mqflow.embedded.pcf.queues import Command, Row
from mqflow.embedded.pcf.request import Request
from mqflow.embedded.pcf.selection import responses, wanted
from mqflow.embedded.rules.channel_authentication import ChannelRule, RuleType, UserSource
from mqflow.mqi.pcf.codes import CommandCode, ParameterId, PCFReason
from mqflow.mqi.pcf.structures import CFBS, CFIN, PCFError
from mqflow.mqi.reason_codes import Reason

__all__ = ("CONNECTION_COMMANDS",)

_ID_BYTES: Final = 24
_CHANNEL_NAME, _CONNECTION_NAME, _LISTENER_NAME, _ADDRESSES, _CLIENT_USER, _USERS, _MCA_USER, _DESCRIPTION = (
    3501, 3506, 3554, 3566, 3567, 3568, 3527, 2118
)  # fmt: skip
_RULE_TYPE, _ACTION, _USER_SOURCE, _WARNING, _MODE, _CHANNEL_STATUS = 1352, 1086, 1638, 1639, 1008, 1527
_DATA_COUNT, _SEQUENCE_NUMBER, _IN_DOUBT, _CHANNEL_TYPE, _CLIENT_ID = 1512, 1514, 1516, 1511, 3564
_SERVICE_NAME, _CLUSTER_NAME, _CLUSTER_NAMELIST, _REFRESH_REPOSITORY, _REFRESH_TYPE = 2077, 2029, 2030, 1095, 1078
_QUEUE_MANAGER_NAME, _QUEUE_MANAGER_IDENTIFIER, _REMOVE_QUEUES = 2015, 2032, 1096
# MQIDO_*, MQRT_*.
_COMMIT, _BACK_OUT = 1, 2
_REFRESHED: Final = {1: "CONFIGEV", 4: "PROXYSUB"}
# MQCAUT_*, MQUSRC_*, MQACT_*, MQCHS_*.
_TYPES: Final = {1: RuleType.BLOCKUSER, 2: RuleType.BLOCKADDR, 4: RuleType.ADDRESSMAP, 5: RuleType.USERMAP}
_OTHER_TYPES: Final = (3, 6)
_LISTS: Final = {RuleType.BLOCKUSER: _USERS, RuleType.BLOCKADDR: _ADDRESSES}
_SOURCES: Final = {0: UserSource.MAP, 1: UserSource.NOACCESS, 2: UserSource.CHANNEL}
_ADD, _REPLACE, _REMOVE, _REMOVE_ALL = 5, 6, 7, 8
_INACTIVE, _STOPPED = 0, 6


def _inquire(request: Request, administration: Administration) -> Iterable[Row]:
    """MQCMD_INQUIRE_CONNECTION: returns a response for each connection, for each of its handles, or both."""
    by_id = request.has(ParameterId.CONNECTION_ID)
    identifier = ParameterId.CONNECTION_ID if by_id else ParameterId.GENERIC_CONNECTION_ID
    request.check((identifier,), {ParameterId.CONN_INFO_TYPE, ParameterId.CONNECTION_ATTRS}, filters=True)
    types = (ParameterId.CONN_INFO_CONN, ParameterId.CONN_INFO_HANDLE, ParameterId.CONN_INFO_ALL)
    kind = request.choice(ParameterId.CONN_INFO_TYPE, types, types[0], PCFReason.PARM_VALUE_ERROR)
    queue_manager = administration.queue_manager.name
    chosen = [
        status
        for status in administration.objects.connections()
        if _matches(_identifier(status, queue_manager), request.bytes(identifier), whole=by_id)
    ]
    found = [
        row
        for status in chosen
        for part in ((kind,) if kind != ParameterId.CONN_INFO_ALL else types[:2])
        for row in _rows(request, status, queue_manager, part)
    ]
    if not found:
        raise PCFError(PCFReason.NONE_FOUND, detail="No connection matches", parameter=identifier)
    return found


def _stop(request: Request, administration: Administration) -> None:
    request.check((ParameterId.CONNECTION_ID,), (), filters=False)
    asked, queue_manager = request.bytes(ParameterId.CONNECTION_ID), administration.queue_manager.name
    for status in administration.objects.connections():
        if _matches(_identifier(status, queue_manager), asked, whole=True):
            administration.objects.stop_connection(status.identifier)
            return
    raise PCFError(PCFReason.CONNECTION_ID_ERROR, detail="No connection matches", parameter=ParameterId.CONNECTION_ID)


def _set_channel_rule(request: Request, administration: Administration) -> None:
    own = {_CONNECTION_NAME, _CLIENT_USER, _MCA_USER, _DESCRIPTION, _ACTION, _USER_SOURCE, _WARNING}
    request.check((_CHANNEL_NAME, _RULE_TYPE), own | set(_LISTS.values()), filters=False)
    number = request.choice(_RULE_TYPE, (*_TYPES, *_OTHER_TYPES), 0, PCFReason.CHLAUTH_TYPE_ERROR)
    if number in _OTHER_TYPES:
        detail = f"Records of type {number} are not enforced by the embedded queue manager, so it keeps none"
        raise PCFError(Reason.FUNCTION_NOT_SUPPORTED, detail=detail, parameter=_RULE_TYPE)
    profile, kind = request.text(_CHANNEL_NAME), _TYPES[number]
    listed = {_LISTS[kind]} if kind in _LISTS else set[int]()
    request.check((_CHANNEL_NAME, _RULE_TYPE), own | listed, filters=False)
    action = request.choice(_ACTION, (_ADD, _REPLACE, _REMOVE, _REMOVE_ALL), _ADD, PCFReason.CHLAUTH_ACTION_ERROR)
    if action == _REMOVE_ALL:
        change_channels(RemoveChannelRules(profile, kind), administration.channels)
        return
    rule = ChannelRule(
        profile=profile,
        type=kind,
        address=request.text(_CONNECTION_NAME),
        client_user=request.text(_CLIENT_USER),
        blocked=tuple(each.rstrip(" \0") for parameter in listed for each in request.texts(parameter)),
        source=_SOURCES[request.choice(_USER_SOURCE, tuple(_SOURCES), 0, PCFReason.CHLAUTH_USERSRC_ERROR)],
        mca_user=request.text(_MCA_USER),
        warn=request.yes(_WARNING, PCFReason.PARM_VALUE_ERROR),
        description=request.text(_DESCRIPTION),
    )
    change_channels(SetChannelRule(rule, action == _REPLACE, action == _REMOVE), administration.channels)


def _start_channel(request: Request, administration: Administration) -> None:
    request.check((_CHANNEL_NAME,), (), filters=False)
    administration.channels.start(request.name(_CHANNEL_NAME, PCFReason.CHANNEL_NAME_ERROR))


def _stop_channel(request: Request, administration: Administration) -> None:
    request.check((_CHANNEL_NAME,), {_CONNECTION_NAME, _MODE, _CHANNEL_STATUS}, filters=False)
    address = request.text(_CONNECTION_NAME)
    status = _INACTIVE if address else _STOPPED
    choices = (_INACTIVE,) if address else (_INACTIVE, _STOPPED)
    stays = request.choice(_CHANNEL_STATUS, choices, status, PCFReason.PARM_VALUE_ERROR) == _STOPPED
    name = request.name(_CHANNEL_NAME, PCFReason.CHANNEL_NAME_ERROR)
    administration.channels.stop(name, address=address, stays_stopped=stays)


def _start_listener(request: Request, administration: Administration) -> None:
    request.check((_LISTENER_NAME,), (), filters=False)
    administration.channels.start_listener(request.name(_LISTENER_NAME))


def _stop_listener(request: Request, administration: Administration) -> None:
    request.check((_LISTENER_NAME,), (), filters=False)
    administration.channels.stop_listener(request.name(_LISTENER_NAME))


def _asked_of_channel(verb: not_running.ChannelVerb) -> Callable[[Request], not_running.Asked]:
    return lambda request: not_running.AboutChannel(
        verb, request.name(_CHANNEL_NAME, PCFReason.CHANNEL_NAME_ERROR), request.number(_SEQUENCE_NUMBER, 1)
    )


def _asked_of_cluster(verb: not_running.ClusterVerb) -> Callable[[Request], not_running.Asked]:
    return lambda request: not_running.AboutCluster(
        verb, request.pattern(_CLUSTER_NAMELIST if request.has(_CLUSTER_NAMELIST) else _CLUSTER_NAME)
    )


def _resolve(request: Request) -> not_running.Asked:
    request.choice(_IN_DOUBT, (_COMMIT, _BACK_OUT), _COMMIT, PCFReason.PARM_VALUE_ERROR)
    return _asked_of_channel("RESOLVE CHANNEL")(request)


def _refresh(request: Request) -> not_running.Asked:
    return not_running.RefreshQueueManager(
        _REFRESHED[request.choice(_REFRESH_TYPE, tuple(_REFRESHED), 0, PCFReason.PARM_VALUE_ERROR)]
    )


def _answered(
    read: Callable[[Request], not_running.Asked], required: Sequence[int], optional: Collection[int] | None = ()
) -> Callable[[Request, Administration], None]:
    def command(request: Request, administration: Administration) -> None:
        request.check(required, optional, filters=False)
        not_running.answer(read(request), administration)

    return command


_CLUSTERS: Final = {_CLUSTER_NAME, _CLUSTER_NAMELIST}
_WITHOUT_EFFECT: Final[Mapping[CommandCode, Command]] = {
    CommandCode.PING_CHANNEL: _answered(_asked_of_channel("PING CHANNEL"), (_CHANNEL_NAME,), {_DATA_COUNT}),
    CommandCode.PURGE_CHANNEL: _answered(_asked_of_channel("PURGE CHANNEL"), (_CHANNEL_NAME,), {_CHANNEL_TYPE, _CLIENT_ID}),
    CommandCode.RESET_CHANNEL: _answered(_asked_of_channel("RESET CHANNEL"), (_CHANNEL_NAME,), {_SEQUENCE_NUMBER}),
    CommandCode.RESOLVE_CHANNEL: _answered(_resolve, (_CHANNEL_NAME, _IN_DOUBT)),
    CommandCode.START_SERVICE: _answered(
        lambda request: not_running.AboutService("START SERVICE", request.name(_SERVICE_NAME)), (_SERVICE_NAME,)
    ),
    CommandCode.STOP_SERVICE: _answered(
        lambda request: not_running.AboutService("STOP SERVICE", request.name(_SERVICE_NAME)), (_SERVICE_NAME,)
    ),
    CommandCode.REFRESH_CLUSTER: _answered(_asked_of_cluster("REFRESH CLUSTER"), (_CLUSTER_NAME,), {_REFRESH_REPOSITORY}),
    CommandCode.RESET_CLUSTER: _answered(
        _asked_of_cluster("RESET CLUSTER"),
        (_CLUSTER_NAME,),
        {_QUEUE_MANAGER_NAME, _QUEUE_MANAGER_IDENTIFIER, _ACTION, _REMOVE_QUEUES},
    ),
    CommandCode.RESUME_Q_MGR_CLUSTER: _answered(_asked_of_cluster("RESUME QMGR"), (), _CLUSTERS),
    CommandCode.SUSPEND_Q_MGR_CLUSTER: _answered(_asked_of_cluster("SUSPEND QMGR"), (), _CLUSTERS | {_MODE}),
    CommandCode.REFRESH_Q_MGR: _answered(_refresh, (_REFRESH_TYPE,), None),
}
"""The commands about message channels, services and clusters. They change nothing."""


def _rows(request: Request, status: ConnectionStatus, queue_manager: str, kind: int) -> Iterator[Row]:
    handles = kind == ParameterId.CONN_INFO_HANDLE
    specs = tuple((CONNECTION_HANDLE if handles else CONNECTION).values())
    rows = ((row, specs) for row in connection_rows((status,), queue_manager, handles=handles))
    always = CFBS(ParameterId.CONNECTION_ID, _identifier(status, queue_manager)), CFIN(ParameterId.CONN_INFO_TYPE, kind)
    for row in responses(rows, wanted(request, ParameterId.CONNECTION_ATTRS, ()), request.filter):
        yield (*always, *row)


def _identifier(status: ConnectionStatus, queue_manager: str) -> bytes:
    """Return the 24 bytes of MQ's connection identifier: first EXTCONN, then CONN."""
    return external_name(queue_manager) + bytes.fromhex(status.identifier)


def _matches(identifier: bytes, asked: bytes, *, whole: bool) -> bool:
    """Return whether the identifier begins with `asked`. The NULs at the end of `asked` do not count."""
    stem = asked.rstrip(b"\0")
    return identifier.startswith(stem) and (not whole or len(stem) == _ID_BYTES)


CONNECTION_COMMANDS: Final[Mapping[CommandCode, Command]] = {
    CommandCode.INQUIRE_CONNECTION: _inquire,
    CommandCode.STOP_CONNECTION: _stop,
    CommandCode.SET_CHLAUTH_REC: _set_channel_rule,
    CommandCode.START_CHANNEL: _start_channel,
    CommandCode.STOP_CHANNEL: _stop_channel,
    CommandCode.START_CHANNEL_LISTENER: _start_listener,
    CommandCode.STOP_CHANNEL_LISTENER: _stop_listener,
    **_WITHOUT_EFFECT,
}
