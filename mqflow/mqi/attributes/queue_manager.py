"""The attributes of the queue manager: a record, and the table that its annotations make.

The table has the form of the table of queues (`attributes.queue`). MQINQ, DISPLAY QMGR and the PCF command Inquire Queue
Manager all answer from this table, so they answer the same attributes with the same values. This module knows no queue manager.
Source: ALTER QMGR and DISPLAY QMGR keywords and defaults on Multiplatforms (q085320, q086240, q020700); MQIA_*/MQCA_* numbers
and the words of their values, from IBM's own Python package. UNCERTAIN: whether MQINQ answers AMQPCAP.
"""

from collections.abc import Mapping
from typing import Annotated, Final

from msgspec import Struct, convert

from mqflow.mqi.attributes.queue import (
    ON_OFF,
    AttributeSpec,
    fields_from,
    name_row,
    number_row,
    row,
    shown_row,
    table_of,
    text_row,
)

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


def _choice(keyword: str, selector: int, words: Mapping[str, int]) -> AttributeSpec:
    return row(keyword, selector, words=words)


def _switch(keyword: str, selector: int) -> AttributeSpec:
    return row(keyword, selector, words=ON_OFF)


class QueueManagerAttributes(Struct, frozen=True, kw_only=True):
    """The attributes of the queue manager."""

    name: Annotated[str, row("QMNAME", 2015, chars=48, object_name=True, read_only=True)]
    #: QMID: the name and the time of creation. Output only.
    identifier: Annotated[str, shown_row("QMID", 2032, 48)] = ""
    description: Annotated[str, text_row("DESCR", 2014, 64)] = DESCRIPTION
    dead_letter_queue: Annotated[str, name_row("DEADQ", 2006)] = ""
    #: Longest message in bytes, MAXHANDS, MAXPRTY, MAXUMSGS.
    max_message_bytes: Annotated[int, number_row("MAXMSGL", 13, 32_768, 104_857_600)] = 4_194_304
    max_handles: Annotated[int, number_row("MAXHANDS", 11, 1, _COUNT_MAX)] = 256
    max_priority: Annotated[int, row("MAXPRTY", 14, low=9, high=9, read_only=True)] = 9
    max_uncommitted_messages: Annotated[int, number_row("MAXUMSGS", 33, 1, _COUNT_MAX)] = 10_000
    mark_browse_interval_ms: Annotated[int, row("MARKINT", 68, low=0, high=_COUNT_MAX, words={"NOLIMIT": -1})] = 5_000
    trigger_interval_ms: Annotated[int, number_row("TRIGINT", 25, 0, _COUNT_MAX)] = _COUNT_MAX
    ccsid: Annotated[int, number_row("CCSID", 2, 1, 65_535)] = 1208
    default_transmission_queue: Annotated[str, name_row("DEFXMITQ", 2025)] = ""
    command_input_queue: Annotated[str, row("COMMANDQ", 2003, chars=48, read_only=True)] = "SYSTEM.ADMIN.COMMAND.QUEUE"
    custom: Annotated[str, text_row("CUSTOM", 2119, 128)] = ""
    #: CONNAUTH: the authentication information object; CHLAUTH: True if channel authentication records are checked.
    connection_authentication: Annotated[str, name_row("CONNAUTH", 2125)] = "SYSTEM.DEFAULT.AUTHINFO.IDPWOS"
    channel_authentication: Annotated[bool, row("CHLAUTH", 248, words=ON_OFF)] = False
    channel_auto_definition: Annotated[bool, row("CHAD", 55, words=ON_OFF)] = False
    key_repository: Annotated[str, text_row("SSLKEYR", 2049, 256)] = ""
    certificate_label: Annotated[str, text_row("CERTLABL", 2121, 64)] = ""
    platform: Annotated[int, row("PLATFORM", 32, words={"UNIX": 3}, read_only=True)] = 3
    command_level: Annotated[int, row("CMDLEVEL", 31, high=_COUNT_MAX, read_only=True)] = 940
    version: Annotated[str, row("VERSION", 2120, chars=8, read_only=True)] = "09040000"
    #: SYNCPT and DISTL: capabilities of the queue manager. SCMDSERV: the command server starts with it. Output only.
    syncpoint_available: Annotated[int, row("SYNCPT", 30, words={"NO": 0, "YES": 1}, read_only=True)] = 1
    distribution_lists: Annotated[bool, row("DISTL", 34, words={"NO": 0, "YES": 1}, read_only=True)] = False
    command_server_control: Annotated[int, row("SCMDSERV", 120, words={"QMGR": 0, "MANUAL": 2}, read_only=True)] = 0
    #: Attributes that are stored and shown, but have no effect in this queue manager.
    accounting_override: Annotated[bool, _switch("ACCTCONO", 136)] = False
    accounting_interval_s: Annotated[int, number_row("ACCTINT", 135, 0, _WEEK_S)] = 1800
    accounting_mqi: Annotated[bool, _choice("ACCTMQI", 133, _ON)] = False
    accounting_queues: Annotated[int, _choice("ACCTQ", 134, _NONE | _ON)] = 0
    activity_recording: Annotated[int, _choice("ACTIVREC", 138, _RECORDING)] = 2
    activity_trace_override: Annotated[bool, _switch("ACTVCONO", 239)] = False
    activity_trace: Annotated[bool, _choice("ACTVTRC", 240, _ON)] = False
    certificate_policy: Annotated[int, _choice("CERTVPOL", 252, {"ANY": 0, "RFC5280": 1})] = 0
    channel_auto_definition_event: Annotated[bool, _switch("CHADEV", 56)] = False
    channel_auto_definition_exit: Annotated[str, text_row("CHADEXIT", 2026, 128)] = ""
    channel_event: Annotated[int, _choice("CHLEV", 73, {**ON_OFF, "EXCEPTION": 2})] = 0
    channel_initiator_control: Annotated[int, _choice("SCHINIT", 119, _CONTROL)] = 0
    channel_monitoring: Annotated[int, _choice("MONCHL", 122, _NONE | _MONITORING)] = 0
    channel_statistics: Annotated[int, _choice("STATCHL", 129, _NONE | _MONITORING)] = 0
    cluster_sender_monitoring: Annotated[int, _choice("MONACLS", 124, _AS_QMGR | _MONITORING)] = -3
    cluster_sender_statistics: Annotated[int, _choice("STATACLS", 130, _AS_QMGR | _MONITORING)] = -3
    cluster_workload_data: Annotated[str, text_row("CLWLDATA", 2034, 32)] = ""
    cluster_workload_exit: Annotated[str, text_row("CLWLEXIT", 2033, 128)] = ""
    cluster_workload_bytes: Annotated[int, number_row("CLWLLEN", 58, 0, _COUNT_MAX)] = 100
    cluster_workload_channels: Annotated[int, number_row("CLWLMRUC", 97, 1, _COUNT_MAX)] = _COUNT_MAX
    cluster_workload_use_queue: Annotated[int, _choice("CLWLUSEQ", 98, {"LOCAL": 0, "ANY": 1})] = 0
    configuration_event: Annotated[bool, _switch("CONFIGEV", 51)] = False
    default_cluster_transmission_queue: Annotated[int, _choice("DEFCLXQ", 250, {"SCTQ": 0, "CHANNEL": 1})] = 0
    image_interval_minutes: Annotated[int, row("IMGINTVL", 269, low=1, high=_COUNT_MAX, words={"OFF": 0})] = 60
    image_log_megabytes: Annotated[int, row("IMGLOGLN", 270, low=1, high=_COUNT_MAX, words={"OFF": 0})] = 0
    image_recover_objects: Annotated[bool, _choice("IMGRCOVO", 271, _YES)] = True
    image_recover_queues: Annotated[bool, _choice("IMGRCOVQ", 272, _YES)] = True
    image_schedule: Annotated[int, _choice("IMGSCHED", 268, {"MANUAL": 0, "AUTO": 1})] = 0
    ip_version: Annotated[int, _choice("IPADDRV", 93, {"IPV4": 0, "IPV6": 1})] = 0
    logger_event: Annotated[bool, _switch("LOGGEREV", 94)] = False
    max_properties_bytes: Annotated[int, row("MAXPROPL", 192, low=0, high=104_857_600, words={"NOLIMIT": -1})] = -1
    parent: Annotated[str, name_row("PARENT", 2102)] = ""
    #: PSMODE(COMPAT): applications publish and subscribe by the MQI, and no queued publish/subscribe interface runs.
    publish_subscribe_mode: Annotated[int, _choice("PSMODE", 187, {"DISABLED": 0, "COMPAT": 1, "ENABLED": 2})] = 1
    publish_subscribe_clusters: Annotated[bool, _switch("PSCLUS", 249)] = True
    undelivered_input: Annotated[int, _choice("PSNPMSG", 203, {"DISCARD": 2, "KEEP": 3})] = 2
    undelivered_responses: Annotated[int, _choice("PSNPRES", 205, {"NORMAL": 0, "SAFE": 1, "DISCARD": 2, "KEEP": 3})] = 0
    publish_retries: Annotated[int, number_row("PSRTYCNT", 206, 0, _COUNT_MAX)] = 5
    publish_syncpoint: Annotated[int, _choice("PSSYNCPT", 207, {"YES": 0, "IFPER": 1})] = 1
    remote_event: Annotated[bool, _switch("REMOTEEV", 50)] = False
    repository: Annotated[str, name_row("REPOS", 2035)] = ""
    repository_namelist: Annotated[str, name_row("REPOSNL", 2036)] = ""
    reverse_dns: Annotated[int, _choice("REVDNS", 254, {"ENABLED": 0, "DISABLED": 1})] = 0
    route_recording: Annotated[int, _choice("ROUTEREC", 137, _RECORDING)] = 2
    statistics_interval_s: Annotated[int, number_row("STATINT", 131, 0, _WEEK_S)] = 1800
    statistics_mqi: Annotated[bool, _choice("STATMQI", 127, _ON)] = False
    statistics_queues: Annotated[int, _choice("STATQ", 128, _NONE | _ON)] = 0
    tls_event: Annotated[bool, _switch("SSLEV", 75)] = False
    tls_fips: Annotated[bool, _choice("SSLFIPS", 92, _YES)] = False
    tls_revocation_namelist: Annotated[str, name_row("SSLCRLNL", 2050)] = ""
    tls_hardware: Annotated[str, text_row("SSLCRYP", 2051, 256)] = ""
    tls_reset_bytes: Annotated[int, number_row("SSLRKEYC", 76, 0, _COUNT_MAX)] = 0
    topic_life_minutes: Annotated[int, number_row("TREELIFE", 183, 0, 604_000)] = 1800
    #: MONQ: the level for queues with MONQ(QMGR).
    queue_monitoring: Annotated[int, _choice("MONQ", 123, _NONE | _MONITORING)] = 0
    #: The events that are switched on: AUTHOREV, CMDEV, INHIBTEV, LOCALEV, PERFMEV, STRSTPEV.
    authority_event: Annotated[bool, _switch("AUTHOREV", 47)] = False
    command_event: Annotated[int, _choice("CMDEV", 99, {**ON_OFF, "NODISPLAY": 3})] = 0
    inhibit_event: Annotated[bool, _switch("INHIBTEV", 48)] = False
    local_event: Annotated[bool, _switch("LOCALEV", 49)] = False
    performance_event: Annotated[bool, _switch("PERFMEV", 53)] = False
    #: IBM's default is ENABLED. Here it is off: tests start a queue manager very often, and nothing would read the messages.
    start_stop_event: Annotated[bool, _switch("STRSTPEV", 52)] = False
    #: Capabilities that this queue manager does not have: ADVCAP, AMQPCAP, SPLCAP, XRCAP. Output only.
    advanced_capability: Annotated[bool, row("ADVCAP", 273, words=ON_OFF, read_only=True)] = False
    amqp_capability: Annotated[bool, row("AMQPCAP", 265, words=_YES, read_only=True)] = False
    policy_capability: Annotated[bool, row("SPLCAP", 251, words=ON_OFF, read_only=True)] = False
    telemetry_capability: Annotated[bool, row("XRCAP", 243, words=_YES, read_only=True)] = False
    creation_date: Annotated[str, shown_row("CRDATE", 2004, 12)] = ""
    creation_time: Annotated[str, shown_row("CRTIME", 2005, 8)] = ""
    alteration_date: Annotated[str, shown_row("ALTDATE", 2027, 12)] = ""
    alteration_time: Annotated[str, shown_row("ALTTIME", 2028, 8)] = ""


QUEUE_MANAGER_ATTRIBUTES: Final = table_of(QueueManagerAttributes)
_FIELDS: Final = {spec.selector: spec for spec in QUEUE_MANAGER_ATTRIBUTES}


def queue_manager_attributes_from(name: str, answered: Mapping[int, int | str]) -> QueueManagerAttributes:
    """Return the record of the queue manager from the answers of MQINQ, by selector."""
    return convert({"name": name} | fields_from(answered, _FIELDS), QueueManagerAttributes, strict=False)
