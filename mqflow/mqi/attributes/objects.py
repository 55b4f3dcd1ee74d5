"""Namelists, processes, authentication information, listeners and services: records, and tables that say everything about them.

They read like the tables of queues (`attributes`). Definitions only: nothing is started, listened on or asked for a password.
Channels are in `channel_attributes`.
Source: DEFINE NAMELIST, PROCESS, AUTHINFO, LISTENER, SERVICE keywords and defaults; MQCA_*, MQIA_*, MQCACH_*, MQIACH_* numbers.
"""

from typing import Final

from msgspec import Struct

from mqflow.mqi.attributes.queue import AttributeSpec

__all__ = (
    "AUTHENTICATION_ATTRIBUTES",
    "LISTENER_ATTRIBUTES",
    "NAMELIST_ATTRIBUTES",
    "NAMES_MAX",
    "PROCESS_ATTRIBUTES",
    "SERVICE_ATTRIBUTES",
    "AuthenticationAttributes",
    "ListenerAttributes",
    "NamelistAttributes",
    "ProcessAttributes",
    "ServiceAttributes",
)

NAMES_MAX: Final = 256


class NamelistAttributes(Struct, frozen=True, kw_only=True, tag="namelist"):
    """A list of names, usually of queues."""

    name: str
    description: str = ""
    names: tuple[str, ...] = ()
    alteration_date: str = ""
    alteration_time: str = ""

    @property
    def name_count(self) -> int:
        """NAMCOUNT."""
        return len(self.names)


class ProcessAttributes(Struct, frozen=True, kw_only=True, tag="process"):
    """What a trigger monitor starts: APPLTYPE is an MQAT_*."""

    name: str
    description: str = ""
    application_type: int = 6
    application: str = ""
    environment_data: str = ""
    user_data: str = ""
    alteration_date: str = ""
    alteration_time: str = ""


class AuthenticationAttributes(Struct, frozen=True, kw_only=True, tag="authinfo"):
    """How users or certificates are checked. `kind` is an MQAIT_*: 1 CRLLDAP, 2 OCSP, 3 IDPWOS, 4 IDPWLDAP."""

    name: str
    kind: int
    description: str = ""
    connection_name: str = ""
    ldap_user: str = ""
    ocsp_url: str = ""
    #: CHCKLOCL and CHCKCLNT, MQCHK_*: 0 optional, 1 none, 2 required of administrators, 3 required, 4 as the queue manager.
    check_local: int = 0
    check_client: int = 2
    #: FAILDLAY in seconds.
    failure_delay_s: int = 1
    adopt_context: bool = True
    #: AUTHENMD: 0 operating system, 1 PAM.
    method: int = 0
    alteration_date: str = ""
    alteration_time: str = ""


class ListenerAttributes(Struct, frozen=True, kw_only=True, tag="listener"):
    """Where a queue manager listens. Numbers are MQXPT_* and MQSVC_CONTROL_*."""

    name: str
    description: str = ""
    transport: int = 2
    #: CONTROL: 0 with the queue manager, 1 started with it, 2 by hand.
    control: int = 2
    port: int = 1414
    address: str = ""
    backlog: int = 0
    alteration_date: str = ""
    alteration_time: str = ""


class ServiceAttributes(Struct, frozen=True, kw_only=True, tag="service"):
    """A program beside the queue manager. Numbers are MQSVC_TYPE_* and MQSVC_CONTROL_*."""

    name: str
    description: str = ""
    #: SERVTYPE: 0 command, 1 server.
    service_type: int = 0
    control: int = 2
    start_command: str = ""
    start_arguments: str = ""
    stop_command: str = ""
    stop_arguments: str = ""
    standard_output: str = ""
    standard_error: str = ""
    alteration_date: str = ""
    alteration_time: str = ""


_NO_YES: Final = {"NO": 0, "YES": 1}
_CONTROL: Final = {"QMGR": 0, "STARTONLY": 1, "MANUAL": 2}
_CHECKS: Final = {"OPTIONAL": 0, "NONE": 1, "REQDADM": 2, "REQUIRED": 3}
_APPLICATIONS: Final = {
    "UNIX": 6, "CICS": 1, "DOS": 5, "WINDOWS": 9, "WINDOWSNT": 11, "VMS": 12, "NSK": 13, "NOTESAGENT": 22, "OS400": 8, "DEF": 6,
}  # fmt: skip
_DATE: Final = AttributeSpec("alteration_date", "ALTDATE", 2027, chars=12, read_only=True)
_TIME: Final = AttributeSpec("alteration_time", "ALTTIME", 2028, chars=8, read_only=True)
_ANY_KIND: Final = frozenset({1, 2, 3, 4})
_OS: Final = frozenset({3})
_LDAP: Final = frozenset({1, 4})
_PASSWORDS: Final = frozenset({3, 4})


