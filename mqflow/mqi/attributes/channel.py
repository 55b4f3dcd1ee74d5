"""The attributes of channels. A row names the types of channel (MQCHT_*) that have the attribute; no types means all types.

The table has the form of the tables in `attributes.objects`. No message moves through a channel of the embedded queue manager.
The table leaves out exits, compression and the words for LU 6.2. It also leaves out PASSWORD: no definition keeps a secret.
Source: DEFINE CHANNEL keywords and defaults; MQIACH_*, MQCACH_*, MQCHT_*, MQXPT_* numbers.
"""

from enum import IntEnum
from typing import Final

from mqflow.mqi.attributes.objects import ALTERED, ObjectAttribute, choice, name, number, text
from mqflow.mqi.names import CHANNEL_NAME_CHARS_MAX

__all__ = ("CHANNEL_ATTRIBUTES", "ChannelType")


class ChannelType(IntEnum):
    """MQCHT_*."""

    SENDER = 1
    SERVER = 2
    RECEIVER = 3
    REQUESTER = 4
    CLNTCONN = 6
    SVRCONN = 7
    CLUSRCVR = 8
    CLUSSDR = 9


_T = ChannelType
_ALL: Final[frozenset[int]] = frozenset(ChannelType)
_SENDING: Final[frozenset[int]] = frozenset({_T.SENDER, _T.SERVER, _T.CLUSSDR, _T.CLUSRCVR})
_RECEIVING: Final[frozenset[int]] = frozenset({_T.RECEIVER, _T.REQUESTER, _T.CLUSRCVR})
_MESSAGES: Final = _ALL - {_T.CLNTCONN, _T.SVRCONN}
_CALLING: Final = _ALL - {_T.RECEIVER, _T.SVRCONN}
_CLUSTERED: Final[frozenset[int]] = frozenset({_T.CLUSSDR, _T.CLUSRCVR})
_CLIENTS: Final[frozenset[int]] = frozenset({_T.CLNTCONN, _T.SVRCONN})
_CLIENT: Final[frozenset[int]] = frozenset({_T.CLNTCONN})
_SERVER: Final[frozenset[int]] = frozenset({_T.SVRCONN})
_LEVELS: Final = {"QMGR": -3, "OFF": 0, "LOW": 17, "MEDIUM": 33, "HIGH": 65}
_TYPES: Final = {
    "SDR": 1, "SVR": 2, "RCVR": 3, "RQSTR": 4, "CLNTCONN": 6, "SVRCONN": 7, "CLUSRCVR": 8, "CLUSSDR": 9,
}  # fmt: skip


def _object(field: str, keyword: str, selector: int, kinds: frozenset[int]) -> ObjectAttribute:
    return ObjectAttribute(field, keyword, selector, kinds, chars=48, object_name=True)


