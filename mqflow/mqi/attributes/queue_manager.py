"""The attributes of the queue manager: a record and a table.

The table has the form of the table of queues (`attributes.queue`). MQINQ, DISPLAY QMGR and the PCF command Inquire Queue
Manager all answer from this table, so they answer the same attributes with the same values. This module knows no queue manager.
Source: ALTER QMGR and DISPLAY QMGR keywords and defaults on Multiplatforms (q085320, q086240, q020700); MQIA_*/MQCA_* numbers
and the words of their values, from IBM's own Python package. UNCERTAIN: whether MQINQ answers AMQPCAP.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, convert

from mqflow.mqi.attributes.queue import ON_OFF, AttributeSpec, fields_from, name_row, number_row, shown_row, text_row

__all__ = ("DESCRIPTION", "QUEUE_MANAGER_ATTRIBUTES", "QueueManagerAttributes", "queue_manager_attributes_from")

DESCRIPTION: Final = "mqflow's embedded queue manager, not IBM MQ"
"""The default description of an embedded queue manager (MQCA_Q_MGR_DESC); ALTER QMGR DESCR changes it."""

_COUNT_MAX: Final = 999_999_999
_WEEK_S: Final = 604_800
_YES: Final = {"NO": 0, "YES": 1}
_ON: Final = {"OFF": 0, "ON": 1}
_NONE: Final = {"NONE": -1}
_AS_QMGR: Final = {"QMGR": -3}
_MONITORING: Final = {"OFF": 0, "LOW": 17, "MEDIUM": 33, "HIGH": 65}
# MQRECORDING_*, MQSVC_CONTROL_*.
_RECORDING: Final = {"DISABLED": 0, "QUEUE": 1, "MSG": 2}
_CONTROL: Final = {"QMGR": 0, "MANUAL": 2}


class QueueManagerAttributes(Struct, frozen=True, kw_only=True):
    """The attributes of the queue manager."""

    name: str
    #: QMID: the name and the time of creation. Output only.
    identifier: str = ""
    description: str = DESCRIPTION
    dead_letter_queue: str = ""
    #: Longest message in bytes, MAXHANDS, MAXPRTY, MAXUMSGS.
    max_message_bytes: int = 4_194_304
    max_handles: int = 256
    max_priority: int = 9
    max_uncommitted_messages: int = 10_000
    #: MARKINT in milliseconds, -1 no limit.
    mark_browse_interval_ms: int = 5_000
    trigger_interval_ms: int = _COUNT_MAX
    ccsid: int = 1208
    default_transmission_queue: str = ""
    command_input_queue: str = "SYSTEM.ADMIN.COMMAND.QUEUE"
    custom: str = ""
    #: CONNAUTH: the authentication information object; CHLAUTH: True if channel authentication records are checked.
    connection_authentication: str = "SYSTEM.DEFAULT.AUTHINFO.IDPWOS"
    channel_authentication: bool = False
    channel_auto_definition: bool = False
    key_repository: str = ""
    certificate_label: str = ""
    #: MQPL_UNIX; command level and version (VVRRMMFF). Output only.
    platform: int = 3
    command_level: int = 940
    version: str = "09040000"
    #: SYNCPT and DISTL: capabilities of the queue manager. SCMDSERV: the command server starts with it. Output only.
    syncpoint_available: int = 1
    distribution_lists: bool = False
    command_server_control: int = 0
    #: Attributes that are stored and shown, but have no effect in this queue manager. The table has the words for the numbers.
    accounting_override: bool = False
    accounting_interval_s: int = 1800
    accounting_mqi: bool = False
    accounting_queues: int = 0
    activity_recording: int = 2
    activity_trace_override: bool = False
    activity_trace: bool = False
    certificate_policy: int = 0
    channel_auto_definition_event: bool = False
    channel_auto_definition_exit: str = ""
    channel_event: int = 0
    channel_initiator_control: int = 0
    channel_monitoring: int = 0
    channel_statistics: int = 0
    cluster_sender_monitoring: int = -3
    cluster_sender_statistics: int = -3
    cluster_workload_data: str = ""
    cluster_workload_exit: str = ""
    cluster_workload_bytes: int = 100
    cluster_workload_channels: int = _COUNT_MAX
    cluster_workload_use_queue: int = 0
    configuration_event: bool = False
    default_cluster_transmission_queue: int = 0
    image_interval_minutes: int = 60
    image_log_megabytes: int = 0
    image_recover_objects: bool = True
    image_recover_queues: bool = True
    image_schedule: int = 0
    ip_version: int = 0
    logger_event: bool = False
    max_properties_bytes: int = -1
    parent: str = ""
    #: PSMODE(COMPAT): applications publish and subscribe by the MQI, and no queued publish/subscribe interface runs.
    publish_subscribe_mode: int = 1
    publish_subscribe_clusters: bool = True
    undelivered_input: int = 2
    undelivered_responses: int = 0
    publish_retries: int = 5
    publish_syncpoint: int = 1
    remote_event: bool = False
    repository: str = ""
    repository_namelist: str = ""
    reverse_dns: int = 0
    route_recording: int = 2
    statistics_interval_s: int = 1800
    statistics_mqi: bool = False
    statistics_queues: int = 0
    tls_event: bool = False
    tls_fips: bool = False
    tls_revocation_namelist: str = ""
    tls_hardware: str = ""
    tls_reset_bytes: int = 0
    topic_life_minutes: int = 1800
    #: MONQ: the level for queues with MONQ(QMGR).
    queue_monitoring: int = 0
    #: The events that are switched on: AUTHOREV, CMDEV, INHIBTEV, LOCALEV, PERFMEV, STRSTPEV.
    authority_event: bool = False
    command_event: int = 0
    inhibit_event: bool = False
    local_event: bool = False
    performance_event: bool = False
    #: IBM's default is ENABLED. Here it is off: tests start a queue manager very often, and nothing would read the messages.
    start_stop_event: bool = False
    #: Capabilities that this queue manager does not have: ADVCAP, AMQPCAP, SPLCAP, XRCAP. Output only.
    advanced_capability: bool = False
    amqp_capability: bool = False
    policy_capability: bool = False
    telemetry_capability: bool = False
    creation_date: str = ""
    creation_time: str = ""
    alteration_date: str = ""
    alteration_time: str = ""


def _choice(field: str, keyword: str, selector: int, words: Mapping[str, int]) -> AttributeSpec:
    return AttributeSpec(field, keyword, selector, words=words)


def _switch(field: str, keyword: str, selector: int) -> AttributeSpec:
    return _choice(field, keyword, selector, ON_OFF)


QUEUE_MANAGER_ATTRIBUTES: Final[tuple[AttributeSpec, ...]] = (
    AttributeSpec("name", "QMNAME", 2015, chars=48, object_name=True, read_only=True),
    shown_row("identifier", "QMID", 2032, 48),
    text_row("description", "DESCR", 2014, 64),
    name_row("dead_letter_queue", "DEADQ", 2006),
    number_row("max_message_bytes", "MAXMSGL", 13, 32_768, 104_857_600),
    number_row("max_handles", "MAXHANDS", 11, 1, _COUNT_MAX),
    AttributeSpec("max_priority", "MAXPRTY", 14, low=9, high=9, read_only=True),
    number_row("max_uncommitted_messages", "MAXUMSGS", 33, 1, _COUNT_MAX),
    AttributeSpec("mark_browse_interval_ms", "MARKINT", 68, low=0, high=_COUNT_MAX, words={"NOLIMIT": -1}),
    number_row("trigger_interval_ms", "TRIGINT", 25, 0, _COUNT_MAX),
    number_row("ccsid", "CCSID", 2, 1, 65_535),
    name_row("default_transmission_queue", "DEFXMITQ", 2025),
    AttributeSpec("command_input_queue", "COMMANDQ", 2003, chars=48, read_only=True),
    text_row("custom", "CUSTOM", 2119, 128),
    name_row("connection_authentication", "CONNAUTH", 2125),
    AttributeSpec("channel_authentication", "CHLAUTH", 248, words=ON_OFF),
    AttributeSpec("channel_auto_definition", "CHAD", 55, words=ON_OFF),
    text_row("key_repository", "SSLKEYR", 2049, 256),
    text_row("certificate_label", "CERTLABL", 2121, 64),
    AttributeSpec("platform", "PLATFORM", 32, words={"UNIX": 3}, read_only=True),
    AttributeSpec("command_level", "CMDLEVEL", 31, high=_COUNT_MAX, read_only=True),
    AttributeSpec("version", "VERSION", 2120, chars=8, read_only=True),
    AttributeSpec("syncpoint_available", "SYNCPT", 30, words={"NO": 0, "YES": 1}, read_only=True),
    AttributeSpec("distribution_lists", "DISTL", 34, words={"NO": 0, "YES": 1}, read_only=True),
    AttributeSpec("command_server_control", "SCMDSERV", 120, words={"QMGR": 0, "MANUAL": 2}, read_only=True),
    _switch("accounting_override", "ACCTCONO", 136),
    number_row("accounting_interval_s", "ACCTINT", 135, 0, _WEEK_S),
    _choice("accounting_mqi", "ACCTMQI", 133, _ON),
    _choice("accounting_queues", "ACCTQ", 134, _NONE | _ON),
    _choice("activity_recording", "ACTIVREC", 138, _RECORDING),
    _switch("activity_trace_override", "ACTVCONO", 239),
    _choice("activity_trace", "ACTVTRC", 240, _ON),
    _choice("certificate_policy", "CERTVPOL", 252, {"ANY": 0, "RFC5280": 1}),
    _switch("channel_auto_definition_event", "CHADEV", 56),
    text_row("channel_auto_definition_exit", "CHADEXIT", 2026, 128),
    _choice("channel_event", "CHLEV", 73, {**ON_OFF, "EXCEPTION": 2}),
    _choice("channel_initiator_control", "SCHINIT", 119, _CONTROL),
    _choice("channel_monitoring", "MONCHL", 122, _NONE | _MONITORING),
    _choice("channel_statistics", "STATCHL", 129, _NONE | _MONITORING),
    _choice("cluster_sender_monitoring", "MONACLS", 124, _AS_QMGR | _MONITORING),
    _choice("cluster_sender_statistics", "STATACLS", 130, _AS_QMGR | _MONITORING),
    text_row("cluster_workload_data", "CLWLDATA", 2034, 32),
    text_row("cluster_workload_exit", "CLWLEXIT", 2033, 128),
    number_row("cluster_workload_bytes", "CLWLLEN", 58, 0, _COUNT_MAX),
    number_row("cluster_workload_channels", "CLWLMRUC", 97, 1, _COUNT_MAX),
    _choice("cluster_workload_use_queue", "CLWLUSEQ", 98, {"LOCAL": 0, "ANY": 1}),
    _switch("configuration_event", "CONFIGEV", 51),
    _choice("default_cluster_transmission_queue", "DEFCLXQ", 250, {"SCTQ": 0, "CHANNEL": 1}),
    AttributeSpec("image_interval_minutes", "IMGINTVL", 269, low=1, high=_COUNT_MAX, words={"OFF": 0}),
    AttributeSpec("image_log_megabytes", "IMGLOGLN", 270, low=1, high=_COUNT_MAX, words={"OFF": 0}),
    _choice("image_recover_objects", "IMGRCOVO", 271, _YES),
    _choice("image_recover_queues", "IMGRCOVQ", 272, _YES),
    _choice("image_schedule", "IMGSCHED", 268, {"MANUAL": 0, "AUTO": 1}),
    _choice("ip_version", "IPADDRV", 93, {"IPV4": 0, "IPV6": 1}),
    _switch("logger_event", "LOGGEREV", 94),
    AttributeSpec("max_properties_bytes", "MAXPROPL", 192, low=0, high=104_857_600, words={"NOLIMIT": -1}),
    name_row("parent", "PARENT", 2102),
    _choice("publish_subscribe_mode", "PSMODE", 187, {"DISABLED": 0, "COMPAT": 1, "ENABLED": 2}),
    _switch("publish_subscribe_clusters", "PSCLUS", 249),
    _choice("undelivered_input", "PSNPMSG", 203, {"DISCARD": 2, "KEEP": 3}),
    _choice("undelivered_responses", "PSNPRES", 205, {"NORMAL": 0, "SAFE": 1, "DISCARD": 2, "KEEP": 3}),
    number_row("publish_retries", "PSRTYCNT", 206, 0, _COUNT_MAX),
    _choice("publish_syncpoint", "PSSYNCPT", 207, {"YES": 0, "IFPER": 1}),
    _switch("remote_event", "REMOTEEV", 50),
    name_row("repository", "REPOS", 2035),
    name_row("repository_namelist", "REPOSNL", 2036),
    _choice("reverse_dns", "REVDNS", 254, {"ENABLED": 0, "DISABLED": 1}),
    _choice("route_recording", "ROUTEREC", 137, _RECORDING),
    number_row("statistics_interval_s", "STATINT", 131, 0, _WEEK_S),
    _choice("statistics_mqi", "STATMQI", 127, _ON),
    _choice("statistics_queues", "STATQ", 128, _NONE | _ON),
    _switch("tls_event", "SSLEV", 75),
    _choice("tls_fips", "SSLFIPS", 92, _YES),
    name_row("tls_revocation_namelist", "SSLCRLNL", 2050),
    text_row("tls_hardware", "SSLCRYP", 2051, 256),
    number_row("tls_reset_bytes", "SSLRKEYC", 76, 0, _COUNT_MAX),
    number_row("topic_life_minutes", "TREELIFE", 183, 0, 604_000),
    _choice("queue_monitoring", "MONQ", 123, _NONE | _MONITORING),
    _switch("authority_event", "AUTHOREV", 47),
    _choice("command_event", "CMDEV", 99, {**ON_OFF, "NODISPLAY": 3}),
    _switch("inhibit_event", "INHIBTEV", 48),
    _switch("local_event", "LOCALEV", 49),
    _switch("performance_event", "PERFMEV", 53),
    _switch("start_stop_event", "STRSTPEV", 52),
    AttributeSpec("advanced_capability", "ADVCAP", 273, words=ON_OFF, read_only=True),
    AttributeSpec("amqp_capability", "AMQPCAP", 265, words=_YES, read_only=True),
    AttributeSpec("policy_capability", "SPLCAP", 251, words=ON_OFF, read_only=True),
    AttributeSpec("telemetry_capability", "XRCAP", 243, words=_YES, read_only=True),
    shown_row("creation_date", "CRDATE", 2004, 12),
    shown_row("creation_time", "CRTIME", 2005, 8),
    shown_row("alteration_date", "ALTDATE", 2027, 12),
    shown_row("alteration_time", "ALTTIME", 2028, 8),
)

_FIELDS: Final = {spec.selector: spec for spec in QUEUE_MANAGER_ATTRIBUTES}


def queue_manager_attributes_from(name: str, answered: Mapping[int, int | str]) -> QueueManagerAttributes:
    """Return the record of the queue manager from the answers of MQINQ, by selector."""
    return convert({"name": name} | fields_from(answered, _FIELDS), QueueManagerAttributes, strict=False)
