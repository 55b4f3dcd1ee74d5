"""The status commands: DISPLAY of queue manager, publish/subscribe, channel and other statuses, and RESET QSTATS.

Each status is a row of one table, which MQSC and PCF both read. This module knows the fields of each status, but no queue.
Source: IBM, DISPLAY QMSTATUS, PUBSUB, LSSTATUS, SVSTATUS and TPSTATUS, RESET QSTATS; MQIACF_*, MQCACF_* numbers.
UNCERTAIN: TPCOUNT is the number of topics that DISPLAY TPSTATUS('#') shows; IBM counts the nodes of its topic tree.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import asdict

from mqflow.embedded.administration.interface import Administration, ChannelRule
from mqflow.embedded.mqsc.commands import DisplayDecidingRule, DisplayStatusOf, StatusNoun
from mqflow.embedded.mqsc.display import Record, laid_out, matches
from mqflow.embedded.mqsc.vocabulary import keyword_table
from mqflow.mqi.attributes.queue import COUNT_MAX, AttributeSpec
from mqflow.mqi.attributes.queue_manager import QUEUE_MANAGER_ATTRIBUTES
from mqflow.mqi.attributes.subscription import row_of
from mqflow.mqi.attributes.topic import AS_PARENT, TOPIC_ATTRIBUTES
from mqflow.mqi.errors import UnknownObjectError, error_for
from mqflow.mqi.options import QueueType
from mqflow.mqi.pcf.codes import PCFReason
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.topic_strings import Scheme
from mqflow.mqi.topic_strings import matches as topic_matches

__all__ = ("STATUSES", "StatusKind", "of_local_queues", "rows_of", "show_deciding_rule", "show_status_of")

# Any: the table of attributes gives each value its type.
_Row = Mapping[str, Any]
_Answer = TypeVar("_Answer")
_STATES: Final = {"STOPPED": 0, "STARTING": 1, "RUNNING": 2}
_YES_NO: Final = {"NO": 0, "YES": 1}


class StatusKind(Struct, frozen=True):
    """One kind of status: its attributes, and the function that finds its rows."""

    heading: str
    specs: tuple[AttributeSpec, ...]
    #: The keywords that come first.
    always: tuple[str, ...]
    #: Returns a row for each object that the name or the generic name matches.
    rows: Callable[[Administration, str], Iterable[_Row]]
    #: The reason code if no object matches.
    nothing: int = Reason.UNKNOWN_OBJECT_NAME
    #: True if the command takes a name in brackets.
    named: bool = True


def rows_of(noun: StatusNoun, name: str, administration: Administration) -> tuple[_Row, ...]:
    """Return the rows of a status. If no object matches the name, raises `MQIError` with the reason of this kind of status."""
    kind = STATUSES[noun]
    rows = tuple(kind.rows(administration, name))
    if not rows:
        command, detail = ("RESET QSTATS", "") if noun == "QSTATS" else (f"DISPLAY {noun}", "Nothing matches the command")
        raise error_for(kind.nothing, command, name, administration.queue_manager.name, detail)
    return rows


def of_local_queues(administration: Administration, pattern: str, ask: Callable[[str], _Answer]) -> list[_Answer]:
    """Return the answer about each local queue with this name or generic name, sorted by name.

    Other programs can delete queues meanwhile: the list leaves out a queue without an answer, because it does not exist.
    """
    answers: list[_Answer] = []
    for queue in administration.queues():
        if queue.kind is QueueType.LOCAL and matches(pattern, queue.name):
            try:
                answers.append(ask(queue.name))
            except UnknownObjectError:
                continue
    return answers


def show_status_of(action: DisplayStatusOf, administration: Administration) -> tuple[Record, ...]:
    """Return the records of a status."""
    kind = STATUSES[action.noun]
    rows = rows_of(action.noun, action.pattern, administration)
    return tuple(laid_out(kind.heading, rows, keyword_table(kind.specs), kind.always, action.selection))


def show_deciding_rule(action: DisplayDecidingRule, administration: Administration) -> tuple[Record, ...]:
    """Return the record that accepts or refuses a client program. Raises 3338 if no record matches."""
    kind = STATUSES["CHLAUTH"]
    rule = administration.channels.deciding_rule(action.pattern, action.address, action.user)
    if rule is None:
        raise error_for(kind.nothing, "DISPLAY CHLAUTH", action.pattern, administration.queue_manager.name)
    return tuple(laid_out(kind.heading, [_rule_row(rule)], keyword_table(kind.specs), kind.always, action.selection))


def _queue_manager(administration: Administration, _name: str) -> Iterator[_Row]:
    # The command server runs as long as the queue manager. There is no channel initiator and no standby instance.
    yield asdict(administration.status) | {"command_server": 2, "channel_initiator": 0, "standby": 0}


def _publish_subscribe(administration: Administration, _name: str) -> Iterator[_Row]:
    publishing = administration.publishing
    yield {
        "name": administration.queue_manager.name,
        "type": _LOCAL,
        "status": _ENGINE_ONLY,
        "subscription_count": len(publishing.subscriptions()),
        "topic_count": len(publishing.topic_statuses()),
    }


def _channels(administration: Administration, name: str) -> Iterator[_Row]:
    for channel in administration.channels.statuses():
        if matches(name, channel.name):
            row = asdict(channel)
            counts = {name: row[name] % (COUNT_MAX + 1) for name in _CHANNEL_COUNTS}
            stops = channel.status == _STOPPING
            yield row | counts | {"type": _SVRCONN, "current": _CURRENT, "stop_requested": int(stops)}


def _listeners(administration: Administration, name: str) -> Iterator[_Row]:
    defined = {found.name: found.values for found in administration.objects.all("LISTENER")}
    for listener in administration.channels.listeners():
        if matches(name, listener.name):
            described = {field: defined.get(listener.name, {}).get(field, default) for field, default in _OF_LISTENERS.items()}
            yield asdict(listener) | described | {"status": _RUNNING, "transport": _TCP}


def _rule_row(rule: ChannelRule) -> _Row:
    # A record that blocks has no USERSRC.
    source = None if rule.is_block else _USER_SOURCES[rule.source]
    blocked = {"BLOCKUSER": "users", "BLOCKADDR": "addresses"}
    lists = {name: rule.blocked if blocked.get(rule.type) == name else () for name in blocked.values()}
    return asdict(rule) | {"type": _RULE_TYPES[rule.type], "source": source} | lists


def _applications(administration: Administration, name: str) -> Iterator[_Row]:
    counts = Counter(each.application for each in administration.objects.connections() if not each.system)
    for application, count in sorted(counts.items()):
        if matches(name, application):
            # No cluster balances the connections, so no connection is movable.
            yield {
                "name": application,
                "type": "APPL",
                "cluster": "",
                "count": count,
                "movable": 0,
                "balanced": _NOT_APPLICABLE,
            }


def _none(_administration: Administration, _name: str) -> Iterable[_Row]:
    return ()


def _topics(administration: Administration, pattern: str) -> Iterator[_Row]:
    for found in administration.publishing.topic_statuses():
        if topic_matches(pattern, Scheme.TOPIC, found.topic_string):
            yield asdict(found.attributes) | asdict(found) | {"publisher_count": found.publisher_count}


def _publishers(administration: Administration, pattern: str) -> Iterator[_Row]:
    for found in administration.publishing.topic_statuses():
        if topic_matches(pattern, Scheme.TOPIC, found.topic_string):
            for publisher in found.publishers:
                yield asdict(publisher) | {"topic_string": found.topic_string}


def _subscribers(administration: Administration, pattern: str) -> Iterator[_Row]:
    for status in administration.publishing.subscriptions():
        if topic_matches(pattern, Scheme.TOPIC, status.attributes.topic_string):
            yield row_of(status.attributes) | {**asdict(status), "attributes": None}


def _subscriptions(administration: Administration, name: str) -> Iterator[_Row]:
    for status in administration.publishing.subscriptions():
        if matches(name, status.attributes.name):
            yield row_of(status.attributes) | {**asdict(status), "attributes": None}


def _text(field: str, keyword: str, selector: int, chars: int) -> AttributeSpec:
    return AttributeSpec(field, keyword, selector, chars=chars)


def _number(field: str, keyword: str, selector: int) -> AttributeSpec:
    return AttributeSpec(field, keyword, selector, high=COUNT_MAX)


# MQPSST_LOCAL; MQPS_STATUS_COMPAT: the engine runs, but not the queued publish/subscribe interface.
_LOCAL, _ENGINE_ONLY = 1, 4
# MQSVC_STATUS_RUNNING; MQXPT_TCP; the defaults of a listener without a definition.
_RUNNING, _TCP = 2, 2
# MQCHT_SVRCONN; MQOT_CURRENT_CHANNEL; MQCAUT_*; MQUSRC_*.
_SVRCONN, _CURRENT = 7, 1011
# MQCHS_STOPPING: only then is a request to stop outstanding.
_STOPPING = 4
_CHANNEL_COUNTS: Final = ("call_count", "bytes_sent", "bytes_received", "buffers_sent", "buffers_received")
"""The counts of a channel that begin again at 0 after 999,999,999. Source: IBM, q087560, for bytes and buffers only."""
# MQBALANCED_NOT_APPLICABLE.
_NOT_APPLICABLE = 2
_RULE_TYPES: Final = {"BLOCKUSER": 1, "BLOCKADDR": 2, "ADDRESSMAP": 4, "USERMAP": 5}
_USER_SOURCES: Final = {"MAP": 0, "NOACCESS": 1, "CHANNEL": 2}
_OF_LISTENERS: Final = {"description": "", "control": 2}
_TOPIC: Final = _text("topic_string", "TPSTATUS", 2094, 10_240)
_CONNECTION: Final = _text("connection", "ACTCONN", 0, 48)
_SUBSCRIBER: Final = (
    _text("topic_string", "TOPICSTR", 2094, 10_240),
    _text("name", "SUB", 3152, 10_240),
    _text("identifier", "SUBID", 0, 48),
    _text("user", "SUBUSER", 3156, 12),
    AttributeSpec("durable", "DURABLE", 1274, words={"YES": 1, "NO": 2}),
    AttributeSpec("kind", "SUBTYPE", 1289, words={"API": 1, "ADMIN": 2}),
    _number("message_count", "NUMMSGS", 1290),
    _text("last_message_date", "LMSGDATE", 3168, 12),
    _text("last_message_time", "LMSGTIME", 3167, 8),
    _text("resumed_date", "RESMDATE", 2098, 12),
    _text("resumed_time", "RESMTIME", 2099, 8),
    _CONNECTION,
)
"""The status of a subscription, in DISPLAY SBSTATUS and DISPLAY TPSTATUS TYPE(SUB)."""
_NOTHING: Final[tuple[StatusNoun, ...]] = ("CLUSQMGR", "QCLUSTER", "TCLUSTER", "COMMINFO", "POLICY")
STATUSES: Final[Mapping[StatusNoun, StatusKind]] = {
    "QMGR": StatusKind(
        "AMQ8408: Queue manager details.",
        QUEUE_MANAGER_ATTRIBUTES,
        ("QMNAME",),
        lambda administration, _name: [asdict(administration.queue_manager)],
        named=False,
    ),
    "QMSTATUS": StatusKind(
        "AMQ8705: Display Queue Manager Status Details.",
        (
            _text("name", "QMNAME", 2015, 48),
            AttributeSpec("status", "STATUS", 1149, words={"STARTING": 1, "RUNNING": 2, "QUIESCE": 3}),
            _number("connection_count", "CONNS", 1230),
            AttributeSpec("command_server", "CMDSERV", 1233, words=_STATES),
            AttributeSpec("channel_initiator", "CHINIT", 1232, words=_STATES),
            AttributeSpec("standby", "STANDBY", 1325, words={"NOPERMIT": 0, "PERMIT": 1}),
            _text("started_date", "STARTDA", 3175, 12),
            _text("started_time", "STARTTI", 3176, 8),
        ),
        ("QMNAME", "STATUS"),
        _queue_manager,
        named=False,
    ),
    "PUBSUB": StatusKind(
        "AMQ8723: Display pub/sub status details.",
        (
            _text("name", "QMNAME", 2015, 48),
            AttributeSpec("type", "TYPE", 1314, words={"LOCAL": _LOCAL}),
            AttributeSpec("status", "STATUS", 1311, words={"INACTIVE": 0, "ACTIVE": 3, "COMPAT": _ENGINE_ONLY}),
            _number("subscription_count", "SUBCOUNT", 204),
            _number("topic_count", "TPCOUNT", 253),
        ),
        ("QMNAME", "TYPE"),
        _publish_subscribe,
        named=False,
    ),
    "LSSTATUS": StatusKind(
        "AMQ8631: Display listener status details.",
        (
            _text("name", "LISTENER", 3554, 48),
            AttributeSpec("status", "STATUS", 1599, words=_STATES),
            _number("process", "PID", 1024),
            _text("started_date", "STARTDA", 3556, 12),
            _text("started_time", "STARTTI", 3557, 8),
            AttributeSpec("transport", "TRPTYPE", 1501, words={"TCP": _TCP}),
            _text("address", "IPADDR", 3552, 48),
            _number("port", "PORT", 1522),
            _number("backlog", "BACKLOG", 1602),
            _text("description", "DESCR", 3555, 64),
            AttributeSpec("control", "CONTROL", 1601, words={"QMGR": 0, "STARTONLY": 1, "MANUAL": 2}),
        ),
        ("LISTENER", "STATUS", "PID"),
        _listeners,
        PCFReason.LSTR_STATUS_NOT_FOUND,
    ),
    "CHSTATUS": StatusKind(
        "AMQ8417: Display Channel Status details.",
        (
            _text("name", "CHANNEL", 3501, 20),
            AttributeSpec("type", "CHLTYPE", 1511, words={"SVRCONN": _SVRCONN}),
            _text("address", "CONNAME", 3506, 264),
            AttributeSpec("current", "CURRENT", 1523, words={"CURRENT": _CURRENT}, flag=True),
            AttributeSpec("status", "STATUS", 1527, words={"RUNNING": 3, "STOPPING": 4, "STOPPED": 6}),
            _text("mca_user", "MCAUSER", 3527, 64),
            _text("application", "RAPPLTAG", 3548, 28),
            _number("conversation_count", "CURSHCNV", 1617),
            _number("conversations_max", "MAXSHCNV", 1616),
            _number("call_count", "MSGS", 1534),
            _number("bytes_sent", "BYTSSENT", 1535),
            _number("bytes_received", "BYTSRCVD", 1536),
            _number("buffers_sent", "BUFSSENT", 1538),
            _number("buffers_received", "BUFSRCVD", 1539),
            _number("heartbeat_s", "HBINT", 1563),
            _text("last_call_date", "LSTMSGDA", 3525, 12),
            _text("last_call_time", "LSTMSGTI", 3524, 8),
            AttributeSpec("stop_requested", "STOPREQ", 1543, words=_YES_NO),
            _text("started_date", "CHSTADA", 3529, 12),
            _text("started_time", "CHSTATI", 3528, 8),
        ),
        ("CHANNEL", "CHLTYPE", "CONNAME", "CURRENT", "STATUS"),
        _channels,
        PCFReason.CHL_STATUS_NOT_FOUND,
    ),
    "APSTATUS": StatusKind(
        "AMQ8932: Display application status details.",
        (
            _text("name", "APPLNAME", 3024, 28),
            _text("type", "TYPE", 0, 8),
            _text("cluster", "CLUSTER", 2029, 48),
            _number("count", "COUNT", 1089),
            _number("movable", "MOVCOUNT", 1424),
            AttributeSpec("balanced", "BALANCED", 1433, words={"NO": 0, "YES": 1, "NOTAPPLIC": _NOT_APPLICABLE}),
        ),
        ("APPLNAME", "TYPE"),
        _applications,
        PCFReason.APPL_STATUS_NOT_FOUND,
    ),
    "SVSTATUS": StatusKind("AMQ8632: Display service status details.", (), (), _none, PCFReason.SERV_STATUS_NOT_FOUND),
    # This queue manager is in no cluster and has no objects of these kinds, so these commands find nothing (2085).
    **{noun: StatusKind("", (), (), _none) for noun in _NOTHING},
    "CHLAUTH": StatusKind(
        "AMQ8878: Display channel authentication record details.",
        (
            _text("profile", "CHLAUTH", 3501, 20),
            AttributeSpec("type", "TYPE", 1352, words=_RULE_TYPES),
            _text("address", "ADDRESS", 3506, 264),
            _text("client_user", "CLNTUSER", 3567, 64),
            AttributeSpec("users", "USERLIST", 3568, chars=64, items_max=64),
            AttributeSpec("addresses", "ADDRLIST", 3566, chars=264, items_max=256),
            AttributeSpec("source", "USERSRC", 1638, words=_USER_SOURCES),
            _text("mca_user", "MCAUSER", 3527, 64),
            AttributeSpec("warn", "WARN", 1639, words=_YES_NO),
            _text("description", "DESCR", 2118, 64),
            _text("alteration_date", "ALTDATE", 2027, 12),
            _text("alteration_time", "ALTTIME", 2028, 8),
        ),
        ("CHLAUTH", "TYPE"),
        lambda on, name: (_rule_row(rule) for rule in on.channels.rules() if matches(name, rule.profile)),
        PCFReason.CHLAUTH_NOT_FOUND,
    ),
    "QSTATS": StatusKind(
        "CSQM201I: Queue statistics.",
        (
            _text("name", "QSTATS", 2016, 48),
            _number("high_depth", "HIQDEPTH", 36),
            _number("enqueued", "MSGSIN", 37),
            _number("dequeued", "MSGSOUT", 38),
            _number("since_reset_s", "RESETINT", 35),
        ),
        ("QSTATS",),
        lambda on, name: map(asdict, of_local_queues(on, name, on.reset_queue_statistics)),
    ),
    "SBSTATUS": StatusKind(
        "AMQ8099: Subscription status details.", _SUBSCRIBER, ("SUB", "SUBID"), _subscriptions, Reason.NO_SUBSCRIPTION
    ),
    "TPSTATUS": StatusKind(
        "AMQ8754: Topic status details.",
        (
            _TOPIC,
            _text("name", "ADMIN", 2105, 48),
            _number("subscription_count", "SUBCOUNT", 204),
            _number("publisher_count", "PUBCOUNT", 215),
            AttributeSpec("retained", "RETAINED", 1300, words=_YES_NO),
            *(spec for spec in TOPIC_ATTRIBUTES if spec.field in AS_PARENT),
        ),
        ("TPSTATUS", "ADMIN"),
        _topics,
    ),
    "TPSTATUS SUB": StatusKind(
        "AMQ8754: Topic status details.", (_TOPIC, *_SUBSCRIBER[2:]), ("TPSTATUS", "SUBID"), _subscribers
    ),
    "TPSTATUS PUB": StatusKind(
        "AMQ8754: Topic status details.",
        (
            _TOPIC,
            _number("publication_count", "NUMPUBS", 1304),
            _text("last_date", "LPUBDATE", 3161, 12),
            _text("last_time", "LPUBTIME", 3162, 8),
            _CONNECTION,
        ),
        ("TPSTATUS",),
        _publishers,
    ),
}
