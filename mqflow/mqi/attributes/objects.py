"""The attributes of namelists, processes, authentication information, listeners and services.

The tables have the form of the table of queues (`attributes.queue`), and also have the default of each attribute. The table of
channels is in `attributes.channel`. The embedded queue manager only stores and shows these objects. This module knows no queue
manager.
Source: DEFINE NAMELIST, PROCESS, AUTHINFO, LISTENER, SERVICE keywords and defaults; MQCA_*, MQIA_*, MQCACH_*, MQIACH_* numbers.
"""

from collections.abc import Mapping
from typing import Final

from mqflow.mqi.attributes.queue import AttributeSpec

__all__ = (
    "ALTERED",
    "AUTHENTICATION_ATTRIBUTES",
    "LISTENER_ATTRIBUTES",
    "NAMELIST_ATTRIBUTES",
    "NAMES_MAX",
    "PROCESS_ATTRIBUTES",
    "SERVICE_ATTRIBUTES",
    "ObjectAttribute",
    "choice",
    "name",
    "number",
    "text",
)

NAMES_MAX: Final = 256
"""The most names that a namelist holds."""

_COUNT_MAX: Final = 999_999_999
_ANY: Final[frozenset[int]] = frozenset()


class ObjectAttribute(AttributeSpec, frozen=True, kw_only=True):
    """One attribute of an object of this module, with its default. The type of the default is the type of every value."""

    default: bool | int | str | tuple[str, ...] = ""
    #: The list field, if this attribute is the number of names in that list. The number itself is not stored.
    counts: str = ""


def number(
    field: str, keyword: str, selector: int, default: int, high: int = _COUNT_MAX, low: int = 0, *, kinds: frozenset[int] = _ANY
) -> ObjectAttribute:
    """Return the row of a numeric attribute."""
    return ObjectAttribute(field, keyword, selector, kinds, low=low, high=high, default=default)


def choice(
    field: str, keyword: str, selector: int, default: int, words: Mapping[str, int], *, kinds: frozenset[int] = _ANY
) -> ObjectAttribute:
    """Return the row of an attribute that takes one of these words; a default of True or False makes it a boolean."""
    return ObjectAttribute(field, keyword, selector, kinds, words=words, default=default)


def text(field: str, keyword: str, selector: int, chars: int, *, kinds: frozenset[int] = _ANY) -> ObjectAttribute:
    """Return the row of the table of attributes for a text of up to `chars` characters."""
    return ObjectAttribute(field, keyword, selector, kinds, chars=chars)


def name(keyword: str, selector: int, chars: int = 48) -> ObjectAttribute:
    """Return the row of the table of attributes for the object's own name."""
    return ObjectAttribute("name", keyword, selector, chars=chars, object_name=True, read_only=True)


ALTERED: Final = (
    ObjectAttribute("alteration_date", "ALTDATE", 2027, chars=12, read_only=True),
    ObjectAttribute("alteration_time", "ALTTIME", 2028, chars=8, read_only=True),
)
"""The last two attributes of every object."""

# MQSVC_CONTROL_*: started and stopped with the queue manager, only started with it, or controlled by hand.
_CONTROL: Final = {"QMGR": 0, "STARTONLY": 1, "MANUAL": 2}
# MQCHK_*.
_CHECKS: Final = {"OPTIONAL": 0, "NONE": 1, "REQDADM": 2, "REQUIRED": 3}
# MQAT_*.
_APPLICATIONS: Final = {
    "UNIX": 6, "CICS": 1, "DOS": 5, "WINDOWS": 9, "WINDOWSNT": 11, "VMS": 12, "NSK": 13, "NOTESAGENT": 22, "OS400": 8, "DEF": 6,
}  # fmt: skip
_OCSP: Final = frozenset({2})
_OS: Final = frozenset({3})
_LDAP: Final = frozenset({1, 4})
_PASSWORDS: Final = frozenset({3, 4})

NAMELIST_ATTRIBUTES: Final = (
    name("NAMELIST", 2010),
    text("description", "DESCR", 2009, 64),
    ObjectAttribute("names", "NAMES", 2020, chars=48, object_name=True, items_max=NAMES_MAX, default=()),
    ObjectAttribute("name_count", "NAMCOUNT", 19, high=NAMES_MAX, read_only=True, default=0, counts="names"),
    *ALTERED,
)
PROCESS_ATTRIBUTES: Final = (
    name("PROCESS", 2012),
    text("description", "DESCR", 2011, 64),
    ObjectAttribute("application_type", "APPLTYPE", 1, high=_COUNT_MAX, words=_APPLICATIONS, default=6),
    text("application", "APPLICID", 2001, 256),
    text("environment_data", "ENVRDATA", 2007, 128),
    text("user_data", "USERDATA", 2021, 128),
    *ALTERED,
)
AUTHENTICATION_ATTRIBUTES: Final = (
    name("AUTHINFO", 2045),
    # MQAIT_*.
    choice("kind", "AUTHTYPE", 66, 0, {"CRLLDAP": 1, "OCSP": 2, "IDPWOS": 3, "IDPWLDAP": 4}),
    text("description", "DESCR", 2046, 64),
    text("connection_name", "CONNAME", 2053, 264, kinds=_LDAP),
    text("ldap_user", "LDAPUSER", 2047, 1024, kinds=_LDAP),
    text("ocsp_url", "OCSPURL", 2109, 256, kinds=_OCSP),
    choice("check_local", "CHCKLOCL", 257, 0, _CHECKS, kinds=_PASSWORDS),
    choice("check_client", "CHCKCLNT", 258, 2, _CHECKS | {"ASQMGR": 4}, kinds=_PASSWORDS),
    number("failure_delay_s", "FAILDLAY", 259, 1, 60, kinds=_PASSWORDS),
    choice("adopt_context", "ADOPTCTX", 260, True, {"NO": 0, "YES": 1}, kinds=_PASSWORDS),
    choice("method", "AUTHENMD", 266, 0, {"OS": 0, "PAM": 1}, kinds=_OS),
    *ALTERED,
)
LISTENER_ATTRIBUTES: Final = (
    name("LISTENER", 3554),
    # MQXPT_*.
    choice("transport", "TRPTYPE", 1501, 2, {"TCP": 2, "LU62": 1, "NETBIOS": 3, "SPX": 4}),
    text("description", "DESCR", 3555, 64),
    choice("control", "CONTROL", 1601, 2, _CONTROL),
    number("port", "PORT", 1522, 1414, 65_535),
    text("address", "IPADDR", 3552, 48),
    number("backlog", "BACKLOG", 1602, 0),
    *ALTERED,
)
SERVICE_ATTRIBUTES: Final = (
    name("SERVICE", 2077),
    text("description", "DESCR", 2078, 64),
    choice("control", "CONTROL", 139, 2, _CONTROL),
    choice("service_type", "SERVTYPE", 121, 0, {"COMMAND": 0, "SERVER": 1}),
    text("start_command", "STARTCMD", 2079, 255),
    text("start_arguments", "STARTARG", 2080, 255),
    text("stop_command", "STOPCMD", 2081, 255),
    text("stop_arguments", "STOPARG", 2082, 255),
    text("standard_output", "STDOUT", 2083, 255),
    text("standard_error", "STDERR", 2084, 255),
    *ALTERED,
)