def _name(keyword: str, selector: int) -> AttributeSpec:
    return AttributeSpec("name", keyword, selector, chars=48, object_name=True, read_only=True)


def _text(field: str, keyword: str, selector: int, chars: int, kinds: frozenset[int] = frozenset()) -> AttributeSpec:
    return AttributeSpec(field, keyword, selector, kinds, chars=chars)


NAMELIST_ATTRIBUTES: Final = (
    _name("NAMELIST", 2010),
    _text("description", "DESCR", 2009, 64),
    AttributeSpec("names", "NAMES", 2020, chars=48, object_name=True, items_max=NAMES_MAX),
    AttributeSpec("name_count", "NAMCOUNT", 19, high=NAMES_MAX, read_only=True),
    _DATE,
    _TIME,
)
PROCESS_ATTRIBUTES: Final = (
    _name("PROCESS", 2012),
    _text("description", "DESCR", 2011, 64),
    AttributeSpec("application_type", "APPLTYPE", 1, low=0, high=999_999_999, words=_APPLICATIONS),
    _text("application", "APPLICID", 2001, 256),
    _text("environment_data", "ENVRDATA", 2007, 128),
    _text("user_data", "USERDATA", 2021, 128),
    _DATE,
    _TIME,
)
AUTHENTICATION_ATTRIBUTES: Final = (
    _name("AUTHINFO", 2045),
    AttributeSpec("kind", "AUTHTYPE", 66, _ANY_KIND, words={"CRLLDAP": 1, "OCSP": 2, "IDPWOS": 3, "IDPWLDAP": 4}),
    _text("description", "DESCR", 2046, 64, _ANY_KIND),
    _text("connection_name", "CONNAME", 2053, 264, _LDAP),
    _text("ldap_user", "LDAPUSER", 2047, 1024, _LDAP),
    _text("ocsp_url", "OCSPURL", 2109, 256, frozenset({2})),
    AttributeSpec("check_local", "CHCKLOCL", 257, _PASSWORDS, words=_CHECKS),
    AttributeSpec("check_client", "CHCKCLNT", 258, _PASSWORDS, words=_CHECKS | {"ASQMGR": 4}),
    AttributeSpec("failure_delay_s", "FAILDLAY", 259, _PASSWORDS, high=60),
    AttributeSpec("adopt_context", "ADOPTCTX", 260, _PASSWORDS, words=_NO_YES),
    AttributeSpec("method", "AUTHENMD", 266, _OS, words={"OS": 0, "PAM": 1}),
    _DATE,
    _TIME,
)
LISTENER_ATTRIBUTES: Final = (
    _name("LISTENER", 3554),
    AttributeSpec("transport", "TRPTYPE", 1501, words={"TCP": 2, "LU62": 1, "NETBIOS": 3, "SPX": 4}),
    _text("description", "DESCR", 3555, 64),
    AttributeSpec("control", "CONTROL", 1601, words=_CONTROL),
    AttributeSpec("port", "PORT", 1522, high=65_535),
    _text("address", "IPADDR", 3552, 48),
    AttributeSpec("backlog", "BACKLOG", 1602, high=999_999_999),
    _DATE,
    _TIME,
)
SERVICE_ATTRIBUTES: Final = (
    _name("SERVICE", 2077),
    _text("description", "DESCR", 2078, 64),
    AttributeSpec("control", "CONTROL", 139, words=_CONTROL),
    AttributeSpec("service_type", "SERVTYPE", 121, words={"COMMAND": 0, "SERVER": 1}),
    _text("start_command", "STARTCMD", 2079, 255),
    _text("start_arguments", "STARTARG", 2080, 255),
    _text("stop_command", "STOPCMD", 2081, 255),
    _text("stop_arguments", "STOPARG", 2082, 255),
    _text("standard_output", "STDOUT", 2083, 255),
    _text("standard_error", "STDERR", 2084, 255),
    _DATE,
    _TIME,
)
