"""The commands of a script as records, one record type for each command. This file knows no syntax."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

from msgspec import Struct

from mqflow.embedded.administration.interface import ChannelRule, RuleType
from mqflow.embedded.administration.not_running import Asked
from mqflow.embedded.catalogue.kinds import Noun
from mqflow.mqi.authorities import Authority, AuthorityKind

__all__ = (
    "Act", "Action", "AlterCommand", "AlterQueueManagerCommand", "AuthorityAct", "ChannelAct", "ClearCommand", "ClearTopic",
    "Command", "DefineCommand", "DeleteAuthorityCommand", "DeleteCommand", "Display", "DisplayAuthorities",
    "DisplayCommand", "DisplayConnections", "DisplayDecidingRule", "DisplayEntity", "DisplayStatus",
    "DisplayStatusOf", "EndCommand", "ObjectCommand", "ObjectNoun", "Operator", "OrderByName", "OrderVerb", "OwnAct",
    "Ping", "QueueNoun", "RefreshSecurity", "RemoveChannelRules", "Selection", "SetAuthorityCommand", "SetChannelRule",
    "StatusNoun", "StopChannel", "StopConnection", "SyntaxProblem", "Unsupported", "Value", "Where", "Whose",
)  # fmt: skip

Value = bool | int | str | tuple[str, ...]
"""The value of an attribute."""

QueueNoun = Literal["QLOCAL", "QALIAS", "QMODEL", "QREMOTE"]

ObjectNoun = QueueNoun | Literal["TOPIC", "SUB"] | Noun
"""The objects that a command can define, alter, delete and show."""

OrderVerb = Literal["START CHANNEL", "START LISTENER", "STOP LISTENER"]

StatusNoun = Literal[
    "QMGR", "QMSTATUS", "PUBSUB", "LSSTATUS", "CHSTATUS", "SVSTATUS", "APSTATUS", "QSTATS", "SBSTATUS", "TPSTATUS",
    "TPSTATUS SUB", "TPSTATUS PUB", "CHLAUTH", "CLUSQMGR", "QCLUSTER", "TCLUSTER", "COMMINFO", "POLICY",
]  # fmt: skip
"""QMGR, and the nouns of DISPLAY and RESET that show a status, some with a TYPE. The last five never find an object."""


class Operator(StrEnum):
    """The comparisons of WHERE."""

    LT = "LT"
    GT = "GT"
    EQ = "EQ"
    NE = "NE"
    LE = "LE"
    GE = "GE"
    LK = "LK"
    NL = "NL"


class Where(Struct, frozen=True):
    """The condition of WHERE. DISPLAY shows only objects that have the attribute and meet the condition."""

    keyword: str
    operator: Operator
    operand: Value


class Selection(Struct, frozen=True):
    """The attributes that a DISPLAY shows for each object: all attributes, or only name, type and `keywords`."""

    everything: bool
    keywords: frozenset[str] = frozenset()
    where: Where | None = None
    #: A second condition: TYPE of DISPLAY CHLAUTH.
    type: Where | None = None


class DefineCommand(Struct, frozen=True):
    """DEFINE QLOCAL, TOPIC, SUB, CHANNEL ... Attributes missing in `values` come from `like` or from the default object."""

    noun: ObjectNoun
    name: str
    values: Mapping[str, Value]
    #: The object's type (CHLTYPE, AUTHTYPE); 0 for a noun with one type only.
    kind: int = 0
    like: str = ""
    replace: bool = False


class AlterCommand(Struct, frozen=True):
    """ALTER QLOCAL, TOPIC, SUB, CHANNEL ... Attributes missing in `values` do not change."""

    noun: ObjectNoun
    name: str
    values: Mapping[str, Value]
    #: The object's type (CHLTYPE, AUTHTYPE); 0 for an object of any type.
    kind: int = 0
    force: bool = False


class AlterQueueManagerCommand(Struct, frozen=True):
    """ALTER QMGR."""

    values: Mapping[str, Value]


class DeleteCommand(Struct, frozen=True):
    """DELETE QLOCAL, TOPIC, SUB, CHANNEL ..."""

    noun: ObjectNoun
    name: str
    purge: bool = False
    #: IGNSTATE(YES): the command succeeds even if no object has this name.
    ignore_state: bool = False
    #: AUTHREC(NO): keep the authority records of this name.
    keep_authorities: bool = False
    #: True for a client-connection channel (CHLTABLE(CLNTTAB)), False for other channels, None if CHLTABLE is not given.
    client: bool | None = None


class ClearCommand(Struct, frozen=True):
    """CLEAR QLOCAL."""

    name: str


class DisplayCommand(Struct, frozen=True):
    """DISPLAY QUEUE, QLOCAL, TOPIC, SUB, CHANNEL ..."""

    noun: ObjectNoun | Literal["QUEUE"]
    #: A name, or a generic name that ends in an asterisk.
    pattern: str
    #: The only type to show: a `QueueType`, CHLTYPE or AUTHTYPE; 0 for every type.
    kind: int
    selection: Selection


class DisplayStatus(Struct, frozen=True):
    """DISPLAY QSTATUS."""

    pattern: str
    #: True for TYPE(HANDLE), False for TYPE(QUEUE).
    handles: bool
    selection: Selection


class Ping(Struct, frozen=True):
    """PING QMGR: checks that the queue manager responds."""


class EndCommand(Struct, frozen=True):
    """END, QUIT or EXIT: ends the script. Later lines do not run."""


class Unsupported(Struct, frozen=True):
    """An MQSC command that the embedded queue manager does not support."""

    #: Verb and noun: "DEFINE CHANNEL".
    what: str


class Whose(Struct, frozen=True):
    """The user (PRINCIPAL) or the group (GROUP) that has an authority."""

    entity: str
    group: bool


class SetAuthorityCommand(Struct, frozen=True):
    """SET AUTHREC. Words such as ALLMQI are already expanded."""

    profile: str
    kind: AuthorityKind
    whose: Whose
    add: tuple[Authority, ...]
    remove: tuple[Authority, ...]


class DeleteAuthorityCommand(Struct, frozen=True):
    """DELETE AUTHREC."""

    profile: str
    kind: AuthorityKind
    whose: Whose


class DisplayAuthorities(Struct, frozen=True):
    """DISPLAY AUTHREC."""

    #: Empty for every profile.
    profile: str
    #: None for every type of object.
    kind: AuthorityKind | None
    whose: Whose | None
    #: MATCH(EXACT): leave out the generic profiles that apply to `profile`.
    exact: bool


class DisplayEntity(Struct, frozen=True):
    """DISPLAY ENTAUTH."""

    name: str
    kind: AuthorityKind
    whose: Whose


class RefreshSecurity(Struct, frozen=True):
    """REFRESH SECURITY."""

    #: AUTHSERV forgets the groups of all users. SSL and CONNAUTH change nothing.
    what: str


class ClearTopic(Struct, frozen=True):
    """CLEAR TOPICSTR CLRTYPE(RETAINED)."""

    topic_string: str


class DisplayDecidingRule(Struct, frozen=True):
    """DISPLAY CHLAUTH MATCH(RUNCHECK)."""

    pattern: str
    address: str
    user: str
    selection: Selection


class DisplayStatusOf(Struct, frozen=True):
    """DISPLAY QMGR, QMSTATUS, PUBSUB, TPSTATUS ..., and RESET QSTATS."""

    noun: StatusNoun
    #: Empty if the command has no name.
    pattern: str
    selection: Selection


class StopConnection(Struct, frozen=True):
    """STOP CONN."""

    #: 16 hexadecimal digits.
    identifier: str


class DisplayConnections(Struct, frozen=True):
    """DISPLAY CONN."""

    #: A connection identifier, or its first characters and an asterisk.
    pattern: str
    #: True for TYPE(HANDLE), False for TYPE(CONN), None for TYPE(ALL), which shows both.
    handles: bool | None
    selection: Selection


class SetChannelRule(Struct, frozen=True):
    """SET CHLAUTH with ACTION(ADD), ACTION(REPLACE) or ACTION(REMOVE)."""

    rule: ChannelRule
    replace: bool = False
    removes: bool = False


class RemoveChannelRules(Struct, frozen=True):
    """SET CHLAUTH ACTION(REMOVEALL)."""

    profile: str
    type: RuleType


class OrderByName(Struct, frozen=True):
    """START CHANNEL, START LISTENER or STOP LISTENER."""

    verb: OrderVerb
    name: str


class StopChannel(Struct, frozen=True):
    """STOP CHANNEL."""

    name: str
    #: CONNAME: only the instances of this client.
    address: str = ""
    #: True for STATUS(STOPPED), False for STATUS(INACTIVE).
    stays_stopped: bool = True


Display = (
    DisplayCommand
    | DisplayStatus
    | DisplayAuthorities
    | DisplayEntity
    | DisplayConnections
    | DisplayDecidingRule
    | DisplayStatusOf
)
"""The commands that only show objects or a status."""

AuthorityAct = SetAuthorityCommand | DeleteAuthorityCommand | RefreshSecurity
ChannelAct = SetChannelRule | RemoveChannelRules | StopChannel | OrderByName
ObjectCommand = DefineCommand | AlterCommand | DeleteCommand
OwnAct = AlterQueueManagerCommand | ClearCommand | ClearTopic | Ping | EndCommand | StopConnection
Act = ObjectCommand | OwnAct | AuthorityAct | ChannelAct | Asked
"""The commands that show nothing."""

Action = Act | Display | Unsupported


class Command(Struct, frozen=True):
    """A valid command."""

    action: Action
    #: The text of the command in the script, joined to one line.
    text: str
    #: The first line of the command, counted from 1.
    line: int
    #: MQSC attributes that the embedded queue manager does not support. It carries out the rest of the command.
    ignored: tuple[str, ...] = ()


class SyntaxProblem(Struct, frozen=True):
    """An invalid command, and the position of the error."""

    message: str
    #: The text of the command in the script, joined to one line; only its last line if the command has no end.
    text: str
    line: int
    column: int
    #: The line of the script with the position `line` and `column`.
    source: str
