"""The names of message properties: valid names, synonyms, wildcards, and the folder of each name.

A full name begins with its folder: a program writes `colour` for `usr.colour`. This module knows no value and no message.
Source: IBM, "Property names", "Property name restrictions", "Mapping from property names to MQRFH2 folder and element names",
MQINQMP (Name); rc2442, rc2513. The MQ names of the folder mqps, except MQTopicString, are from memory, without a page of IBM.
mqflow's own rule: each part between dots must be an identifier, because each part is the name of an element.
"""

from collections.abc import Callable
from typing import Final

from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.headers.rfh2_folder import NAME_BYTES_MAX
from mqflow.mqi.lexer import capitals
from mqflow.mqi.reason_codes import Reason

__all__ = ("DESCRIPTOR_PREFIX", "FOLDERS", "holds_properties", "matcher", "settable_name", "shown_name", "whole_name")

FOLDERS: Final = frozenset({"usr", "mcd", "jms", "mqext", "mqps", "mq", "mq_usr", "sib", "sib_usr", "sib_context"})
"""The folders of an MQRFH2 that always hold properties; any other folder needs content='properties'."""

DESCRIPTOR_PREFIX: Final = "Root.MQMD."
"""The prefix of an MQMD field in the name of a property."""

_SYNONYMS: Final = {
    "JMSCorrelationID": "jms.Cid",
    "JMSDeliveryMode": "jms.Dlv",
    "JMSDestination": "jms.Dst",
    "JMSExpiration": "jms.Exp",
    "JMSPriority": "jms.Pri",
    "JMSReplyTo": "jms.Rto",
    "JMSTimestamp": "jms.Tms",
    "JMSType": "mcd.Type",
    "JMSXGroupID": "jms.Gid",
    "JMSXGroupSeq": "jms.Seq",
    "MQTopicString": "mqps.Top",
    "MQSubUserData": "mqps.Sud",
    "MQIsRetained": "mqps.Ret",
    "MQPubOptions": "mqps.Pub",
    "MQPubLevel": "mqps.Pbl",
    "MQPubTime": "mqps.Pts",
    "MQPubSeqNum": "mqps.Seq",
    "MQPubStrIntData": "mqps.Sid",
    "MQPubFormat": "mqps.Pfmt",
}
_SHOWN: Final = {whole: synonym for synonym, whole in _SYNONYMS.items()}
#: Synonyms of fields that are in the descriptor and in no folder.
_OF_DESCRIPTOR: Final = {
    "JMSMessageID": "MsgId",
    "JMSRedelivered": "BackoutCount",
    "JMSXAppID": "PutApplName",
    "JMSXDeliveryCount": "BackoutCount",
    "JMSXUserID": "UserIdentifier",
}
_SETTABLE_JMS: Final = frozenset({"JMSCorrelationID", "JMSReplyTo", "JMSType", "JMSXGroupID", "JMSXGroupSeq"})
_KEYWORDS: Final = frozenset({"NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE"})


def whole_name(name: str) -> str:
    """Return the full name: `usr` is the folder of a name without a dot; a synonym is replaced. Names of MQMD fields stay."""
    if name in _OF_DESCRIPTOR:
        return DESCRIPTOR_PREFIX + _OF_DESCRIPTOR[name]
    return _SYNONYMS.get(name) or (name if "." in name else f"usr.{name}")


def shown_name(whole: str) -> str:
    """Return the name as MQINQMP gives it: the synonym if the name has a synonym, otherwise the name without `usr.`."""
    return _SHOWN.get(whole) or whole.removeprefix("usr.")


def settable_name(name: str, *, validate: bool = True) -> str:
    """Return the full name of a property that a program wants to set.

    Raises `MQIError` 2513 (MQRC_PROPERTY_NAME_LENGTH_ERR) for an empty name and for more than 4095 bytes. Raises `MQIError`
    2442 (MQRC_PROPERTY_NAME_ERROR) for an invalid name and, with `validate`, for a reserved name. Raises 2298 for a field of
    the MQMD: mqflow sets such a field in the descriptor only.
    """
    check_length(name, "MQSETMP")
    if name.startswith(DESCRIPTOR_PREFIX):
        detail = "Fields of the MQMD are set in the MQMD of the put, not as properties"
        raise error_for(Reason.FUNCTION_NOT_SUPPORTED, "MQSETMP", name, detail=detail)
    if not all(part.replace("$", "_").isidentifier() for part in name.split(".")):
        raise _no_name(name, "Each part between dots takes letters, digits, _ and $, starts with no digit, and is not empty")
    if validate:
        _check_reserved(name)
    return whole_name(name)


def matcher(name: str) -> Callable[[str], bool]:
    """Return a function that tests a full name against `name`: an exact name, or a prefix that ends in `%`.

    `%` alone matches every property, `usr.%` every property of the folder. Raises 2513 for a name
    that is empty or too long.
    """
    check_length(name, "MQINQMP")
    if not name.endswith("%"):
        wanted = whole_name(name)
        return lambda whole: whole == wanted
    prefix = name[:-1]
    return lambda whole: whole.startswith(prefix) or shown_name(whole).startswith(prefix)


def holds_properties(folder: str, attributes: tuple[tuple[str, str], ...]) -> bool:
    """Return whether the elements of this folder of an MQRFH2 are properties."""
    return folder in FOLDERS or ("content", "properties") in attributes


def check_length(name: str, verb: str) -> None:
    """Refuse (2513) an empty name, and a name of more than MQ_MAX_PROPERTY_NAME_LENGTH bytes."""
    if not name:
        raise error_for(Reason.PROPERTY_NAME_LENGTH_ERR, verb, detail="The name of a property is not empty")
    if len(name.encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX:
        raise error_for(Reason.PROPERTY_NAME_LENGTH_ERR, verb, detail=f"A name of more than {NAME_BYTES_MAX} bytes")


def _check_reserved(name: str) -> None:
    first = name.partition(".")[0]
    if name.startswith(("JMS", "usr.JMS")) and name not in _SETTABLE_JMS:
        raise _no_name(name, f"Only {', '.join(sorted(_SETTABLE_JMS))} can be set of the names that begin with JMS")
    if capitals(name) in _KEYWORDS:
        raise _no_name(name, "It is a keyword of selection strings")
    if first.lower() in {"root", "body"}:
        raise _no_name(name, f"{first} is reserved")
    if name.lower().startswith("mq") and not name.lower().startswith("mq_usr") and name.count(".") > 1:
        raise _no_name(name, "A name that begins with mq has one dot at most")


def _no_name(name: str, why: str) -> MQIError:
    return error_for(Reason.PROPERTY_NAME_ERROR, "A property's name", name[:48], detail=why)
