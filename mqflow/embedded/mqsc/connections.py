"""The commands about connections and their handles, and about channels, listeners, services and clusters.

This file knows the words of these commands. The queue manager knows the rules.
Source: IBM, DISPLAY CONN; MQCACF_*, MQIACF_* numbers; SET CHLAUTH; START, STOP CHANNEL and LISTENER; PING, PURGE, RESET and
RESOLVE CHANNEL; REFRESH and RESET CLUSTER; REFRESH, RESUME and SUSPEND QMGR.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, assert_never

from msgspec.structs import asdict

from mqflow.embedded.administration import not_running
from mqflow.embedded.administration.interface import ChannelAdministration, ConnectionStatus
from mqflow.embedded.mqsc import commands
from mqflow.embedded.mqsc.clauses import Clause, Parameters, bare, choice, name_of, single
from mqflow.embedded.mqsc.display import Record, laid_out, matches
from mqflow.embedded.mqsc.lexer import RefusedError
from mqflow.embedded.mqsc.vocabulary import keyword_table
from mqflow.embedded.rules.channel_authentication import ChannelRule, RuleType, UserSource
from mqflow.mqi.attributes.queue import AttributeSpec
from mqflow.mqi.options import ApplicationType

__all__ = (
    "ASKING",
    "CONNECTION",
    "CONNECTION_HANDLE",
    "RESETTING",
    "RULE_IGNORED",
    "RULE_WORDS",
    "STOPPING",
    "about_channel",
    "about_cluster",
    "about_service",
    "asked",
    "build_channel_rule",
    "build_refresh",
    "build_stop_channel",
    "change_channels",
    "connection_rows",
    "external_name",
    "order_by_name",
    "show_connections",
)

_OF_OTHER_TYPES: Final = frozenset({"QMNAME", "SSLCERTI", "SSLPEER"})
_OTHER_TYPES: Final = ("QMGRMAP", "SSLPEERMAP")
_PARTNER: Final = ("ADDRESS", "CLNTUSER", "USERLIST", "ADDRLIST")
RULE_WORDS: Final = {
    word: word for word in ("TYPE", "ACTION", *_PARTNER, "USERSRC", "MCAUSER", "WARN", "DESCR", *_OF_OTHER_TYPES)
}
RULE_IGNORED: Final = frozenset({"CHCKCLNT", "CMDSCOPE", "CUSTOM"})
ASKING: Final = ("ADDRESS", "CLNTUSER")
STOPPING: Final = {word: word for word in ("CONNAME", "MODE", "STATUS")}
RESETTING: Final = keyword_table((AttributeSpec("sequence_number", "SEQNUM", 1514, low=1, high=999_999_999),))

# MQAT_USER and MQAT_QMGR.
_USER: Final = 25
_SYSTEM: Final = int(ApplicationType.QMGR)
_WHOSE: Final = (
    AttributeSpec("identifier", "CONN", 0, chars=16, read_only=True),
    AttributeSpec("external", "EXTCONN", 0, chars=32, read_only=True),
    AttributeSpec("type", "TYPE", 0, chars=8, read_only=True),
)
CONNECTION: Final = keyword_table(
    (
        *_WHOSE,
        AttributeSpec("application", "APPLTAG", 3058, chars=28),
        AttributeSpec("application_type", "APPLTYPE", 1, words={"USER": _USER, "SYSTEM": _SYSTEM}),
        AttributeSpec("user", "USERID", 3025, chars=12),
        AttributeSpec("unit_of_work", "UOWSTATE", 1128, words={"NONE": 0, "ACTIVE": 1}),
        AttributeSpec("channel", "CHANNEL", 3501, chars=20),
        AttributeSpec("address", "CONNAME", 3506, chars=264),
        AttributeSpec("process", "PID", 1024, high=2**31 - 1),
    )
)
CONNECTION_HANDLE: Final = keyword_table(
    (
        *_WHOSE,
        AttributeSpec("name", "OBJNAME", 3046, chars=48),
        AttributeSpec("object_type", "OBJTYPE", 1016, words={"QUEUE": 1, "NAMELIST": 2, "PROCESS": 3, "QMGR": 5, "TOPIC": 8}),
        AttributeSpec("options", "OPENOPTS", 1022, high=2**31 - 1),
    )
)


def build_channel_rule(
    subject: Clause, parameters: Parameters
) -> commands.SetChannelRule | commands.RemoveChannelRules | commands.Unsupported:
    """Return the action of a SET CHLAUTH command, or `Unsupported` for a type of record that mqflow does not enforce."""
    options = parameters.options
    if "TYPE" not in options:
        raise RefusedError(subject.keyword, f"SET CHLAUTH needs TYPE: {', '.join(RuleType)}.")
    word = choice(options, "TYPE", (*RuleType, *_OTHER_TYPES))
    if word in _OTHER_TYPES:
        return commands.Unsupported(f"SET CHLAUTH TYPE({word})")
    for stranger in _OF_OTHER_TYPES & options.keys():
        raise RefusedError(options[stranger].keyword, f"{stranger} does not belong to TYPE({word}).")
    profile, kind = single(subject).folded, RuleType(word)
    action = choice(options, "ACTION", ("ADD", "REPLACE", "REMOVE", "REMOVEALL"))
    if action == "REMOVEALL":
        return commands.RemoveChannelRules(profile, kind)

    lists = {RuleType.BLOCKUSER: "USERLIST", RuleType.BLOCKADDR: "ADDRLIST"}
    for stranger in set(lists.values()) & options.keys() - {lists.get(kind)}:
        raise RefusedError(options[stranger].keyword, f"{stranger} does not belong to TYPE({word}).")
    listed = options.get(lists.get(kind, ""))

    def text(keyword: str) -> str:
        return single(options[keyword]).folded if keyword in options else ""

    rule = ChannelRule(
        profile=profile,
        type=kind,
        address=text("ADDRESS"),
        client_user=text("CLNTUSER"),
        blocked=tuple(token.folded for token in listed.arguments or ()) if listed is not None else (),
        source=UserSource(choice(options, "USERSRC", tuple(UserSource))),
        mca_user=text("MCAUSER"),
        warn=choice(options, "WARN", ("NO", "YES")) == "YES",
        description=text("DESCR"),
    )
    return commands.SetChannelRule(rule, replace=action == "REPLACE", removes=action == "REMOVE")


def asked(options: Mapping[str, Clause], word: str, subject: Clause) -> str:
    """Return the address or the user in the brackets, for MATCH(RUNCHECK)."""
    if word not in options or options[word].arguments is None:
        raise RefusedError(subject.keyword, "MATCH(RUNCHECK) needs ADDRESS('10.0.0.1') and CLNTUSER('user').")
    return single(options[word]).folded


def build_stop_channel(subject: Clause, parameters: Parameters) -> commands.StopChannel:
    """Return the action of a STOP CHANNEL command. Every MODE lets the present call end, and backs out units of work."""
    options = parameters.options
    choice(options, "MODE", ("QUIESCE", "FORCE", "TERMINATE"))
    address = single(options["CONNAME"]).folded if "CONNAME" in options else ""
    stays_stopped = choice(options, "STATUS", ("INACTIVE", "STOPPED") if address else ("STOPPED", "INACTIVE")) == "STOPPED"
    if address and stays_stopped:
        raise RefusedError(options["STATUS"].keyword, "STATUS(STOPPED) is for all clients of a channel: leave CONNAME out.")
    return commands.StopChannel(name_of(subject), address, stays_stopped)


def order_by_name(verb: commands.OrderVerb, subject: Clause, _parameters: Parameters) -> commands.OrderByName:
    """Return the action of START CHANNEL, START LISTENER or STOP LISTENER."""
    return commands.OrderByName(verb, name_of(subject))


def about_channel(verb: not_running.ChannelVerb, subject: Clause, parameters: Parameters) -> not_running.AboutChannel:
    """Return the action of PING, PURGE, RESET or RESOLVE CHANNEL."""
    if verb == "RESOLVE CHANNEL":
        _needed(subject, parameters, "ACTION", ("COMMIT", "BACKOUT"))
    return not_running.AboutChannel(verb, name_of(subject), **parameters.values)  # type: ignore[arg-type]  # RESETTING has only numbers


def about_service(
    verb: Literal["START SERVICE", "STOP SERVICE"], subject: Clause, _parameters: Parameters
) -> not_running.AboutService:
    """Return the action of START or STOP SERVICE."""
    return not_running.AboutService(verb, name_of(subject))


def about_cluster(verb: not_running.ClusterVerb, subject: Clause, parameters: Parameters) -> not_running.AboutCluster:
    """Return the action of REFRESH CLUSTER, RESET CLUSTER, RESUME QMGR or SUSPEND QMGR."""
    options = parameters.options
    if verb == "RESET CLUSTER":
        _needed(subject, parameters, "ACTION", ("FORCEREMOVE",))
    if verb in {"REFRESH CLUSTER", "RESET CLUSTER"}:
        named = subject
    else:
        bare(subject)
        choice(options, "MODE", ("QUIESCE", "FORCE"))
        given = [options[word] for word in ("CLUSTER", "CLUSNL") if word in options]
        if len(given) != 1:
            raise RefusedError(subject.keyword, f"{verb} needs one of CLUSTER and CLUSNL.")
        [named] = given
    if verb == "REFRESH CLUSTER" and single(named).folded == "*":
        return not_running.AboutCluster(verb, "*")
    return not_running.AboutCluster(verb, name_of(named))


def build_refresh(subject: Clause, parameters: Parameters) -> not_running.RefreshQueueManager:
    """Return the action of a REFRESH QMGR command."""
    bare(subject)
    return not_running.RefreshQueueManager(_needed(subject, parameters, "TYPE", ("CONFIGEV", "PROXYSUB")))


def _needed(subject: Clause, parameters: Parameters, keyword: str, words: tuple[str, ...]) -> str:
    if keyword not in parameters.options:
        raise RefusedError(subject.keyword, f"The command needs {keyword}: one of {', '.join(words)}.")
    return choice(parameters.options, keyword, words)


_ORDERS: Final[Mapping[commands.OrderVerb, tuple[Callable[[ChannelAdministration, str], None], str]]] = {
    "START CHANNEL": (lambda channels, name: channels.start(name), "AMQ8018: Channel {} takes client programs."),
    "START LISTENER": (lambda channels, name: channels.start_listener(name), "AMQ8021: Listener {} accepts connections."),
    "STOP LISTENER": (lambda channels, name: channels.stop_listener(name), "AMQ8706: Listener {} refuses new connections."),
}


def change_channels(action: commands.ChannelAct, channels: ChannelAdministration) -> str:
    """Carry the action out, and return a confirmation."""
    match action:
        case commands.SetChannelRule(rule, removes=True):
            channels.remove_rule(rule)
            return f"The channel authentication record of {rule.profile} is removed."
        case commands.SetChannelRule(rule, replace):
            channels.set_rule(rule, replace=replace)
            return f"AMQ8877: The channel authentication record of {rule.profile} is set."
        case commands.RemoveChannelRules(profile, kind):
            channels.remove_rules(profile, kind)
            return f"The {kind} records of {profile} are removed."
        case commands.StopChannel(name, address, stays_stopped):
            channels.stop(name, address=address, stays_stopped=stays_stopped)
            return f"AMQ8019: Channel {name} stops."
        case commands.OrderByName(verb, name):
            carry_out, done = _ORDERS[verb]
            carry_out(channels, name)
            return done.format(name)
        case unknown:
            assert_never(unknown)


def show_connections(
    connections: Iterable[ConnectionStatus], queue_manager: str, command: commands.DisplayConnections
) -> tuple[Record, ...]:
    """Return the connections that the command selects, or their open handles."""
    shown: list[Record] = []
    for status in connections:
        if not matches(command.pattern, status.identifier):
            continue
        for handles in (False, True) if command.handles is None else (command.handles,):
            rows = connection_rows((status,), queue_manager, handles=handles)
            attributes = CONNECTION_HANDLE if handles else CONNECTION
            shown += laid_out("AMQ8276: Connection details.", rows, attributes, ("CONN", "EXTCONN", "TYPE"), command.selection)
    return tuple(shown)


def external_name(queue_manager: str) -> bytes:
    """Return EXTCONN: AMQC and the queue manager's name, the same for all connections (DISPLAY CONN)."""
    return f"AMQC{queue_manager:<12.12}".encode("ascii", "replace")


def connection_rows(
    connections: Iterable[ConnectionStatus], queue_manager: str, *, handles: bool
) -> Iterator[Mapping[str, Any]]:  # Any: the table of attributes gives each value its type
    """Yield a row for each connection. With `handles`, yield a row for each open handle instead."""
    external = external_name(queue_manager).hex().upper()
    for status in connections:
        whose = {"identifier": status.identifier, "external": external, "type": "HANDLE" if handles else "CONN"}
        if handles:
            for handle in status.handles:
                yield whose | asdict(handle)
        else:
            own = {
                "application_type": _SYSTEM if status.system else _USER,
                "unit_of_work": min(status.operations, 1),
                "channel": status.channel,
                "address": status.address,
                "process": status.process,
            }
            yield whose | {"application": status.application, "user": status.user} | own