CHANNEL_ATTRIBUTES: Final[tuple[ObjectAttribute, ...]] = (
    name("CHANNEL", 3501, CHANNEL_NAME_CHARS_MAX),
    choice("kind", "CHLTYPE", 1511, 0, _TYPES),
    text("description", "DESCR", 3502, 64),
    choice("transport", "TRPTYPE", 1501, 2, {"TCP": 2, "LU62": 1, "NETBIOS": 3, "SPX": 4}),
    text("connection_name", "CONNAME", 3506, 264, kinds=_CALLING),
    _object("transmission_queue", "XMITQ", 3505, frozenset({_T.SENDER, _T.SERVER})),
    text("local_address", "LOCLADDR", 3520, 48, kinds=_CALLING),
    text("mca_user", "MCAUSER", 3527, 64, kinds=_ALL - _CLIENT),
    number("max_message_bytes", "MAXMSGL", 1510, 4_194_304, 104_857_600),
    number("heartbeat_s", "HBINT", 1563, 300, 999_999),
    # AUTO: the keep-alive interval follows the heartbeat.
    ObjectAttribute("keep_alive_s", "KAINT", 1566, high=99_999, words={"AUTO": -1}, default=-1),
    number("batch_size", "BATCHSZ", 1502, 50, 9_999, 1, kinds=_MESSAGES),
    number("batch_interval_ms", "BATCHINT", 1564, 0, kinds=_SENDING),
    number("batch_heartbeat_ms", "BATCHHB", 1567, 0, 999_999, kinds=_SENDING),
    number("batch_limit_kib", "BATCHLIM", 1624, 5_000, 999_999, kinds=_SENDING),
    number("disconnect_s", "DISCINT", 1503, 6_000, 999_999, kinds=_SENDING | _SERVER),
    number("short_retries", "SHORTRTY", 1505, 10, kinds=_SENDING),
    number("short_retry_s", "SHORTTMR", 1504, 60, kinds=_SENDING),
    number("long_retries", "LONGRTY", 1507, 999_999_999, kinds=_SENDING),
    number("long_retry_s", "LONGTMR", 1506, 1_200, kinds=_SENDING),
    number("sequence_wrap", "SEQWRAP", 1509, 999_999_999, low=100, kinds=_MESSAGES),
    choice("nonpersistent_speed", "NPMSPEED", 1562, 2, {"NORMAL": 1, "FAST": 2}, kinds=_MESSAGES),
    choice("convert", "CONVERT", 1515, False, {"NO": 0, "YES": 1}, kinds=_SENDING),
    choice("put_authority", "PUTAUT", 1508, 1, {"DEF": 1, "CTX": 2}, kinds=_RECEIVING),
    choice("mca_type", "MCATYPE", 1517, 1, {"PROCESS": 1, "THREAD": 2}, kinds=_SENDING | {_T.REQUESTER}),
    number("message_retries", "MRRTY", 1544, 10, kinds=_RECEIVING),
    number("message_retry_ms", "MRTMR", 1545, 1_000, kinds=_RECEIVING),
    text("cipher_spec", "SSLCIPH", 3544, 32),
    text("peer_name", "SSLPEER", 3545, 1024),
    choice(
        "client_authentication",
        "SSLCAUTH",
        1568,
        0,
        {"REQUIRED": 0, "OPTIONAL": 1},
        kinds=_ALL - {_T.SENDER, _T.CLNTCONN, _T.CLUSSDR},
    ),
    text("certificate_label", "CERTLABL", 2121, 64, kinds=_ALL - {_T.CLUSSDR}),
    number("sharing_conversations", "SHARECNV", 1615, 10, kinds=_CLIENTS),
    number("instances_max", "MAXINST", 1618, 999_999_999, kinds=_SERVER),
    number("instances_per_client_max", "MAXINSTC", 1619, 999_999_999, kinds=_SERVER),
    text("queue_manager", "QMNAME", 2015, 48, kinds=_CLIENT),
    choice("affinity", "AFFINITY", 1621, 1, {"PREFERRED": 1, "NONE": 0}, kinds=_CLIENT),
    number("client_weight", "CLNTWGHT", 1620, 0, 99, kinds=_CLIENT),
    # MQRCN_*.
    choice("default_reconnection", "DEFRECON", 1640, 0, {"NO": 0, "YES": 1, "QMGR": 2, "DISABLED": 3}, kinds=_CLIENT),
    _object("cluster", "CLUSTER", 2029, _CLUSTERED),
    _object("cluster_namelist", "CLUSNL", 2030, _CLUSTERED),
    number("cluster_rank", "CLWLRANK", 1577, 0, 9, kinds=_CLUSTERED),
    number("cluster_priority", "CLWLPRTY", 1578, 0, 9, kinds=_CLUSTERED),
    number("cluster_weight", "CLWLWGHT", 1579, 50, 99, 1, kinds=_CLUSTERED),
    choice("monitoring", "MONCHL", 122, -3, _LEVELS, kinds=_ALL - _CLIENT),
    choice("statistics", "STATCHL", 129, -3, _LEVELS, kinds=_MESSAGES),
    *ALTERED,
)
