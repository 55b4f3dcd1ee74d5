"""The attributes of queues: a record and a table.

A row of the table has the field, the MQSC keyword, the MQINQ selector, the accepted values and the kinds of queue. The record
has the defaults. MQSC, MQINQ, DISPLAY and the checks all read the table, so an attribute is added in one place. This module
knows no queue manager.
Source: DEFINE QLOCAL/QALIAS/QMODEL keywords and their defaults; MQIA_*/MQCA_* numbers.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, convert
from msgspec.structs import replace

from mqflow.mqi.options import QueueType

__all__ = (
    "COUNT_MAX",
    "NOT_APPLICABLE",
    "ON_OFF",
    "QUEUE_ATTRIBUTES",
    "AttributeSpec",
    "QueueAttributes",
    "fields_from",
    "name_row",
    "number_row",
    "queue_attributes_from",
    "shown_row",
    "text_row",
)

NOT_APPLICABLE: Final = -1
"""MQIAV_NOT_APPLICABLE: the answer of MQINQ for an integer attribute that this kind of queue does not have."""

_LOCAL: Final = frozenset({QueueType.LOCAL})
_MODEL: Final = frozenset({QueueType.MODEL})
_ALIAS: Final = frozenset({QueueType.ALIAS})
_REMOTE: Final = frozenset({QueueType.REMOTE})
_QUEUES: Final = _LOCAL | _MODEL
_ALL: Final = _QUEUES | _ALIAS
_EVERY: Final = _ALL | _REMOTE
COUNT_MAX: Final = 999_999_999
_ANY: Final[frozenset[int]] = frozenset()


class QueueAttributes(Struct, frozen=True, kw_only=True):
    """The definition of a queue, and the state of a local queue. Tables of this module have the words of MQSC."""

    name: str
    #: MQQT_*: local, model, alias or remote.
    kind: QueueType = QueueType.LOCAL
    description: str = ""
    put_inhibited: bool = False
    get_inhibited: bool = False
    default_priority: int = 0
    #: DEFPSIST: 0 not persistent, 1 persistent.
    default_persistence: int = 0
    #: BOTHRESH: deliveries that may be backed out before a message is poison; 0 disables poison handling.
    backout_threshold: int = 0
    #: BOQNAME: the queue for poison messages.
    backout_requeue_queue: str = ""
    #: HARDENBO: the backout count survives even a power cut.
    harden_get_backout: bool = False
    #: MAXDEPTH in messages, MAXMSGL in bytes.
    max_depth: int = 5000
    max_message_bytes: int = 4_194_304
    shareable: bool = True
    #: DEFSOPT: MQOO_INPUT_SHARED (2) or MQOO_INPUT_EXCLUSIVE (4).
    default_input_open_option: int = 2
    #: MSGDLVSQ: 0 by priority, 1 first in first out.
    message_delivery_sequence: int = 0
    #: DEFTYPE: 1 predefined, 2 permanent dynamic, 3 temporary dynamic.
    definition_type: int = 1
    #: TARGET of an alias (BASE_OBJECT_NAME), and the type of that target: 1 queue, 8 topic.
    target: str = ""
    target_type: int = 1
    #: RNAME, RQMNAME and XMITQ of the local definition of a remote queue.
    remote_queue: str = ""
    remote_queue_manager: str = ""
    transmission_queue: str = ""
    default_put_response: int = 1
    default_bind: int = 0
    default_read_ahead: int = 0
    #: CAPEXPRY: tenths of a second, -1 no limit.
    cap_expiry_tenths: int = -1
    nonpersistent_class: int = 0
    property_control: int = 0
    usage: int = 0
    distribution_lists: bool = False
    retention_interval_h: int = COUNT_MAX
    scope: int = 1
    trigger: bool = False
    trigger_type: int = 1
    trigger_depth: int = 1
    trigger_message_priority: int = 0
    trigger_data: str = ""
    process: str = ""
    initiation_queue: str = ""
    depth_high_percent: int = 80
    depth_low_percent: int = 20
    depth_max_event: bool = True
    depth_high_event: bool = False
    depth_low_event: bool = False
    service_interval_event: int = 0
    service_interval_ms: int = COUNT_MAX
    monitoring: int = -3
    statistics: int = -3
    accounting: int = -3
    #: Stored and shown only: this queue manager has no streaming queues, no clusters and no files of queues.
    streaming_queue: str = ""
    streaming_quality: int = 0
    cluster_priority: int = 0
    cluster_rank: int = 0
    cluster_use_queue: int = -3
    image_recover: int = -3
    max_file_megabytes: int = -1
    cluster: str = ""
    cluster_namelist: str = ""
    custom: str = ""
    #: CRDATE, CRTIME, ALTDATE, ALTTIME: "2026-11-21" and "12.34.56". Output only.
    creation_date: str = ""
    creation_time: str = ""
    alteration_date: str = ""
    alteration_time: str = ""
    #: CURDEPTH (uncommitted puts and gets included), IPPROCS, OPPROCS. Output only, local queues only.
    depth: int = 0
    open_input_count: int = 0
    open_output_count: int = 0


class AttributeSpec(Struct, frozen=True):
    """One attribute: its field, its names in MQSC and MQINQ, and its accepted values."""

    #: The field of the record.
    field: str
    #: The MQSC keyword. With a flag form (HARDENBO | NOHARDENBO) `words` has the two words.
    keyword: str
    #: MQIA_* (below 2000) or MQCA_* (from 2001); 0 if MQINQ has no selector.
    selector: int
    #: The kinds of queue, channel or authentication information that have the attribute; empty if there is only one kind.
    kinds: frozenset[int] = frozenset()
    #: For numbers: lowest and highest.
    low: int = 0
    high: int = 0
    #: For enumerations: MQSC word -> IBM's number. For `flag` the first is on, the second off.
    words: Mapping[str, int] | None = None
    #: For character attributes: the length; 0 for numbers.
    chars: int = 0
    #: The words are written without brackets: SHARE | NOSHARE.
    flag: bool = False
    #: The value is the name of an object, checked by the grammar of names; blank is allowed.
    object_name: bool = False
    #: The most texts in a list, each of `chars` characters; 0 for a single value.
    items_max: int = 0
    #: Only DISPLAY and MQINQ have this attribute.
    read_only: bool = False
    #: MQSET can change this attribute.
    settable: bool = False
    #: Other spellings of the keyword.
    aliases: tuple[str, ...] = ()


def number_row(field: str, keyword: str, selector: int, low: int, high: int, kinds: frozenset[int] = _ANY) -> AttributeSpec:
    """Return the row of a number from `low` to `high`."""
    return AttributeSpec(field, keyword, selector, kinds, low=low, high=high)


def _words(field: str, keyword: str, selector: int, kinds: frozenset[QueueType], /, **words: int) -> AttributeSpec:
    return AttributeSpec(field, keyword, selector, kinds, words=words)


def _flag(field: str, selector: int, kinds: frozenset[QueueType], on: str, off: str) -> AttributeSpec:
    return AttributeSpec(field, on, selector, kinds, words={on: 1, off: 0}, flag=True)


def text_row(field: str, keyword: str, selector: int, chars: int, kinds: frozenset[int] = _ANY) -> AttributeSpec:
    """Return the row of a text of up to `chars` characters."""
    return AttributeSpec(field, keyword, selector, kinds, chars=chars)


def name_row(
    field: str, keyword: str, selector: int, kinds: frozenset[int] = _ANY, aliases: tuple[str, ...] = ()
) -> AttributeSpec:
    """Return the row of the name of an object."""
    return AttributeSpec(field, keyword, selector, kinds, chars=48, object_name=True, aliases=aliases)


def shown_row(field: str, keyword: str, selector: int, chars: int, kinds: frozenset[int] = _ANY) -> AttributeSpec:
    """Return the row of a text that no command sets."""
    return AttributeSpec(field, keyword, selector, kinds, chars=chars, read_only=True)


def _settable(spec: AttributeSpec) -> AttributeSpec:
    return replace(spec, settable=True)


def _inhibit(field: str, keyword: str, selector: int, kinds: frozenset[int]) -> AttributeSpec:
    return AttributeSpec(field, keyword, selector, kinds, words={"ENABLED": 0, "DISABLED": 1}, settable=True)


ON_OFF: Final = {"ENABLED": 1, "DISABLED": 0}
_LEVELS: Final = {"QMGR": -3, "OFF": 0, "ON": 1, "LOW": 17, "MEDIUM": 33, "HIGH": 65}
_SWITCH: Final = {"QMGR": -3, "OFF": 0, "ON": 1}

QUEUE_ATTRIBUTES: Final[tuple[AttributeSpec, ...]] = (
    AttributeSpec("kind", "TYPE", 20, _EVERY, words={"QLOCAL": 1, "QMODEL": 2, "QALIAS": 3, "QREMOTE": 6}, read_only=True),
    text_row("description", "DESCR", 2013, 64, _EVERY),
    _inhibit("put_inhibited", "PUT", 10, _EVERY),
    _inhibit("get_inhibited", "GET", 9, _ALL),
    number_row("default_priority", "DEFPRTY", 6, 0, 9, _EVERY),
    _words("default_persistence", "DEFPSIST", 5, _EVERY, NO=0, YES=1),
    number_row("backout_threshold", "BOTHRESH", 22, 0, COUNT_MAX, _QUEUES),
    name_row("backout_requeue_queue", "BOQNAME", 2019, _QUEUES),
    _flag("harden_get_backout", 8, _QUEUES, "HARDENBO", "NOHARDENBO"),
    number_row("max_depth", "MAXDEPTH", 15, 0, COUNT_MAX, _QUEUES),
    number_row("max_message_bytes", "MAXMSGL", 13, 0, 104_857_600, _QUEUES),
    _flag("shareable", 23, _QUEUES, "SHARE", "NOSHARE"),
    _words("default_input_open_option", "DEFSOPT", 4, _QUEUES, SHARED=2, EXCL=4),
    _words("message_delivery_sequence", "MSGDLVSQ", 16, _QUEUES, PRIORITY=0, FIFO=1),
    _words("definition_type", "DEFTYPE", 7, _MODEL, PERMDYN=2, TEMPDYN=3),
    AttributeSpec("definition_type", "DEFTYPE", 7, _LOCAL, words={"PREDEFINED": 1, "PERMDYN": 2, "TEMPDYN": 3}, read_only=True),
    name_row("target", "TARGET", 2002, _ALIAS, ("TARGQ",)),
    name_row("remote_queue", "RNAME", 2018, _REMOTE),
    name_row("remote_queue_manager", "RQMNAME", 2017, _REMOTE),
    name_row("transmission_queue", "XMITQ", 2024, _REMOTE),
    _words("target_type", "TARGTYPE", 193, _ALIAS, QUEUE=1, TOPIC=8),
    _words("default_put_response", "DEFPRESP", 184, _EVERY, SYNC=1, ASYNC=2),
    _words("default_bind", "DEFBIND", 61, _LOCAL | _ALIAS | _REMOTE, OPEN=0, NOTFIXED=1, GROUP=2),
    _words("default_read_ahead", "DEFREADA", 188, _ALL, NO=0, YES=1, DISABLED=2),
    AttributeSpec("cap_expiry_tenths", "CAPEXPRY", 276, _EVERY, low=1, high=COUNT_MAX, words={"NOLIMIT": -1}),
    _words("nonpersistent_class", "NPMCLASS", 78, _QUEUES, NORMAL=0, HIGH=10),
    _words("property_control", "PROPCTL", 190, _ALL, COMPAT=0, NONE=1, ALL=2, FORCE=3, V6COMPAT=4),
    _words("usage", "USAGE", 12, _QUEUES, NORMAL=0, XMITQ=1),
    _settable(_words("distribution_lists", "DISTL", 34, _QUEUES, NO=0, YES=1)),
    number_row("retention_interval_h", "RETINTVL", 21, 0, COUNT_MAX, _QUEUES),
    _words("scope", "SCOPE", 45, _LOCAL | _ALIAS | _REMOTE, QMGR=1, CELL=2),
    AttributeSpec("trigger", "TRIGGER", 24, _QUEUES, words={"TRIGGER": 1, "NOTRIGGER": 0}, flag=True, settable=True),
    _settable(_words("trigger_type", "TRIGTYPE", 28, _QUEUES, NONE=0, FIRST=1, EVERY=2, DEPTH=3)),
    _settable(number_row("trigger_depth", "TRIGDPTH", 29, 1, COUNT_MAX, _QUEUES)),
    _settable(number_row("trigger_message_priority", "TRIGMPRI", 26, 0, 9, _QUEUES)),
    _settable(text_row("trigger_data", "TRIGDATA", 2023, 64, _QUEUES)),
    name_row("process", "PROCESS", 2012, _QUEUES),
    name_row("initiation_queue", "INITQ", 2008, _QUEUES),
    number_row("depth_high_percent", "QDEPTHHI", 40, 0, 100, _QUEUES),
    number_row("depth_low_percent", "QDEPTHLO", 41, 0, 100, _QUEUES),
    AttributeSpec("depth_max_event", "QDPMAXEV", 42, _QUEUES, words=ON_OFF),
    AttributeSpec("depth_high_event", "QDPHIEV", 43, _QUEUES, words=ON_OFF),
    AttributeSpec("depth_low_event", "QDPLOEV", 44, _QUEUES, words=ON_OFF),
    _words("service_interval_event", "QSVCIEV", 46, _QUEUES, HIGH=1, OK=2, NONE=0),
    number_row("service_interval_ms", "QSVCINT", 54, 0, COUNT_MAX, _QUEUES),
    AttributeSpec("monitoring", "MONQ", 123, _QUEUES, words=_LEVELS),
    AttributeSpec("statistics", "STATQ", 128, _QUEUES, words=_SWITCH),
    AttributeSpec("accounting", "ACCTQ", 134, _QUEUES, words=_SWITCH),
    name_row("streaming_queue", "STREAMQ", 2138, _QUEUES),
    _words("streaming_quality", "STRMQOS", 275, _QUEUES, BESTEF=0, MUSTDUP=1),
    number_row("cluster_priority", "CLWLPRTY", 96, 0, 9, _LOCAL | _ALIAS | _REMOTE),
    number_row("cluster_rank", "CLWLRANK", 95, 0, 9, _LOCAL | _ALIAS | _REMOTE),
    _words("cluster_use_queue", "CLWLUSEQ", 98, _LOCAL, QMGR=-3, ANY=1, LOCAL=0),
    _words("image_recover", "IMGRCOVQ", 272, _QUEUES, QMGR=-3, YES=1, NO=0),
    AttributeSpec("max_file_megabytes", "MAXFSIZE", 274, _QUEUES, low=20, high=267_386_880, words={"DEFAULT": -1}),
    name_row("cluster", "CLUSTER", 2029, _LOCAL | _ALIAS | _REMOTE),
    name_row("cluster_namelist", "CLUSNL", 2030, _LOCAL | _ALIAS | _REMOTE),
    text_row("custom", "CUSTOM", 2119, 128, _EVERY),
    shown_row("creation_date", "CRDATE", 2004, 12, _QUEUES),
    shown_row("creation_time", "CRTIME", 2005, 8, _QUEUES),
    shown_row("alteration_date", "ALTDATE", 2027, 12, _EVERY),
    shown_row("alteration_time", "ALTTIME", 2028, 8, _EVERY),
    AttributeSpec("depth", "CURDEPTH", 3, _LOCAL, high=COUNT_MAX, read_only=True),
    AttributeSpec("open_input_count", "IPPROCS", 17, _LOCAL, high=COUNT_MAX, read_only=True),
    AttributeSpec("open_output_count", "OPPROCS", 18, _LOCAL, high=COUNT_MAX, read_only=True),
    # In MQSC the name is part of the command and not an attribute, but MQINQ has a selector for it.
    AttributeSpec("name", "QUEUE", 2016, _EVERY, chars=48, object_name=True, read_only=True),
)
"""The attributes of queues, in the order of DISPLAY by group; look-ups by keyword or selector are built from the table."""

_QUEUE_FIELDS: Final = {spec.selector: spec for spec in QUEUE_ATTRIBUTES}


def queue_attributes_from(name: str, answered: Mapping[int, int | str]) -> QueueAttributes:
    """Return the record of a queue from the answers of MQINQ by selector; an attribute without an answer keeps its default."""
    return convert({"name": name} | fields_from(answered, _QUEUE_FIELDS), QueueAttributes, strict=False)


def fields_from(answered: Mapping[int, int | str], table: Mapping[int, AttributeSpec]) -> dict[str, int | str]:
    """Return the fields of a record from the answers of MQINQ, by selector; an attribute that does not apply is left out."""
    found: dict[str, int | str] = {}
    for selector, value in answered.items():
        spec = table.get(selector)
        if spec is None:
            continue
        if isinstance(value, str):
            if value.strip("*") or not value:  # MQINQ fills a character attribute that does not apply with asterisks
                found[spec.field] = value.rstrip()
        elif value != NOT_APPLICABLE or (spec.words and NOT_APPLICABLE in spec.words.values()):
            found[spec.field] = value
    return found
