"""The attributes of queues: a record, and the table that its annotations make.

The annotation of a field is its row: the MQSC keyword, the MQINQ selector, the accepted values and the kinds of queue. The
default is the field's own. MQSC, MQINQ, DISPLAY and the checks all read the table, so an attribute is added in one place. This
module knows no queue manager.
Source: DEFINE QLOCAL/QALIAS/QMODEL keywords and their defaults; MQIA_*/MQCA_* numbers.
"""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Final, get_args

from msgspec import Struct, convert
from msgspec.structs import fields, replace

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
    "row",
    "shown_row",
    "table_of",
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
_DEFINED: Final = _EVERY - _MODEL
COUNT_MAX: Final = 999_999_999
_ANY: Final[frozenset[int]] = frozenset()


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


def table_of(record: type[Struct]) -> tuple[AttributeSpec, ...]:
    """Return the rows that annotate the fields of the record, in the order of the fields."""
    return tuple(replace(each, field=info.name) for info in fields(record) for each in get_args(info.type)[1:])


row: Final[partial[AttributeSpec]] = partial(AttributeSpec, "")
"""Returns the row of an attribute without its field, for the annotation of the field."""


def number_row(keyword: str, selector: int, low: int, high: int, kinds: frozenset[int] = _ANY) -> AttributeSpec:
    """Return the row of a number from `low` to `high`."""
    return row(keyword, selector, kinds, low=low, high=high)


def text_row(keyword: str, selector: int, chars: int, kinds: frozenset[int] = _ANY) -> AttributeSpec:
    """Return the row of a text of up to `chars` characters."""
    return row(keyword, selector, kinds, chars=chars)


def name_row(keyword: str, selector: int, kinds: frozenset[int] = _ANY, aliases: tuple[str, ...] = ()) -> AttributeSpec:
    """Return the row of the name of an object."""
    return row(keyword, selector, kinds, chars=48, object_name=True, aliases=aliases)


def shown_row(keyword: str, selector: int, chars: int, kinds: frozenset[int] = _ANY) -> AttributeSpec:
    """Return the row of a text that no command sets."""
    return row(keyword, selector, kinds, chars=chars, read_only=True)


def _words(keyword: str, selector: int, kinds: frozenset[QueueType], /, **words: int) -> AttributeSpec:
    return row(keyword, selector, kinds, words=words)


def _flag(selector: int, kinds: frozenset[QueueType], on: str, off: str) -> AttributeSpec:
    return row(on, selector, kinds, words={on: 1, off: 0}, flag=True)


def _settable(spec: AttributeSpec) -> AttributeSpec:
    return replace(spec, settable=True)


def _inhibit(keyword: str, selector: int, kinds: frozenset[int]) -> AttributeSpec:
    return row(keyword, selector, kinds, words={"ENABLED": 0, "DISABLED": 1}, settable=True)


ON_OFF: Final = {"ENABLED": 1, "DISABLED": 0}
_LEVELS: Final = {"QMGR": -3, "OFF": 0, "ON": 1, "LOW": 17, "MEDIUM": 33, "HIGH": 65}
_SWITCH: Final = {"QMGR": -3, "OFF": 0, "ON": 1}


class QueueAttributes(Struct, frozen=True, kw_only=True):
    """The definition of a queue, and the state of a local queue. The row of a field has the words of MQSC."""

    name: Annotated[str, row("QUEUE", 2016, _EVERY, chars=48, object_name=True, read_only=True)]
    kind: Annotated[
        QueueType, row("TYPE", 20, _EVERY, words={"QLOCAL": 1, "QMODEL": 2, "QALIAS": 3, "QREMOTE": 6}, read_only=True)
    ] = QueueType.LOCAL
    description: Annotated[str, text_row("DESCR", 2013, 64, _EVERY)] = ""
    put_inhibited: Annotated[bool, _inhibit("PUT", 10, _EVERY)] = False
    get_inhibited: Annotated[bool, _inhibit("GET", 9, _ALL)] = False
    default_priority: Annotated[int, number_row("DEFPRTY", 6, 0, 9, _EVERY)] = 0
    default_persistence: Annotated[int, _words("DEFPSIST", 5, _EVERY, NO=0, YES=1)] = 0
    #: BOTHRESH: deliveries that may be backed out before a message is poison; 0 disables poison handling.
    backout_threshold: Annotated[int, number_row("BOTHRESH", 22, 0, COUNT_MAX, _QUEUES)] = 0
    #: BOQNAME: the queue for poison messages.
    backout_requeue_queue: Annotated[str, name_row("BOQNAME", 2019, _QUEUES)] = ""
    #: HARDENBO: the backout count survives even a power cut.
    harden_get_backout: Annotated[bool, _flag(8, _QUEUES, "HARDENBO", "NOHARDENBO")] = False
    #: MAXDEPTH in messages, MAXMSGL in bytes.
    max_depth: Annotated[int, number_row("MAXDEPTH", 15, 0, COUNT_MAX, _QUEUES)] = 5000
    max_message_bytes: Annotated[int, number_row("MAXMSGL", 13, 0, 104_857_600, _QUEUES)] = 4_194_304
    shareable: Annotated[bool, _flag(23, _QUEUES, "SHARE", "NOSHARE")] = True
    default_input_open_option: Annotated[int, _words("DEFSOPT", 4, _QUEUES, SHARED=2, EXCL=4)] = 2
    message_delivery_sequence: Annotated[int, _words("MSGDLVSQ", 16, _QUEUES, PRIORITY=0, FIFO=1)] = 0
    definition_type: Annotated[
        int,
        _words("DEFTYPE", 7, _MODEL, PERMDYN=2, TEMPDYN=3),
        row("DEFTYPE", 7, _LOCAL, words={"PREDEFINED": 1, "PERMDYN": 2, "TEMPDYN": 3}, read_only=True),
    ] = 1
    #: TARGET of an alias (BASE_OBJECT_NAME), and the type of that target: 1 queue, 8 topic.
    target: Annotated[str, name_row("TARGET", 2002, _ALIAS, ("TARGQ",))] = ""
    remote_queue: Annotated[str, name_row("RNAME", 2018, _REMOTE)] = ""
    remote_queue_manager: Annotated[str, name_row("RQMNAME", 2017, _REMOTE)] = ""
    transmission_queue: Annotated[str, name_row("XMITQ", 2024, _REMOTE)] = ""
    target_type: Annotated[int, _words("TARGTYPE", 193, _ALIAS, QUEUE=1, TOPIC=8)] = 1
    default_put_response: Annotated[int, _words("DEFPRESP", 184, _EVERY, SYNC=1, ASYNC=2)] = 1
    default_bind: Annotated[int, _words("DEFBIND", 61, _DEFINED, OPEN=0, NOTFIXED=1, GROUP=2)] = 0
    default_read_ahead: Annotated[int, _words("DEFREADA", 188, _ALL, NO=0, YES=1, DISABLED=2)] = 0
    #: CAPEXPRY: tenths of a second, -1 no limit.
    cap_expiry_tenths: Annotated[int, row("CAPEXPRY", 276, _EVERY, low=1, high=COUNT_MAX, words={"NOLIMIT": -1})] = -1
    nonpersistent_class: Annotated[int, _words("NPMCLASS", 78, _QUEUES, NORMAL=0, HIGH=10)] = 0
    property_control: Annotated[int, _words("PROPCTL", 190, _ALL, COMPAT=0, NONE=1, ALL=2, FORCE=3, V6COMPAT=4)] = 0
    usage: Annotated[int, _words("USAGE", 12, _QUEUES, NORMAL=0, XMITQ=1)] = 0
    distribution_lists: Annotated[bool, _settable(_words("DISTL", 34, _QUEUES, NO=0, YES=1))] = False
    retention_interval_h: Annotated[int, number_row("RETINTVL", 21, 0, COUNT_MAX, _QUEUES)] = COUNT_MAX
    scope: Annotated[int, _words("SCOPE", 45, _DEFINED, QMGR=1, CELL=2)] = 1
    trigger: Annotated[bool, row("TRIGGER", 24, _QUEUES, words={"TRIGGER": 1, "NOTRIGGER": 0}, flag=True, settable=True)] = (
        False
    )
    trigger_type: Annotated[int, _settable(_words("TRIGTYPE", 28, _QUEUES, NONE=0, FIRST=1, EVERY=2, DEPTH=3))] = 1
    trigger_depth: Annotated[int, _settable(number_row("TRIGDPTH", 29, 1, COUNT_MAX, _QUEUES))] = 1
    trigger_message_priority: Annotated[int, _settable(number_row("TRIGMPRI", 26, 0, 9, _QUEUES))] = 0
    trigger_data: Annotated[str, _settable(text_row("TRIGDATA", 2023, 64, _QUEUES))] = ""
    process: Annotated[str, name_row("PROCESS", 2012, _QUEUES)] = ""
    initiation_queue: Annotated[str, name_row("INITQ", 2008, _QUEUES)] = ""
    depth_high_percent: Annotated[int, number_row("QDEPTHHI", 40, 0, 100, _QUEUES)] = 80
    depth_low_percent: Annotated[int, number_row("QDEPTHLO", 41, 0, 100, _QUEUES)] = 20
    depth_max_event: Annotated[bool, row("QDPMAXEV", 42, _QUEUES, words=ON_OFF)] = True
    depth_high_event: Annotated[bool, row("QDPHIEV", 43, _QUEUES, words=ON_OFF)] = False
    depth_low_event: Annotated[bool, row("QDPLOEV", 44, _QUEUES, words=ON_OFF)] = False
    service_interval_event: Annotated[int, _words("QSVCIEV", 46, _QUEUES, HIGH=1, OK=2, NONE=0)] = 0
    service_interval_ms: Annotated[int, number_row("QSVCINT", 54, 0, COUNT_MAX, _QUEUES)] = COUNT_MAX
    monitoring: Annotated[int, row("MONQ", 123, _QUEUES, words=_LEVELS)] = -3
    statistics: Annotated[int, row("STATQ", 128, _QUEUES, words=_SWITCH)] = -3
    accounting: Annotated[int, row("ACCTQ", 134, _QUEUES, words=_SWITCH)] = -3
    #: Stored and shown only: this queue manager has no streaming queues, no clusters and no files of queues.
    streaming_queue: Annotated[str, name_row("STREAMQ", 2138, _QUEUES)] = ""
    streaming_quality: Annotated[int, _words("STRMQOS", 275, _QUEUES, BESTEF=0, MUSTDUP=1)] = 0
    cluster_priority: Annotated[int, number_row("CLWLPRTY", 96, 0, 9, _DEFINED)] = 0
    cluster_rank: Annotated[int, number_row("CLWLRANK", 95, 0, 9, _DEFINED)] = 0
    cluster_use_queue: Annotated[int, _words("CLWLUSEQ", 98, _LOCAL, QMGR=-3, ANY=1, LOCAL=0)] = -3
    image_recover: Annotated[int, _words("IMGRCOVQ", 272, _QUEUES, QMGR=-3, YES=1, NO=0)] = -3
    max_file_megabytes: Annotated[int, row("MAXFSIZE", 274, _QUEUES, low=20, high=267_386_880, words={"DEFAULT": -1})] = -1
    cluster: Annotated[str, name_row("CLUSTER", 2029, _DEFINED)] = ""
    cluster_namelist: Annotated[str, name_row("CLUSNL", 2030, _DEFINED)] = ""
    custom: Annotated[str, text_row("CUSTOM", 2119, 128, _EVERY)] = ""
    #: CRDATE, CRTIME, ALTDATE, ALTTIME: "2026-11-21" and "12.34.56". Output only.
    creation_date: Annotated[str, shown_row("CRDATE", 2004, 12, _QUEUES)] = ""
    creation_time: Annotated[str, shown_row("CRTIME", 2005, 8, _QUEUES)] = ""
    alteration_date: Annotated[str, shown_row("ALTDATE", 2027, 12, _EVERY)] = ""
    alteration_time: Annotated[str, shown_row("ALTTIME", 2028, 8, _EVERY)] = ""
    #: CURDEPTH (uncommitted puts and gets included), IPPROCS, OPPROCS. Output only, local queues only.
    depth: Annotated[int, row("CURDEPTH", 3, _LOCAL, high=COUNT_MAX, read_only=True)] = 0
    open_input_count: Annotated[int, row("IPPROCS", 17, _LOCAL, high=COUNT_MAX, read_only=True)] = 0
    open_output_count: Annotated[int, row("OPPROCS", 18, _LOCAL, high=COUNT_MAX, read_only=True)] = 0


QUEUE_ATTRIBUTES: Final = table_of(QueueAttributes)
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
